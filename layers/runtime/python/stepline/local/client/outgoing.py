"""What a client says: a message, or an event of a kind, and how it asks for it over the websocket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepline.model.base import Value
from stepline.model.wire.live_event import STEER, STOP


class Said(Value):
    """What goes out under one message id, again and again until it is answered.

    Without a `kind` it is a message. `payload` is what an event says beside its text, `attachments` are references to
    stored files; `reactive` is None where that is left to the kind.
    """

    text: str = ""
    kind: str = ""
    payload: Mapping[str, Any] = {}
    reactive: bool | None = None
    attachments: tuple[Mapping[str, Any], ...] = ()


STOPPING = Said(kind=STOP)


def steering(text: str) -> Said:
    """Return what steers the open turn."""
    return Said(kind=STEER, text=text)


def render_request(conversation: str, message_id: str, said: Said) -> dict[str, Any]:
    """Return the message that says this."""
    request: dict[str, Any] = {"conversation": conversation, "message_id": message_id}
    if not said.kind:
        return {"action": "send", **request, "text": said.text}
    payload = {**said.payload, **({"text": said.text} if said.text else {})}
    request = {"action": "event", **request, "kind": said.kind, "payload": payload}
    if said.reactive is not None:
        request["reactive"] = said.reactive
    if said.attachments:
        request["attachments"] = [dict(reference) for reference in said.attachments]
    return request
