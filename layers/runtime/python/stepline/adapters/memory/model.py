"""A ModelClient that plays a script, for tests and wherever known text replaces the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from stepline.adapters.provider.client import RetriedStream
from stepline.adapters.provider.wire import RETRIED, Retry
from stepline.errors import ModelStreamBroken, SteplineError
from stepline.model.base import Value
from stepline.model.decision import Declined
from stepline.model.usage import Usage, estimate_tokens
from stepline.ports.model import AnswerFacts, ModelRequest, ProviderCall, RoleChoice

MODEL: Final = "memory"
TRIES: Final = Retry().tries


class Say(Value):
    """One answer, streamed in pieces of `piece_chars`; `usage` is estimated if not given.

    `declined` has the details of an answer with the stop reason `refusal`.
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
    """Plays its steps in order, one per attempt; `requests` are the received calls.

    A failure before the first text is retried immediately; the real client retries after a pause. A call without a
    remaining step is an error of the script, and so is an unused step, which `assert_read` reports.
    """

    def __init__(self, *steps: Say | Fail | str, fallback: str = "") -> None:
        """Set the script; a plain string is a `Say`. `fallback` answers requests that were declined."""
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
        """Raise AssertionError if steps are unused."""
        if self._steps:
            raise AssertionError(f"{len(self._steps)} step(s) of the script were not played")

    def _next(self) -> Say | Fail:
        if not self._steps:
            raise AssertionError("the model was asked once more than its script knows")
        return self._steps.pop(0)


class MemoryModelStream(RetriedStream):
    """One call of the script. `begin_call` makes the call of an attempt; a test may put one over a wire in its place."""

    begin_call: ClassVar[Callable[[ModelRequest, RoleChoice, Callable[[], Say | Fail]], ProviderCall]] = (
        lambda request, _, next_step: ScriptedCall(request, next_step)
    )

    def __init__(
        self, request: ModelRequest, next_step: Callable[[], Say | Fail], *, fallback: str = ""
    ) -> None:
        """Prepare the stream; the next step is used when the iteration begins, and for each further attempt."""
        role = RoleChoice(
            model=(request.declined and fallback) or MODEL, fallback="" if request.declined else fallback
        )
        super().__init__(
            lambda asked: MemoryModelStream.begin_call(request, asked, next_step),
            request,
            role,
            retry=Retry(),
            blocks=False,
        )

    def next_wait_s(self, error: SteplineError, attempt: int, elapsed_s: float) -> float | None:
        """Continue immediately, regardless of the requested wait."""
        return 0.0 if isinstance(error, RETRIED) and attempt + 1 < TRIES else None


class MemoryProvider:
    """A provider (`ModelProvider`) that plays a script, one step per attempt."""

    default_model = MODEL
    traced_as = MODEL

    def __init__(self, *steps: Say | Fail) -> None:
        self.steps = [*steps]

    def call(self, request: ModelRequest, _: RoleChoice) -> ScriptedCall:
        return ScriptedCall(request, lambda: self.steps.pop(0))

    def warm(self) -> None: ...

    def find_refusals(self, _: RoleChoice) -> list[str]:
        return []

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return own.get(model, 0)

    def close(self) -> None: ...


class ScriptedCall:
    """One step of the script (`ProviderCall`)."""

    def __init__(self, request: ModelRequest, next_step: Callable[[], Say | Fail]) -> None:
        self._request = request
        self._next_step = next_step
        self._step: Say | Fail = Say()
        self.facts = AnswerFacts()

    def send(self) -> None:
        step = self._next_step()
        self._step = end_at_limit(step, self._request.max_tokens) if isinstance(step, Say) else step

    def __iter__(self) -> Iterator[str]:
        step = self._step
        text = step.text if isinstance(step, Say) else step.text[: step.after_chars]
        # A connection is cut when the provider has read the prompt; other failures refuse it.
        if isinstance(step, Say) or step.after_chars > 0 or isinstance(step.error, ModelStreamBroken):
            parts = (*self._request.system, *self._request.content)
            self.facts = AnswerFacts(usage=Usage(input_tokens=sum(part.tokens for part in parts)))
        size = (step if isinstance(step, Say) else Say()).piece_chars
        for at in range(0, len(text), size):
            yield text[at : at + size]
        if isinstance(step, Fail):
            raise step.error
        self.facts = AnswerFacts(
            stop_reason=step.stop_reason,
            ended=True,
            declined=step.declined if step.stop_reason == "refusal" else None,
            usage=step.usage or replace(self.facts.usage or Usage(), output_tokens=estimate_tokens(text)),
            counted=True,
        )

    def renew(self) -> bool:
        return False

    def close(self) -> None: ...

    def shut_down(self) -> None: ...


def end_at_limit(step: Say, max_tokens: int) -> Say:
    """Return an answer that ends at the limit of its request, if it is longer."""
    if estimate_tokens(step.text) <= max_tokens:
        return step
    return Say(text=step.text[: max_tokens * 3], stop_reason="max_tokens", piece_chars=step.piece_chars)
