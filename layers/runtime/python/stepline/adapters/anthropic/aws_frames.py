"""Reads the stream of a Messages call to Bedrock: bytes into frames of `application/vnd.amazon.eventstream`.

Each frame holds one event of the protocol, or an exception. A partial frame is ignored.

Source: docs.aws.amazon.com, "InvokeModelWithResponseStream".
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from botocore.eventstream import EventStreamBuffer

from stepline.adapters.anthropic.message_fold import UNREAD_EVENT, WireEvent, decode_events
from stepline.adapters.provider.error import map_body
from stepline.errors import ModelStreamBroken

_FAILED: Final = {"exception": ":exception-type", "error": ":error-code"}
"""The header that names the error, by the type of a message that is not an event."""


def is_framed(data: bytes) -> bool:
    """Return True if a body begins with a frame, that is with a length, whose first byte is always zero."""
    return data.startswith(b"\0")


def read_frames(chunks: Iterable[bytes]) -> Iterator[WireEvent]:
    """Yield the events of an answer.

    Raises:
        ModelStreamBroken: `stream_malformed`, as `decode_events`, and for an invalid payload.
        SteplineError: as `map_body`, for an exception of Bedrock; as `decode_events`.
        botocore.exceptions.EventStreamError: for a frame that is damaged or too large.
    """
    frames: Any = EventStreamBuffer()  # whose stubs lack the messages' type
    for chunk in chunks:
        frames.add_data(chunk)
        for frame in frames:
            yield from _read_frame(frame.headers, frame.payload)


def _read_frame(headers: Mapping[str, Any], payload: bytes) -> Iterator[WireEvent]:
    if named := _FAILED.get(str(headers.get(":message-type"))):
        raise map_body(200, {"error": {"type": headers.get(named), "message": _message(headers, payload)}})
    packed = _decode(payload).get("bytes")
    if packed is None:
        yield WireEvent(UNREAD_EVENT, {})
    elif isinstance(packed, str):
        try:
            data = base64.b64decode(packed, validate=True)
        except ValueError as error:
            raise ModelStreamBroken(f"not a frame we know: {error}", code="stream_malformed") from error
        yield from decode_events(data)
    else:
        raise ModelStreamBroken("a frame without its bytes", code="stream_malformed")


def _message(headers: Mapping[str, Any], payload: bytes) -> str:
    try:
        fields = _decode(payload)
    except ModelStreamBroken:
        return payload.decode("utf-8", "replace")
    said = fields.get("message") or fields.get("Message") or headers.get(":error-message")
    return said if isinstance(said, str) else ""


def _decode(payload: bytes) -> Mapping[str, Any]:
    try:
        read = msgspec.json.decode(payload or b"{}")
    except (ValueError, RecursionError) as error:
        raise ModelStreamBroken(f"not a frame we know: {error}", code="stream_malformed") from error
    return read if isinstance(read, dict) else {}
