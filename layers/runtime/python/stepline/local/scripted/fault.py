"""Faults on demand: a queue that tests fill and requests consume."""

from __future__ import annotations

import threading
from typing import Any, Final, Literal

import msgspec

from stepline.local.scripted.messages_request import BadRequestError, Prompt
from stepline.model.base import Value

Kind = Literal[
    "rate_limited",
    "overloaded",
    "invalid_request",
    "server_error",
    "context_limit",
    "refusal",
    "cut",
    "error_in_stream",
    "slow_tokens",
    "malformed_protocol",
    "malformed_stream",
    "bad_prefix",
    "unescaped_quote",
    "thinking",
    "fixture",
]

MALFORMED_ANSWER: Final = (
    "Sure! Here is what I would do.\n<channel:plan>nobody declared this</channel:plan>\n"
    '<channel:ReactDecisionOutV2>```json\n{"action": "call_tool", "tool_call": {"tool_id": "react.write"\n```'
)
BAD_PREFIX: Final = "Sure! Here is what I would do.\n\n"
UNESCAPED: Final = 'Some would call this answer "scripted", and so it is.\\n\\n'
_SHOWN: Final = ('"final_answer": "', '"notes": "')


class Fault(Value):
    """One fault, for the next `count` requests whose text contains `match`.

    `after_chars` is the position of a `cut` or `error_in_stream`, `retry_after_s` the header of a 429 or 529,
    `token_delay_ms` and `first_delay_ms` the delays of `slow_tokens`. `text` replaces the policy's answer, or
    precedes it for a `bad_prefix`; a `fixture` may take it from the file `name` of the server's fixture
    folder. `stop_reason` and `error_type` replace the usual ones, `model` the name in the answer. A `refusal`
    has a `category` and an `explanation`, after a `text` that is void, and `thinking` has `thinking_tokens`.
    """

    kind: Kind
    count: int = 1
    match: str = ""
    after_chars: int = 0
    retry_after_s: float | None = None
    token_delay_ms: float | None = None
    first_delay_ms: float = 0
    text: str = ""
    name: str = ""
    stop_reason: str = ""
    error_type: str = "overloaded_error"
    category: str = ""
    explanation: str = ""
    model: str = ""
    thinking_tokens: int = 2000


class FaultQueue:
    """Faults in the order they were added; safe for several threads."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, body: Any) -> None:
        """Queue one fault or a list of them. Raises BadRequestError if invalid."""
        try:
            faults = msgspec.convert(body if isinstance(body, list) else [body], list[Fault])
        except msgspec.ValidationError as error:
            raise BadRequestError(f"not a fault: {error}") from error
        with self._lock:
            self._faults += faults

    def take(self, prompt: Prompt) -> Fault | None:
        """Return the first fault that matches a request, and count one use of it."""
        text = "\n".join([prompt.system, *(text for _, text in prompt.messages)])
        with self._lock:
            for n, fault in enumerate(self._faults):
                if fault.match in text:
                    left = msgspec.structs.replace(fault, count=fault.count - 1)
                    self._faults[n : n + 1] = [left] if left.count > 0 else []
                    return fault
        return None

    def list(self) -> list[Fault]:
        """Return the queued faults."""
        with self._lock:
            return list(self._faults)

    def clear(self) -> None:
        """Remove all faults."""
        with self._lock:
            self._faults.clear()


def spoil_prefix(text: str, prefix: str = "") -> str:
    """Return a round with text before its first channel."""
    return f"{prefix or BAD_PREFIX}{text}"


def spoil_quote(text: str) -> str:
    """Return a round with two unescaped quotes in its decision; unchanged if it has no text field."""
    place = next((field for field in _SHOWN if field in text), "")
    return text.replace(place, place + UNESCAPED, 1) if place else text
