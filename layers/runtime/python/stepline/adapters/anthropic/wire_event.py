"""One event of a Messages answer, from its JSON: its kind and its fields, whatever carried it.

An event says its kind in `type`, and a server-sent one again in its name. If neither is a kind that we know, the
fields that only one kind has decide, so that a wrong word beside a text does not cost the text. Events of other
kinds are skipped: the protocol may grow.

Source: platform.claude.com, "Streaming messages".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from stepline.adapters.anthropic.error import map_body
from stepline.adapters.anthropic.message_fold import MESSAGE, OTHER, UNREAD, WireEvent
from stepline.errors import ModelStreamBroken

_TEXTLESS: Final = frozenset({"ping", "content_block_stop", "message_stop"})
_KINDS: Final = _TEXTLESS | {
    "message_start",
    "content_block_start",
    "content_block_delta",
    "message_delta",
    "error",
}
_DONE: Final = re.compile(rb"\s*\[?DONE\]?\s*", re.IGNORECASE)
"""The last line of servers that imitate another API; the protocol's own end is `message_stop`."""
_DIGITS_MAX: Final = 400


def decode_events(data: bytes, name: str = "", *, whole: bool = True) -> Iterator[WireEvent]:
    """Yield the events in the data of one: one, or several that nothing separates but a line's end.

    `name` is the event's own, if the transport has one. Data that is not `whole` may be cut: if it is no JSON, it
    is none.

    Raises:
        ModelStreamBroken: `stream_malformed`, for other data that is no JSON: it may have been text.
        SteplineError: as `map_body`, for an error that the provider sent in the stream.
    """
    if not data.strip() or _DONE.fullmatch(data):
        return
    try:
        found = _objects(data)
    except (ValueError, RecursionError) as error:
        if name == "error":
            raise map_body(200, None, message=data.decode("utf-8", "replace")) from error
        if name in _TEXTLESS:
            found = [{}]
        elif whole:
            raise ModelStreamBroken(f"not an event we know: {error}", code="stream_malformed") from error
        else:
            return
    for one in found:
        event = name_event(one, name)
        if event.kind == "error":
            raise map_body(200, one)
        yield event


def name_event(read: object, name: str = "") -> WireEvent:
    """Return an event's kind with its fields; `name` is that of the transport."""
    if not isinstance(read, dict):
        return WireEvent(UNREAD, {})
    kind = read.get("type")
    if isinstance(kind, str) and kind in _KINDS:
        return WireEvent(kind, read)
    return WireEvent(name if name in _KINDS else _guess_kind(read, typed=isinstance(kind, str)), read)


def _guess_kind(fields: Mapping[str, Any], *, typed: bool) -> str:
    """Return the kind that alone has such fields; an event that is `typed`, but unknown, must say more of itself."""
    says_so = fields.get("type") == "message" or fields.get("role") == "assistant"
    if says_so and isinstance(fields.get("content"), list | str):
        return MESSAGE
    if isinstance(delta := fields.get("delta"), dict):
        if isinstance(delta.get("text"), str) and (delta.get("type") == "text_delta" or not typed):
            return "content_block_delta"
        return "message_delta" if isinstance(delta.get("stop_reason"), str) else OTHER
    if isinstance(fields.get("content_block"), dict):
        return "content_block_start"
    if isinstance(fields.get("message"), dict):
        return "message_start"
    return "error" if fields.get("error") and not typed else OTHER


def _objects(data: bytes) -> list[Any]:
    try:
        return [_read_json(data)]
    except ValueError:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise
        return [_read_json(line) for line in lines if not _DONE.fullmatch(line)]


def _read_json(data: bytes) -> Any:
    """Return a value, whose texts may hold half a surrogate pair, escaped or not, which msgspec refuses."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_whole)


def _whole(digits: str) -> float:
    """Return a whole number; one with more digits than Python converts is no count of ours."""
    return int(digits) if len(digits) < _DIGITS_MAX else float("inf")
