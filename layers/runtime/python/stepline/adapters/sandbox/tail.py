"""The end of a program's output: a fixed number of bytes is kept."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

CHUNK_BYTES: Final = 64 * 1024
_CONTINUATION: Final = range(0x80, 0xC0)
_CHARACTER_MAX_BYTES: Final = 4


class Tail:
    """Keeps the last bytes written and counts them all. One thread may write while others read."""

    def __init__(self, limit_bytes: int, beside: Callable[[bytes], None] | None = None) -> None:
        """Keep `limit_bytes`; `beside` also gets every chunk."""
        self._limit_bytes = limit_bytes
        self._beside = beside
        self._kept = bytearray()
        self._total_bytes = 0
        self._lock = threading.Lock()

    @property
    def total_bytes(self) -> int:
        """The number of bytes written, kept or not."""
        return self._total_bytes

    def write(self, chunk: bytes) -> None:
        """Append a chunk; drop bytes over the limit at the front."""
        with self._lock:
            self._total_bytes += len(chunk)
            self._kept += chunk[max(0, len(chunk) - self._limit_bytes) :]
            del self._kept[: max(0, len(self._kept) - self._limit_bytes)]
        if self._beside:
            self._beside(chunk)

    def text(self) -> str:
        """Return the kept end as text: starting with a whole character, invalid bytes as U+FFFD."""
        with self._lock:
            kept, cut = bytes(self._kept), self._total_bytes > len(self._kept)
        start = 0
        if cut:
            while start < min(_CHARACTER_MAX_BYTES - 1, len(kept)) and kept[start] in _CONTINUATION:
                start += 1
        return kept[start:].decode("utf-8", "replace")


def drain(fd: int, tail: Tail) -> threading.Thread:
    """Read a pipe into `tail` until its other end is closed, in a thread that owns and closes `fd`.

    A process that outlives its program can keep the other end open: join with a timeout.
    """
    thread = threading.Thread(target=_drain, args=(fd, tail), name="drain", daemon=True)
    thread.start()
    return thread


def _drain(fd: int, tail: Tail) -> None:
    try:
        while chunk := os.read(fd, CHUNK_BYTES):
            tail.write(chunk)
    except OSError as error:
        logger.warning("output not read to its end", extra={"reason": error.strerror})
    finally:
        os.close(fd)
