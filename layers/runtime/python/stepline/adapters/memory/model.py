"""ModelClient that plays a script: for tests, and wherever known text takes the model's place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, Self

from msgspec.structs import replace

from stepline.errors import (
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)
from stepline.model.base import Value
from stepline.model.decision import Declined
from stepline.model.usage import Usage, estimate_tokens
from stepline.ports.model import Completion, ModelRequest

MODEL: Final = "memory"
TRIES: Final = 3
RETRIED: Final = (
    ModelOverloaded,
    ModelRateLimited,
    ModelUnreachable,
    ModelTimeout,
    ModelStreamBroken,
    DependencyError,
)


class Say(Value):
    """One answer, streamed in pieces of `piece_chars`; `usage` is estimated if not given.

    `declined` has the details of one with the stop reason `refusal`.
    """

    text: str = ""
    stop_reason: str = "end_turn"
    piece_chars: int = 8
    usage: Usage | None = None
    declined: Declined = Declined()


class Fail(Value):
    """One failure, after `after_chars` of `text` were streamed."""

    error: SteplineError
    text: str = ""
    after_chars: int = 0


class MemoryModelClient:
    """Plays its steps in order, one per try; `requests` are the received calls.

    A failure before the first text is retried at once, as the real client does after a pause. A call without
    a step left is an error of the script, as is a step left over, which `assert_read` reports.
    """

    def __init__(self, *steps: Say | Fail | str, fallback: str = "") -> None:
        """Set the script; a plain string is a `Say`. Requests that were declined are answered by `fallback`."""
        self.fallback = fallback
        self._steps = [Say(text=step) if isinstance(step, str) else step for step in steps]
        self.requests: list[ModelRequest] = []

    def add(self, *steps: Say | Fail | str) -> None:
        """Append to the script."""
        self._steps += [Say(text=step) if isinstance(step, str) else step for step in steps]

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        """Return a stream that plays the next step."""
        self.requests.append(request)
        return MemoryModelStream(request, self._next, fallback=self.fallback)

    def assert_read(self) -> None:
        """Raise AssertionError if steps are left over."""
        if self._steps:
            raise AssertionError(f"{len(self._steps)} step(s) of the script were not played")

    def _next(self) -> Say | Fail:
        if not self._steps:
            raise AssertionError("the model was asked once more than its script knows")
        return self._steps.pop(0)


class MemoryModelStream:
    """One call of the script."""

    def __init__(
        self, request: ModelRequest, next_step: Callable[[], Say | Fail], *, fallback: str = ""
    ) -> None:
        """Prepare the stream; a step is taken when the iteration begins."""
        self._request = request
        self._fallback = fallback
        self._next_step = next_step
        self._told: list[str] = []
        self._retries = 0
        self._aborted = False
        self._failed = False
        self._sent = False
        self._counted = True
        self._tries: tuple[Usage, ...] = ()
        self._ended: Say | None = None

    def __enter__(self) -> Self:
        """Return self; nothing is played yet."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """End the stream; leaving in mid-stream counts as an abort."""
        self._aborted = self._aborted or not (self._ended or self._failed)

    def abort(self) -> None:
        """Stop before the next piece."""
        self._aborted = True

    def __iter__(self) -> Iterator[str]:
        """Yield the pieces of the next step that does not fail before its first."""
        for retries in range(TRIES):
            self._retries = retries
            self._counted = True
            if self._aborted:
                return
            step, self._sent = self._next_step(), True
            match step:
                case Say():
                    yield from self._play(_cut(step, self._request.max_tokens))
                    return
                case Fail():
                    # A connection is cut when the provider has read the prompt; other failures refuse it.
                    self._counted = step.after_chars > 0 or isinstance(step.error, ModelStreamBroken)
                    pieces = Say(text=step.text[: step.after_chars])
                    yield from self._tell(pieces)
                    if self._told or retries + 1 == TRIES or not isinstance(step.error, RETRIED):
                        self._failed = True
                        raise step.error
                    self._tries = (*self._tries, self._usage())
                    self._sent = False

    def completion(self) -> Completion:
        """Return the streamed text with its usage; one that was not sent has none."""
        early = "aborted" if self._aborted else "cut"
        return Completion(
            text="".join(self._told),
            stop_reason=self._ended.stop_reason if self._ended else early,
            usage=self._usage(),
            model=(self._request.declined and self._fallback) or MODEL,
            message_id="",
            aborted=self._aborted and self._ended is None,
            retries=self._retries,
            tries=self._tries,
            declined=self._declined(),
        )

    def _usage(self) -> Usage:
        if not self._sent:
            return Usage()
        if self._ended and self._ended.usage:
            return self._ended.usage
        if not self._counted:
            return Usage(estimated=True)
        parts = (*self._request.system, *self._request.content)
        return Usage(
            input_tokens=sum(part.tokens for part in parts),
            output_tokens=estimate_tokens("".join(self._told)),
            estimated=self._ended is None,
        )

    def _declined(self) -> Declined | None:
        if self._ended is None or self._ended.stop_reason != "refusal":
            return None
        return replace(self._ended.declined, fallback=bool(self._fallback) and not self._request.declined)

    def _play(self, step: Say) -> Iterator[str]:
        yield from self._tell(step)
        if not self._aborted:
            self._ended = step

    def _tell(self, step: Say) -> Iterator[str]:
        for at in range(0, len(step.text), step.piece_chars):
            if self._aborted:
                return
            piece = step.text[at : at + step.piece_chars]
            self._told.append(piece)
            yield piece


def _cut(step: Say, max_tokens: int) -> Say:
    if estimate_tokens(step.text) <= max_tokens:
        return step
    return Say(text=step.text[: max_tokens * 3], stop_reason="max_tokens", piece_chars=step.piece_chars)
