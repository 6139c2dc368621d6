r"""Reads the stream of a provider's answer: bytes into server-sent events, and their JSON.

A stream that ends early is accepted: the last event needs no empty line after it, and its last line no line break. A
body that begins with `{` is one JSON text, from a server that does not stream.

Source: html.spec.whatwg.org, "Server-sent events".
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import msgspec

from stepline.errors import ModelStreamBroken

EVENT_MAX_BYTES: Final = 8_000_000
"""Maximum bytes of one event. A real one has a few hundred; a stream without line breaks would fill the memory."""
_MARK: Final = b"\xef\xbb\xbf"
DONE: Final = re.compile(rb"\s*\[?DONE\]?\s*", re.IGNORECASE)
"""The last line of a chat completion, and of servers of other protocols that imitate it."""
_DIGITS_MAX: Final = 400


class ServerSent(NamedTuple):
    """The data of a server-sent event, and its name. Without an empty line after it, it is not `whole`."""

    data: bytes
    name: str = ""
    whole: bool = True


def split_events(chunks: Iterable[bytes]) -> Iterator[ServerSent]:
    """Yield each server-sent event that has data; fields other than `data` and `event` are skipped."""
    data: list[bytes] = []
    name, size, is_first = "", 0, True
    lines = _lines(chunks)
    for line in lines:
        if is_first and line.strip():
            is_first = False
            if line.lstrip().startswith(b"{"):
                yield ServerSent(b"\n".join(_bounded(line, lines)), whole=False)
                return
        if line.startswith(b"data:"):
            data.append(line[5:].removeprefix(b" "))
            size += len(line)
            if size > EVENT_MAX_BYTES:
                raise _too_large()
        elif line.startswith(b"event:"):
            name = line[6:].strip().decode("utf-8", "replace")
        elif not line:
            if data:
                yield ServerSent(b"\n".join(data), name)
            data, name, size = [], "", 0
    if data:
        yield ServerSent(b"\n".join(data), name, whole=False)


def _bounded(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    size = len(first)
    yield first
    for line in rest:
        size += len(line) + 1
        if size > EVENT_MAX_BYTES:
            raise _too_large()
        yield line


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    r"""Yield the lines without their line breaks (`\n`, `\r\n` or `\r`); the last line may have none.

    A byte order mark before the first line is dropped.
    """
    begun: list[bytes] = []
    size, returned, mark = 0, False, _MARK
    for chunk in filter(None, chunks):
        rest = chunk[1:] if returned and chunk.startswith(b"\n") else chunk  # the second half of a `\r\n`
        returned = chunk.endswith(b"\r")
        for line in rest.splitlines(keepends=True):
            begun.append(line)
            size += len(line)
            if line.endswith((b"\n", b"\r")):
                yield b"".join(begun).rstrip(b"\r\n").removeprefix(mark)
                begun, size, mark = [], 0, b""
        if size > EVENT_MAX_BYTES:
            raise _too_large()
    if begun:
        yield b"".join(begun).removeprefix(mark)


def _too_large() -> ModelStreamBroken:
    return ModelStreamBroken(
        f"an event of the stream has more than {EVENT_MAX_BYTES} bytes", code="stream_malformed"
    )


def read_objects(data: bytes) -> list[Any]:
    """Return the JSON values in the data of one event: usually one, or several that only a line break separates.

    Raises ValueError, RecursionError.
    """
    try:
        return [_read_json(data)]
    except ValueError:
        lines = [line for line in data.split(b"\n") if line.strip()]
        if len(lines) < 2:
            raise
        return [_read_json(line) for line in lines if not DONE.fullmatch(line)]


def _read_json(data: bytes) -> Any:
    """Return a value; its texts may hold half a surrogate pair, escaped or not, which msgspec would refuse."""
    try:
        return msgspec.json.decode(data)
    except ValueError:
        return json.loads(data.decode("utf-8", "surrogatepass"), parse_int=_whole)


def _whole(digits: str) -> float:
    """Return a whole number; one with more digits than Python converts is not a valid count."""
    return int(digits) if len(digits) < _DIGITS_MAX else float("inf")
