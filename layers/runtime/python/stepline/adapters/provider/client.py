"""A ModelClient over any provider: the model of a role, retries, `abort`, and the limits of an answer.

Only this module retries a call, and only before its first text is yielded; after that, the caller has recorded text and
handles a failure.

`PendingHead` waits for the head of a response in its own thread, so that the caller may give up. A provider reads the
whole prompt before it answers, and a thread that waits for the head cannot be woken, because a transport exposes its
socket only with the response.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Self, TypeVar

from msgspec.structs import replace

from stepline.adapters.provider.wire import BUSY, Retry, draw_wait_s, fall_back, wait_for
from stepline.errors import ModelRateLimited, ModelRefused, ModelStreamBroken, SteplineError
from stepline.metrics import FACTS_UNREAD, MODEL_ASKS, MODEL_RATE_LIMITS
from stepline.model.decision import Declined
from stepline.model.usage import Usage, estimate_tokens
from stepline.model.visible_text import shorten
from stepline.ports.clock import Meter
from stepline.ports.model import (
    DEFAULT_ROLE,
    AnswerFacts,
    Completion,
    FailedTry,
    ModelProvider,
    ModelRequest,
    ProviderCall,
    RoleChoice,
)

UNAUTHORIZED: Final = 401
LOST_HALF: Final = "\ufffd"
ABORTED: Final = "aborted"
CUT: Final = "cut"
TOO_LONG: Final = "too_long"
ANSWER_CHARS_PER_TOKEN: Final = 32
"""Maximum characters of an answer per token that its request allows. Text has three to four; a single token of spaces
or dashes may have more than a hundred, but no answer consists of them."""
ANSWER_MIN_CHARS: Final = 65_536
"""Characters that every answer may have. A server that ignores `max_tokens` would fill the memory."""
EXPLANATION_CHARS: Final = 2_000
"""Kept characters of a provider's explanation."""
COUNT_MAX: Final = 10**12
WORD_CHARS: Final = 200
NO_FIELDS: Final[Mapping[str, Any]] = MappingProxyType({})

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


class ProviderClient:
    """Serves roles with the models of a provider."""

    def __init__(
        self,
        provider: ModelProvider,
        *,
        roles: Mapping[str, RoleChoice],
        retry: Retry | None = None,
        meter: Meter | None = None,
    ) -> None:
        """Store the configuration; nothing is imported or sent.

        `meter` counts every attempt, rate-limited attempts, and facts of an answer that could not be read.
        """
        self._provider = provider
        self._roles = dict(roles)
        self._retry = retry or Retry()
        self._meter = meter

    def warm(self) -> threading.Thread:
        """Start preparing the provider for the first call; that call raises a failure of the preparation."""
        thread = threading.Thread(target=self._warm, daemon=True)
        thread.start()
        return thread

    def stream(self, request: ModelRequest) -> RetriedStream:
        """Prepare a call of the role's model. Raises ModelRefused if neither the role nor `*` is mapped."""
        role = self._roles.get(request.role) or self._roles.get(DEFAULT_ROLE)
        if role is None:
            raise ModelRefused(
                f"no model serves the role {request.role}", code="unknown_role", role=request.role
            )
        role = fall_back(role) if request.declined else role
        return RetriedStream(
            partial(self._provider.call, request), request, role, retry=self._retry, meter=self._meter
        )

    def close(self) -> None:
        """Close the kept connections."""
        self._provider.close()

    def _warm(self) -> None:
        try:
            self._provider.warm()
        except SteplineError as error:
            logger.info("model client not ready", extra={"code": error.reason})


class RetriedStream:
    """One call in one or more attempts. Iterate in one thread; `abort` may be called from another."""

    def __init__(
        self,
        begin: Callable[[RoleChoice], ProviderCall],
        request: ModelRequest,
        role: RoleChoice,
        *,
        retry: Retry,
        meter: Meter | None = None,
        blocks: bool = True,
    ) -> None:
        """Prepare the call; `begin` creates one per attempt, of the role or of its fallback. If `send` never `blocks`, no thread is needed for it."""
        self._begin = begin
        self._asked = request
        self._role = role
        self._retry = retry
        self._meter = meter
        self._blocks = blocks
        self._aborted = threading.Event()
        self._failed = False
        self._tries: tuple[FailedTry, ...] = ()
        self._call = begin(role)
        self._text = AnswerText(request.max_tokens)
        self._sent = False
        self._head: PendingHead | None = None
        self._open: ProviderCall | None = None

    def __enter__(self) -> Self:
        """Return self; nothing is sent yet."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the connection; leaving the block before the end counts as aborted."""
        if not (self._call.facts.ended or self._text.too_long or self._failed):
            self._aborted.set()
        self._close()

    def abort(self) -> None:
        """Stop: no further delta, no further attempt.

        Wakes a thread that waits for the response, an event or a retry.
        """
        self._aborted.set()
        head = self._head
        if head is not None:
            head.give_up()
        call = self._open
        if call is not None:
            call.shut_down()

    def completion(self) -> Completion:
        """Return the completion so far; an attempt that was never sent has no cost."""
        facts, role, aborted = self._call.facts, self._role, self._aborted.is_set()
        whole = facts.ended and not self._text.too_long
        early = TOO_LONG if self._text.too_long else ABORTED if aborted else CUT
        return Completion(
            text=self._text.kept,
            stop_reason=(facts.stop_reason or "end_turn") if whole else early,
            usage=self._usage(facts, aborted=aborted) if self._sent else Usage(),
            model=facts.model or role.named,
            message_id=facts.message_id,
            aborted=aborted and not (facts.ended or self._text.too_long),
            retries=len(self._tries),
            tries=self._tries,
            declined=_declined(facts.declined, role) if facts.ended and facts.declined else None,
        )

    def __iter__(self) -> Iterator[str]:
        """Yield the text, with retries until the first text is yielded."""
        began, attempt = time.monotonic(), 0
        while True:
            shown = False
            try:
                for text in self._attempt():
                    shown = shown or bool(text)
                    yield text
            except SteplineError as error:
                self._failed = True
                if isinstance(error, ModelRateLimited):
                    self._count(MODEL_RATE_LIMITS)
                wait_s = None if shown else self.next_wait_s(error, attempt, time.monotonic() - began)
                moves = wait_s is None and not shown and self._may_move(error)
                if wait_s is None and not moves:
                    raise
                self._failed = False
                logger.info(
                    "model call tried again",
                    extra={"code": error.reason, "wait_s": wait_s or 0.0, "fallback": moves},
                )
                self._begin_again(fall_back(self._role) if moves else self._role)
                began, attempt = (time.monotonic(), 0) if moves else (began, attempt + 1)
                if self._aborted.wait(wait_s or 0.0):
                    return
            else:
                return

    def _may_move(self, error: SteplineError) -> bool:
        """Return True if the role's fallback answers in place of a model that stays busy."""
        return self._role.fallback_after_s is not None and isinstance(error, BUSY)

    def _count(self, name: str) -> None:
        if self._meter is not None:
            self._meter.count(name)

    def _count_unread(self) -> None:
        if unread := self._call.facts.unread:
            logger.info("facts beside an answer were not read", extra={"facts": sorted(unread)})
            if self._meter is not None:
                self._meter.count(FACTS_UNREAD, sum(unread.values()))

    def next_wait_s(self, error: SteplineError, attempt: int, elapsed_s: float) -> float | None:
        """Draw the seconds to wait before the next attempt; None to give up. A new key is tried immediately."""
        retry = wait_for(self._retry, self._role, error)
        last = attempt + 1 >= retry.tries
        if error.context.get("status") == UNAUTHORIZED and not last and self._call.renew():
            return 0.0
        return draw_wait_s(retry, error, attempt=attempt, elapsed_s=elapsed_s)

    def _begin_again(self, role: RoleChoice) -> None:
        """Count the tokens of the failed attempt, and reset to the state before sending it to the model of `role`."""
        facts = self._call.facts
        failed = FailedTry(model=facts.model or self._role.named, usage=self._usage(facts, aborted=False))
        self._tries = (*self._tries, failed)
        self._role = role
        self._call = self._begin(role)
        self._text = AnswerText(self._asked.max_tokens)
        self._sent, self._head = False, None

    def _attempt(self) -> Iterator[str]:
        counted = False
        with closing(self._pieces()) as pieces:
            for piece in pieces:
                text = self._text.add(piece)
                first = not counted and self._call.facts.usage is not None
                counted = counted or first or bool(text)
                if text or first:
                    yield text
                if self._text.too_long:
                    logger.warning("an answer beyond its bound was ended")
                    return
        ended = self._call.facts.ended
        if ended and (rest := self._text.end()):
            yield rest
        if not (ended or self._aborted.is_set()):
            raise ModelStreamBroken("the answer ended before it was complete", code="stream_cut")

    def _pieces(self) -> Generator[str, None, None]:
        """Yield all pieces of the answer, to its end, so that the connection can be reused."""
        try:
            if self._aborted.is_set():
                return
            self._count(MODEL_ASKS)
            self._sent = True
            if not self._send():
                return
            pieces = iter(self._call)
            while not self._aborted.is_set():
                piece = next(pieces, None)
                if piece is None:
                    return
                yield piece
        except Exception as error:
            if self._aborted.is_set() or self._call.facts.ended:
                return
            if not isinstance(error, SteplineError):
                logger.exception("model call failed in a way we do not know")
            raise
        finally:
            self._close()
            self._count_unread()

    def _send(self) -> bool:
        """Return True when the head of the answer has arrived, False if the call was given up first."""
        if not self._blocks:
            self._call.send()
        else:
            head = self._head = PendingHead(self._call)
            if self._aborted.is_set():  # aborted before there was a head to give up
                head.give_up()
            if not head.wait():
                return False
        self._open = self._call
        return True

    def _close(self) -> None:
        call, self._open = self._open, None
        if call is not None:
            call.close()

    def _usage(self, facts: AnswerFacts, *, aborted: bool) -> Usage:
        """Return the tokens of the attempt; missing counts are estimated."""
        text = self._text.kept
        if facts.usage is None and not (text or aborted or facts.ended):
            return Usage(estimated=True)  # refused, or cut before the provider sent anything
        used = facts.usage or Usage()
        if facts.ended and facts.counted:
            return used
        if not used.prompt_tokens:
            parts = (*self._asked.system, *self._asked.content)
            used = replace(used, input_tokens=sum(part.tokens for part in parts))
        return replace(used, output_tokens=max(used.output_tokens, estimate_tokens(text)), estimated=True)


class AnswerText:
    """The text of an answer: with whole surrogate pairs, and no longer than any text of `max_tokens` tokens.

    `too_long` is True once it has reached its limit: further text is dropped.
    """

    def __init__(self, max_tokens: int) -> None:
        self._room_chars = max(ANSWER_MIN_CHARS, max_tokens * ANSWER_CHARS_PER_TOKEN)
        self._pieces: list[str] = []
        self._half = ""
        self.too_long = False

    @property
    def kept(self) -> str:
        """The text so far."""
        return "".join(self._pieces)

    def add(self, text: str) -> str:
        """Add a piece and return its whole characters; half a surrogate pair at its end waits for the next piece.

        A provider may cut its text within a pair.
        """
        if not text.isascii() or (text and self._half):
            text = self._half + text
            self._half = text[-1] if "\ud800" <= text[-1:] <= "\udbff" else ""
            text = whole_pairs(text[:-1] if self._half else text)
        return self._keep(text) if text else ""

    def end(self) -> str:
        """End a complete answer; return a replacement character for a remaining half pair, else ""."""
        half, self._half = self._half, ""
        return self._keep(LOST_HALF) if half else ""

    def _keep(self, text: str) -> str:
        kept = text[: self._room_chars]
        self._room_chars -= len(kept)
        self.too_long = self.too_long or len(kept) < len(text)
        self._pieces.append(kept)
        return kept


def whole_pairs(text: str) -> str:
    """Return a text with surrogate pairs joined and halves replaced, because no encoding can represent halves."""
    return (
        text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    )


class FactReader:
    """Reads the facts of one answer; `unread` counts the dropped ones by name.

    A fact may be missing, null or of another type; one that cannot be read affects nothing else.
    """

    def __init__(self) -> None:
        self.unread: Counter[str] = Counter()

    def fields(self, of: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return an object's fields."""
        value = of.get(name)
        return value if isinstance(value, dict) else self._dropped(value, name, NO_FIELDS)

    def word(self, of: Mapping[str, Any], name: str) -> str:
        """Return an id, a name or a kind, which must be encodable."""
        value = of.get(name)
        if isinstance(value, str) and len(value) <= WORD_CHARS and whole_pairs(value) == value:
            return value
        return self._dropped(value, name, "")

    def text(self, of: Mapping[str, Any], name: str) -> str:
        """Return a text of any length, with half surrogate pairs replaced."""
        value = of.get(name)
        return whole_pairs(value) if isinstance(value, str) else self._dropped(value, name, "")

    def count(self, of: Mapping[str, Any], name: str) -> int | None:
        """Return a counter."""
        value = of.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX:
            whole = int(value)
            if whole == value:
                return whole
        return self._dropped(value, name, None)

    def _dropped(self, value: object, name: str, without: _T) -> _T:
        if value is not None:
            self.unread[name] += 1
        return without


def _declined(declined: Declined, role: RoleChoice) -> Declined:
    return replace(
        declined,
        explanation=shorten(declined.explanation, EXPLANATION_CHARS),
        fallback=bool(role.fallback),
    )


class PendingHead:
    """One call. `wait` sends it; `give_up` may be called from another thread, and closes a later answer."""

    def __init__(self, call: ProviderCall) -> None:
        self._call = call
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._given_up = False
        self._come = False
        self._error: BaseException | None = None

    def wait(self) -> bool:
        """Send the call; return True when the head of its answer has arrived, False if it was given up first.

        Raises the errors of `send`.
        """
        if not self._over.is_set():
            threading.Thread(target=self._run, name="model-head", daemon=True).start()
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._come

    def give_up(self) -> None:
        """Wake the waiting thread without an answer."""
        with self._lock:
            self._given_up = True
        self._over.set()

    def _run(self) -> None:
        error = None
        try:
            self._call.send()
        except BaseException as raised:  # noqa: BLE001 - `wait` raises it, in the caller's thread
            error = raised
        with self._lock:
            late = self._given_up
            if not late:
                self._come, self._error = error is None, error
        self._over.set()
        if late and error is None:
            self._call.close()
        elif late:
            logger.info("call failed after it was given up", extra={"error": type(error).__name__})
