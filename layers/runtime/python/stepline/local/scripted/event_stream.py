"""Wire format of the server: messages, stream events and errors, as SSE or as an AWS event stream."""

from __future__ import annotations

import base64
import binascii
import json
import secrets
import struct
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stepline.local.scripted.cache import CacheUse
from stepline.model.base import Value

Event = dict[str, Any]
SIGNATURE: Final = base64.b64encode(b"signed by the scripted model, which is no AI").decode()
_HEADERS: Final = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}


def message_id() -> str:
    """Return a new message id."""
    return f"msg_{secrets.token_hex(12)}"


def usage(use: CacheUse, *, output_tokens: int, thinking_tokens: int = 0) -> Event:
    """Return a `usage` object; the output includes the thinking."""
    return {
        "input_tokens": use.plain,
        "cache_read_input_tokens": use.read,
        "cache_creation_input_tokens": use.write_5m + use.write_1h,
        "cache_creation": {
            "ephemeral_5m_input_tokens": use.write_5m,
            "ephemeral_1h_input_tokens": use.write_1h,
        },
        "output_tokens": output_tokens,
        "output_tokens_details": {"thinking_tokens": thinking_tokens},
        "service_tier": "standard",
    }


class Stop(Value):
    """The end of an answer: its reason, the sequence that stopped it, and the details of a refusal."""

    reason: str = "end_turn"
    sequence: str | None = None
    details: dict[str, str | None] | None = None

    def fields(self) -> Event:
        """Return the fields for a message or its last delta."""
        return {"stop_reason": self.reason, "stop_sequence": self.sequence, "stop_details": self.details}


def refusal(category: str, explanation: str) -> Stop:
    """Return the end of a refused answer, with the provider's explanation."""
    details = {"type": "refusal", "category": category or None, "explanation": explanation or None}
    return Stop(reason="refusal", details=details)


def message(content: list[Event], *, ident: str, model: str, stop: Stop, counts: Event) -> Event:
    """Return a whole message."""
    return {
        "id": ident,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        **stop.fields(),
        "usage": counts,
    }


def opening(*, ident: str, model: str, use: CacheUse) -> Iterator[Event]:
    """Yield the events before the first block."""
    start = message([], ident=ident, model=model, stop=Stop(), counts=usage(use, output_tokens=1))
    yield {"type": "message_start", "message": {**start, "stop_reason": None}}


def thinking_block(text: str) -> Event:
    """Return a block of thinking: a text, empty if hidden, and the signature that proves that the model wrote it."""
    return {"type": "thinking", "thinking": text, "signature": SIGNATURE}


def thinking(text: str) -> Iterator[Event]:
    """Yield the events of a block of thinking, the first of an answer."""
    yield block_start(0, {"type": "thinking", "thinking": "", "signature": ""})
    if text:
        yield block_delta(0, {"type": "thinking_delta", "thinking": text})
    yield block_delta(0, {"type": "signature_delta", "signature": SIGNATURE})
    yield {"type": "content_block_stop", "index": 0}


def block_start(index: int, block: Event) -> Event:
    """Return the start event of a block."""
    return {"type": "content_block_start", "index": index, "content_block": block}


def block_delta(index: int, change: Event) -> Event:
    """Return one piece of a block."""
    return {"type": "content_block_delta", "index": index, "delta": change}


def delta(text: str, index: int = 0) -> Event:
    """Return one piece of text."""
    return block_delta(index, {"type": "text_delta", "text": text})


def text_chars(event: Event) -> int:
    """Return the number of answer characters in an event; a fault may send a delta without text."""
    return len(event["delta"].get("text", "")) if event["type"] == "content_block_delta" else 0


def closing(*, stop: Stop, counts: Event) -> Iterator[Event]:
    """Yield the events after the last block."""
    total = {key: value for key, value in counts.items() if key not in ("cache_creation", "service_tier")}
    yield {"type": "message_delta", "delta": stop.fields(), "usage": total}
    yield {"type": "message_stop"}


def error(kind: str, text: str, *, request_id: str) -> Event:
    """Return an error body; inside a stream it is an event of the same shape."""
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": request_id}


def encode_sse(event: Event) -> bytes:
    """Return one server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), _json(event))


def encode_frame(event: Event) -> bytes:
    """Return one frame, as Bedrock streams the same events."""
    if event["type"] == "error":
        headers = {":exception-type": event["error"]["type"], ":message-type": "exception"}
        return pack_frame(headers, {"message": event["error"]["message"]})
    return pack_frame(_HEADERS, {"bytes": base64.b64encode(_json(event)).decode()})


def pack_frame(headers: Mapping[str, str], fields: Event) -> bytes:
    """Return one frame of `application/vnd.amazon.eventstream`.

    Frame: total and header length (big-endian u32), CRC-32 of these, headers, payload, CRC-32 of all before.
    """
    payload = _json(fields)
    packed = b"".join(_header(name, value) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(packed) + len(payload), len(packed))
    frame = prelude + struct.pack(">I", binascii.crc32(prelude)) + packed + payload
    return frame + struct.pack(">I", binascii.crc32(frame))


def _json(event: Event) -> bytes:
    """Return compact JSON; a lone surrogate, which UTF-8 cannot encode, is escaped."""
    try:
        return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(event, separators=(",", ":")).encode()


def _header(name: str, value: str) -> bytes:
    kind_string = 7
    return (
        struct.pack(">B", len(name))
        + name.encode()
        + struct.pack(">BH", kind_string, len(value.encode()))
        + value.encode()
    )
