"""Outgoing messages: what a client sends, and its request on the websocket."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import Reaction


class Said(Value):
    """A message or event, sent under one message id until it is answered.

    Without a `kind` it is a message. `payload` are an event's fields beside its text, `uploads` the ids of
    files that come with it. `reactive` is None for the default of the kind. `timezone` is the user's, a name
    of the IANA database, if it is known. `bundle` is the one that the conversation is to have. With a `verdict` it answers
    whether the call `call_id` may run: `payload` are the parameters of an edited call, `text` the words of a denial. If it
    `rates`, it says `reaction` and `text` about a turn, "" for the newest that has ended.
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
    """Return the message with a question mark for each half of a character: JSON cannot carry it.

    Raises InputError `bad_message` if its payload is nested beyond all measure.
    """
    try:
        return replace(said, text=_well_formed(said.text), payload=_well_formed(said.payload))
    except RecursionError as error:
        raise InputError("the fields are nested too deep", code="bad_message") from error


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
