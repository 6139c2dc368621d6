"""The output of a program, stored while it runs for those who watch.

A thread stores the end of the output at most once a second, and less often the more there is. Nothing of a run
depends on it: a copy that cannot be stored is left out, and the next one holds its text.

Source: docs/concepts/streaming.md#the-log-of-a-program.
"""

from __future__ import annotations

import codecs
import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import msgspec

from stepline.errors import SteplineError
from stepline.model.program.execution import ExecRequest
from stepline.model.program.running_log import LOG_CHARS, RunningLog, log_lane

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
CHARS_PER_S: Final = 16 * 1024
"""The most that those who watch get of a program that prints without end."""
CLOSE_S: Final = 5.0
"""How long the end of a run waits for its last copy."""

Store = Callable[[bytes], object]
"""Stores a copy in the place of the one before. Raises SteplineError."""


class LiveLog:
    """One run's output. While entered, its end is stored; leaving it stores the last copy. One thread writes."""

    def __init__(self, request: ExecRequest, store: Store, *, interval_s: float = INTERVAL_S) -> None:
        """Store copies with `store`, `interval_s` apart at least."""
        self._lane = log_lane(request)
        self._store = store
        self._interval_s = interval_s
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._kept = 0
        self._end = 0
        self._stored = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            logger.warning("log not stored to its end", extra={"seconds": CLOSE_S})

    def write(self, chunk: bytes) -> None:
        """Append to the output."""
        with self._lock:
            self._append(self._decoder.decode(chunk))

    def _append(self, text: str) -> None:
        self._pieces.append(text)
        self._kept += len(text)
        self._end += len(text)
        if self._kept > 2 * LOG_CHARS:
            self._join()

    def _join(self) -> str:
        """Return the end of the output, and forget what is before it."""
        text = "".join(self._pieces)[-LOG_CHARS:]
        self._pieces, self._kept = [text], len(text)
        return text

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._over.wait(pause_s):
            pause_s = max(self._interval_s, self._copy() / CHARS_PER_S)
        self._copy(ended=True)

    def _copy(self, *, ended: bool = False) -> int:
        """Store a copy if there is anything new, and return the number of new characters in it."""
        with self._lock:
            if ended:
                self._append(self._decoder.decode(b"", final=True))
            text, end = self._join(), self._end
        since = self._stored
        if not end or (end == since and not ended):
            return 0
        log = RunningLog(lane=self._lane, start=end - len(text), since=since, text=text, ended=ended)
        try:
            self._store(msgspec.json.encode(log))
        except SteplineError as error:
            logger.warning("log not stored", extra={"code": error.reason})
            return 0
        self._stored = end
        return min(end - since, LOG_CHARS)
