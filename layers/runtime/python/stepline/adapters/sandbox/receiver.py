"""What comes in over one connection, frame by frame, and the room that all connections of a run share.

The other side announces how long a frame is and sends it as it likes: none is longer than it may be, none takes longer
than it may, and nothing is held for one before there is room.
Source: docs/reference/executor-protocol.md#frames.
"""

from __future__ import annotations

import mmap
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

from stepline.errors import ToolError
from stepline.programs.frame import HEADER_BYTES, REQUEST_BYTES_MAX

FRAME_S: Final = 10.0
"""The latest end of a frame after its first byte, and of a reply after its first."""

ROOM_BYTES: Final = 24 * 1024 * 1024
"""What the large requests of a run may hold together."""

SMALL_BYTES: Final = 64 * 1024
"""A request of up to this size needs no room: there is one for each connection at most."""

Body: TypeAlias = bytearray | mmap.mmap


class Room:
    """Lets connections wait for each other instead of holding more together than there is memory for."""

    def __init__(self, size_bytes: int = ROOM_BYTES) -> None:
        """Have room for `size_bytes`, which no single request exceeds."""
        self._free_bytes = size_bytes
        self._open = True
        self._changed = threading.Condition()

    @contextmanager
    def held(self, size_bytes: int, deadline_s: float) -> Generator[None]:
        """Wait for room until `deadline_s` of the monotonic clock, and hold it. Raises ToolError `deadline_over`."""
        with self._changed:
            while self._open and self._free_bytes < size_bytes:
                self._changed.wait(time_left(deadline_s))
            self._free_bytes -= size_bytes
        try:
            yield
        finally:
            with self._changed:
                self._free_bytes += size_bytes
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody wait any more: what they waited to read does not come."""
        with self._changed:
            self._open = False
            self._changed.notify_all()


class Receiver:
    """Reads the requests of one connection."""

    def __init__(self, connection: socket.socket, room: Room, *, deadline_s: float, frame_s: float) -> None:
        """Read until `deadline_s` of the monotonic clock, each frame for `frame_s` at most."""
        self._connection = connection
        self._room = room
        self._deadline_s = deadline_s
        self._frame_s = frame_s

    def requests(self) -> Generator[Body]:
        """Yield what a connection asks, until it ends. A large request keeps its room until the next is asked for.

        Raises ToolError `frame_too_large`, `frame_timeout`, `deadline_over`, OSError.
        """
        while header := self._read_header():
            size = int.from_bytes(header, "big")
            if size > REQUEST_BYTES_MAX:
                raise ToolError(f"a request has at most {REQUEST_BYTES_MAX} bytes", code="frame_too_large")
            with self._room.held(size if size > SMALL_BYTES else 0, self._deadline_s):
                body = _make_body(size)
                if not self._fill(body, time.monotonic()):
                    return
                yield body
                del body

    def _read_header(self) -> bytes:
        """Return the next frame's header, or nothing at the end."""
        first = bytearray(1)
        # Between frames a connection may rest as long as the run.
        if not self._fill(first, None):
            return b""
        others = bytearray(HEADER_BYTES - 1)
        return bytes(first + others) if self._fill(others, time.monotonic()) else b""

    def _fill(self, body: Body, began_s: float | None) -> bool:
        """Read as much as `body` holds, of a frame that `began_s`; return whether the other side sent that much."""
        view, have = memoryview(body), 0
        while have < len(view):
            self._connection.settimeout(self._left_s(began_s))
            try:
                got = self._connection.recv_into(view[have:])
            except TimeoutError:
                continue
            if not got:
                return False
            have += got
        return True

    def _left_s(self, began_s: float | None) -> float:
        left_s = time_left(self._deadline_s)
        if began_s is None:
            return left_s
        frame_left_s = began_s + self._frame_s - time.monotonic()
        if frame_left_s <= 0:
            raise ToolError(f"a frame is complete within {self._frame_s:g} s", code="frame_timeout")
        return min(left_s, frame_left_s)


def time_left(deadline_s: float) -> float:
    """Return the seconds to a moment of the monotonic clock. Raises ToolError `deadline_over`."""
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise ToolError("the run's time is over", code="deadline_over")
    return left_s


def _make_body(size: int) -> Body:
    # Pages of its own go back to the system at once; the allocator keeps a large block for each thread that had one.
    if size > SMALL_BYTES:
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return bytearray(size)
