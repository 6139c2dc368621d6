"""What a workflow is given and what it gives back: a message or another event, and what its turn came to."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.entry import Closed, Outcome
from stepline.model.ids import check_segment
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.model.wire.live_event import FOLLOWUP, is_reactive


class Payload(Value):
    """What is to be answered: a user's message, or an event of another `kind` with a `payload` of its own.

    Sent again under the same `message_id` it is the same one, whose turn goes on or is over.
    """

    text: str
    message_id: str
    kind: str = FOLLOWUP
    payload: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reactive: bool | None = None


PayloadLike: TypeAlias = Payload | Mapping[str, Any]
"""A payload, or a mapping with its `text` and, as it may be, its other fields; what else is in it is the bundle's."""


class TurnResult(Value):
    """What a turn came to. `sources` are those that the answer cites; `code` and `message` say why there is no answer.

    `handed_back` says why the message that asked is in no turn, if it is not: the user has stopped the turn that it waited for.
    """

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
    handed_back: str = ""


def read_payload(payload: PayloadLike) -> Payload:
    """Return the message or the event of a payload, with an id if it has none.

    Raises:
        InputError: `bad_payload`, it is a message without a text, or asks for no answer; `bad_message_id`; `bad_event`.
    """
    if isinstance(payload, Payload):
        return _asking(payload)
    kind, said = payload.get("kind", FOLLOWUP), payload.get("payload", {})
    text, message_id = payload.get("text", ""), payload.get("message_id") or new_message_id()
    if not isinstance(text, str) or (kind == FOLLOWUP and not text.strip()):
        raise InputError("a payload has the user's message under `text`", code="bad_payload")
    if not isinstance(kind, str) or not isinstance(said, Mapping):
        raise InputError("an event has a `kind`, and a `payload` that is a mapping", code="bad_payload")
    read = Payload(
        text=text,
        message_id=check_segment(str(message_id), "message_id"),
        kind=kind,
        payload=dict(said),
        reactive=payload.get("reactive"),
    )
    return _asking(read)


def _asking(payload: Payload) -> Payload:
    if not is_reactive(payload.kind, payload.reactive):
        raise InputError("this event asks for no answer; submit it", code="bad_payload")
    return payload


def new_message_id() -> str:
    """Return an id for what nobody means to send again."""
    return f"m-{secrets.token_hex(8)}"


def result_of(closed: Closed, *, handed_back: str = "") -> TurnResult:
    """Return what a closed turn came to, for a message that perhaps was handed back."""
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
        handed_back=handed_back,
    )
