"""What a workflow is given and what it gives back: a message, and what its turn came to."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.entry import Closed, Outcome
from stepline.model.ids import check_segment
from stepline.model.source import Citation
from stepline.model.usage import Usage


class Payload(Value):
    """A user's message. Sent again under the same `message_id` it is the same message, whose turn goes on or is over."""

    text: str
    message_id: str


PayloadLike: TypeAlias = Payload | Mapping[str, Any]
"""A message, or a mapping with its `text` and, if it may be sent again, its `message_id`; what else is in it is the bundle's."""


class TurnResult(Value):
    """What a turn came to. `sources` are those that the answer cites; `code` and `message` say why there is no answer."""

    turn_id: str
    outcome: Outcome
    reason: str
    answer: str = ""
    followups: tuple[str, ...] = ()
    sources: tuple[Citation, ...] = ()
    usage: Usage | None = None
    rounds: int = 0
    code: str = ""
    message: str = ""


def read_payload(payload: PayloadLike) -> Payload:
    """Return the message of a payload, with an id if it has none.

    Raises:
        InputError: `bad_payload`, it has no text; `bad_message_id`.
    """
    if isinstance(payload, Payload):
        return payload
    text, message_id = payload.get("text"), payload.get("message_id") or f"m-{secrets.token_hex(8)}"
    if not isinstance(text, str) or not text.strip():
        raise InputError("a payload has the user's message under `text`", code="bad_payload")
    return Payload(text=text, message_id=check_segment(str(message_id), "message_id"))


def result_of(closed: Closed) -> TurnResult:
    """Return what a closed turn came to."""
    return TurnResult(
        turn_id=closed.turn,
        outcome=closed.outcome,
        reason=closed.reason,
        answer=closed.answer,
        followups=closed.followups,
        sources=closed.citations,
        usage=closed.usage,
        rounds=closed.rounds,
        code=closed.code,
        message=closed.message,
    )
