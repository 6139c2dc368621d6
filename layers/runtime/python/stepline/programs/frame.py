"""Frames between a program and its supervisor, without the socket: bytes in, bodies out.

A frame is its body's length in four bytes, big-endian, and the body, a JSON object in UTF-8. Bytes inside a
body are `{"__type__": "bytes", "__data__": <base64>}`, at any depth.
Source: docs/reference/executor-protocol.md#frames.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from stepline.errors import ToolError

HEADER_BYTES: Final = 4
REQUEST_BYTES_MAX: Final = 8 * 1024 * 1024
REPLY_BYTES_MAX: Final = 16 * 1024 * 1024

_TYPE: Final = "__type__"
_DATA: Final = "__data__"


class FrameReader:
    """Splits the bytes of one connection into frames. It never holds more than one frame."""

    def __init__(self, max_bytes: int = REQUEST_BYTES_MAX) -> None:
        """Accept bodies of up to `max_bytes`."""
        self._max_bytes = max_bytes
        self._held = bytearray()

    @property
    def held_bytes(self) -> int:
        """Bytes of a frame that is not complete yet; 0 between frames."""
        return len(self._held)

    def feed(self, data: bytes) -> list[bytes]:
        """Take the next bytes and return the bodies that they complete.

        Raises ToolError `frame_too_large` as soon as a header announces too many bytes; the stream then has no next
        frame.
        """
        held = self._held
        held += data
        bodies: list[bytes] = []
        start = 0
        while len(held) - start >= HEADER_BYTES:
            size = int.from_bytes(held[start : start + HEADER_BYTES], "big")
            if size > self._max_bytes:
                held.clear()
                raise ToolError(f"a request has at most {self._max_bytes} bytes", code="frame_too_large")
            end = start + HEADER_BYTES + size
            if len(held) < end:
                break
            bodies.append(bytes(held[start + HEADER_BYTES : end]))
            start = end
        del held[:start]
        return bodies


def render_frame(body: bytes) -> bytes:
    """Return the frame of a body; the caller must respect the size limit of the peer."""
    return len(body).to_bytes(HEADER_BYTES, "big") + body


def pack_bytes(value: Any) -> Any:
    """Return a JSON value with bytes in their JSON form."""
    match value:
        case bytes() | bytearray() | memoryview():
            return {_TYPE: "bytes", _DATA: base64.b64encode(value).decode()}
        case Mapping():
            return {key: pack_bytes(item) for key, item in value.items()}
        case list() | tuple():
            return [pack_bytes(item) for item in value]
        case _:
            return value


def unpack_bytes(value: Any) -> Any:
    """Return a decoded JSON value with its bytes restored. Raises ToolError `bad_params` for bad base64."""
    match value:
        case {"__type__": "bytes", "__data__": str(data)} if len(value) == 2:
            try:
                return base64.b64decode(data, validate=True)
            except ValueError as error:  # binascii.Error is one
                raise ToolError("bytes are written in base64", code="bad_params") from error
        case dict():
            return {key: unpack_bytes(item) for key, item in value.items()}
        case list():
            return [unpack_bytes(item) for item in value]
        case _:
            return value
