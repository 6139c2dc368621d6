"""A good message of every kind that a client may send, from the union itself: a new kind has to be added here."""

from __future__ import annotations

from typing import Any, Final, get_args

from stepline.model.wire.client_message import (
    Approve,
    Auth,
    ClientMessage,
    Deny,
    Edit,
    Event,
    Ping,
    Rate,
    Resume,
    Send,
    Watch,
)

KINDS: Final[tuple[type[Any], ...]] = get_args(ClientMessage)
FIELDS: Final[dict[type[Any], dict[str, Any]]] = {
    Send: {"message_id": "m9", "text": "let me in"},
    Event: {"message_id": "m9", "kind": "form", "payload": {"text": "let me in"}},
    Approve: {"message_id": "m9"},
    Deny: {"message_id": "m9", "text": "no"},
    Edit: {
        "message_id": "m9",
        "params": {"path": "b.md", "channel": "canvas", "content": "B", "kind": "file"},
    },
    Rate: {"message_id": "m9", "reaction": "ok"},
    Resume: {"after": 1},
    Ping: {},
    Auth: {},
    Watch: {},
}
"""What a message of this kind has beside its conversation, a call, a turn and a ticket."""

NAMING: Final = [kind for kind in KINDS if "conversation" in kind.__struct_fields__]
FOUNDING: Final = (Send, Event)
"""Kinds that begin a conversation where there is none."""


def good(
    kind: type[Any],
    *,
    conversation: str,
    call_id: str = "tc_0123456789ab",
    ticket: str = "t",
    turn: str = "turn_0001",
) -> dict[str, Any]:
    """Return a message of this kind."""
    known = {"conversation": conversation, "call_id": call_id, "ticket": ticket, "turn": turn}
    shared = {name: value for name, value in known.items() if name in kind.__struct_fields__}
    return {"action": action(kind), **shared, **FIELDS[kind]}


def action(kind: type[Any]) -> str:
    """Return the action of a kind."""
    return str(kind.__struct_config__.tag)
