"""Stores the output of a running program for clients that watch it.

A thread stores the end of the output at most once a second, and less often the more there is. A copy at the beginning
of the program shows that it runs, and one at its end that it has ended. The run does not depend on it: a copy that
cannot be stored is skipped, and the next one holds its text.

Source: docs/concepts/streaming.md#the-log-of-a-program.
"""

from __future__ import annotations

import codecs
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

import msgspec

from stepline.errors import SteplineError
from stepline.model.ids import utc
from stepline.model.program.execution import ExecRequest
from stepline.model.program.running_log import LOG_CHARS, RunningLog, log_lane

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0
CHARS_PER_S: Final = 16 * 1024
"""The maximum output that clients get from a program that prints endlessly."""
CLOSE_S: Final = 5.0
"""How long the end of a run waits for its last copy."""

Store = Callable[[bytes], object]
"""Stores a copy, replacing the previous one. Raises SteplineError."""


class LiveLog:
    """The output of one run, stored during the `with` block; leaving it stores the last copy. One thread writes.

    Nothing is stored before `begin`: earlier output is not the program's.
    """

    def __init__(self, request: ExecRequest, store: Store, *, interval_s: float = INTERVAL_S) -> None:
        """Store copies with `store`, at least `interval_s` apart."""
        self._lane = log_lane(request)
        self._store = store
        self._interval_s = interval_s
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._lock = threading.Lock()
        self._pieces: list[str] = []
        self._kept = 0
        self._end = 0
        self._stored = 0
        self.began_at = ""
        """The time when the program began; "" before that."""
        self._ended_at = ""
        self._stored_times = ("", "")
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-log", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._thread.join(CLOSE_S)
        if self._thread.is_alive():
            logger.warning("log not stored to its end", extra={"seconds": CLOSE_S})

    def begin(self) -> None:
        """Record that the program runs."""
        self.began_at = utc(datetime.now(UTC))
        self._wake.set()

    def end(self) -> None:
        """Record that the program and its output have ended."""
        self._ended_at = self._ended_at or utc(datetime.now(UTC))
        self._wake.set()

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
        """Return the end of the output, and drop the rest."""
        text = "".join(self._pieces)[-LOG_CHARS:]
        self._pieces, self._kept = [text], len(text)
        return text

    def _run(self) -> None:
        pause_s = self._interval_s
        while not self._ended_at:
            self._wake.wait(pause_s)
            self._wake.clear()
            pause_s = max(self._interval_s, self._copy() / CHARS_PER_S)
        self._copy()

    def _copy(self) -> int:
        """Store a copy if there is new output, and return the number of its new characters."""
        times = (self.began_at, self._ended_at)
        with self._lock:
            if times[1]:
                self._append(self._decoder.decode(b"", final=True))
            text, end = self._join(), self._end
        since = self._stored
        if not times[0] or self._stored_times[1] or (end, times) == (since, self._stored_times):
            return 0
        log = RunningLog(
            lane=self._lane,
            start=end - len(text),
            since=since,
            text=text,
            ended=bool(times[1]),
            began_at=times[0],
            ended_at=times[1],
        )
        try:
            self._store(msgspec.json.encode(log))
        except SteplineError as error:
            logger.warning("log not stored", extra={"code": error.reason})
            return 0
        self._stored, self._stored_times = end, times
        return min(end - since, LOG_CHARS)
