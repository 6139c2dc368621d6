"""The stream of a Messages call, read: bytes into server-sent events, and those into values.

The values have the names of the provider's fields, so that code which follows a stream need not know whether
an SDK built its events. Events and fields that nothing here reads are skipped.

Source: platform.claude.com, "Streaming messages"; html.spec.whatwg.org, "Server-sent events".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from stepline.adapters.anthropic.error import map_body
from stepline.errors import ModelStreamBroken

EVENT_MAX_BYTES: Final = 8_000_000
"""Bytes of one event. A real one has some hundreds; a stream without line breaks would fill the memory."""


class CacheCreation(msgspec.Struct):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class Counts(msgspec.Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    output_tokens: int | None = None


class StartedMessage(msgspec.Struct):
    id: str | None = None
    model: str | None = None
    usage: Counts | None = None


class StopDetails(msgspec.Struct):
    type: str | None = None
    category: str | None = None
    explanation: str | None = None


class MessageEnd(msgspec.Struct):
    stop_reason: str | None = None
    stop_details: StopDetails | None = None


class BlockPiece(msgspec.Struct):
    """A piece of a block; `text` is set in a `text_delta`."""

    type: str
    text: str | None = None


class MessageStart(msgspec.Struct):
    type: str
    message: StartedMessage


class BlockDelta(msgspec.Struct):
    type: str
    delta: BlockPiece


class MessageDelta(msgspec.Struct):
    type: str
    delta: MessageEnd
    usage: Counts | None = None


class Plain(msgspec.Struct):
    """Any event, of which only the type is read."""

    type: str


ServerEvent: TypeAlias = MessageStart | BlockDelta | MessageDelta | Plain

_READ: Final[Mapping[str, type[ServerEvent]]] = {
    "message_start": MessageStart,
    "content_block_delta": BlockDelta,
    "message_delta": MessageDelta,
}


def read_events(chunks: Iterable[bytes]) -> Iterator[ServerEvent]:
    """Yield the events of a stream.

    Raises:
        ModelStreamBroken: `stream_malformed`, for an event that is not the provider's, or too large.
        SteplineError: as `map_body`, for an error that the provider sent in the stream.
    """
    for data in split_events(chunks):
        event = decode_event(data)
        if event.type == "error":
            raise map_body(200, json.loads(data))
        yield event


def split_events(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event; one that is not ended by an empty line is none.

    An event's name repeats the type in its data, so other fields than `data` are skipped.
    """
    data: list[bytes] = []
    size = 0
    for line in _lines(chunks):
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            size += len(line)
            if size > EVENT_MAX_BYTES:
                raise _too_large()
        elif not line and data:
            yield b"\n".join(data)
            data, size = [], 0


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the lines without their ends, of which there are three: `\n`, `\r\n`, `\r`."""
    begun: list[bytes] = []
    size, returned = 0, False
    for chunk in filter(None, chunks):
        rest = chunk[1:] if returned and chunk.startswith(b"\n") else chunk  # the second half of a `\r\n`
        returned = chunk.endswith(b"\r")
        for line in rest.splitlines(keepends=True):
            begun.append(line)
            size += len(line)
            if line.endswith((b"\n", b"\r")):
                yield b"".join(begun).rstrip(b"\r\n")
                begun, size = [], 0
        if size > EVENT_MAX_BYTES:
            raise _too_large()


def decode_event(data: bytes) -> ServerEvent:
    """Return an event from its JSON. Raises ModelStreamBroken `stream_malformed`."""
    try:
        return msgspec.json.decode(data, type=_READ.get(msgspec.json.decode(data, type=Plain).type, Plain))
    except (ValueError, RecursionError):
        return _decode_leniently(data)


def _decode_leniently(data: bytes) -> ServerEvent:
    """Return an event whose text may hold half a surrogate pair, escaped or not, which msgspec refuses."""
    try:
        read: Any = json.loads(data.decode("utf-8", "surrogatepass"))
        return msgspec.convert(read, _READ.get(msgspec.convert(read, Plain).type, Plain))
    except (ValueError, RecursionError) as error:
        raise ModelStreamBroken(f"not an event we know: {error}", code="stream_malformed") from error


def _too_large() -> ModelStreamBroken:
    return ModelStreamBroken(
        f"an event of the stream has more than {EVENT_MAX_BYTES} bytes", code="stream_malformed"
    )
