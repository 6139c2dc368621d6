"""Outgoing messages: the content that a client sends, and its request on the websocket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import Reaction


class Said(Value):
    """A message or event, sent under one message id until it is answered.

    Without a `kind` it is a message. `payload` holds an event's fields besides its text, `uploads` the ids of its
    files. `reactive` is None for the default of the kind. `timezone` is the user's, a name of the IANA database, if
    known. `bundle` is the requested bundle of the conversation. With a `verdict`, it answers whether the call `call_id`
    may run: `payload` holds the parameters of an edited call, `text` the reason of a denial. If `rates` is set, it
    rates the turn `turn` with `reaction` and `text`; "" is the newest turn that has ended.
    """

    text: str = ""
    kind: str = ""
    payload: Mapping[str, Any] = {}
    reactive: bool | None = None
    uploads: tuple[str, ...] = ()
    timezone: str = ""
    bundle: str = ""
    verdict: Literal["", "approve", "deny", "edit"] = ""
    call_id: str = ""
    rates: bool = False
    reaction: Reaction | None = None
    turn: str = ""


def well_formed(said: Said) -> Said:
    """Return the message with each lone surrogate replaced by a question mark: JSON cannot carry surrogates.

    Raises InputError `bad_message` if its payload is nested too deeply.
    """
    try:
        return replace(said, text=_well_formed(said.text), payload=_well_formed(said.payload))
    except RecursionError as error:
        raise InputError("the fields are nested too deeply", code="bad_message") from error


def _well_formed(value: Any) -> Any:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case Mapping():
            return {_well_formed(name): _well_formed(one) for name, one in value.items()}
        case list() | tuple():
            return [_well_formed(one) for one in value]
        case _:
            return value


def render_request(conversation: str, message_id: str, said: Said) -> dict[str, Any]:
    """Return the request that sends `said`."""
    request: dict[str, Any] = {"conversation": conversation, "message_id": message_id}
    if said.verdict:
        request = {"action": said.verdict, **request, "call_id": said.call_id}
        if said.verdict == "edit":
            request["params"] = dict(said.payload)
        elif said.verdict == "deny":
            request["text"] = said.text
        return request
    if said.rates:
        about = {"turn": said.turn, "reaction": said.reaction, "text": said.text}
        return {"action": "feedback", **request, **about}
    if said.timezone:
        request["timezone"] = said.timezone
    if said.bundle:
        request["bundle"] = said.bundle
    if said.uploads:
        request["uploads"] = list(said.uploads)
    if not said.kind:
        return {"action": "send", **request, "text": said.text}
    payload = {**said.payload, **({"text": said.text} if said.text else {})}
    request = {"action": "event", **request, "kind": said.kind, "payload": payload}
    if said.reactive is not None:
        request["reactive"] = said.reactive
    return request
