"""Signals by polling: a thread next to the step reads the conversation's next batch periodically.

A poll is one small read of a batch that usually does not exist. A bell decides when the next poll is due: the plain
bell at an interval, another bell possibly sooner. In every case, only the log proves a steer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, Self

from stepline.errors import DependencyError, NotFoundError, SteplineError
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.ports.log import Log
from stepline.ports.signal import ends_wait

logger = logging.getLogger(__name__)

EXIT_S: Final = 25.0
"""How long the end of a watch waits for a running poll.

It is as long as a poll can take, since a process may be frozen after it. A thread that still runs then reports
nothing.
"""


class Bell(Protocol):
    """Decides when a watch polls. Only the watch's thread calls its methods, except for `end`."""

    def wait(self, at: int) -> int:
        """Wait until a poll is due or `end` is called; return the batch announced as a steer, 0 for none.

        `at` is the newest batch that the watch has read.
        """

    def end(self) -> None:
        """End all waits; callable from any thread."""

    def close(self) -> None:
        """Release the resources used for waiting."""


class Interval:
    """The plain bell: the same pause before every poll."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._ended = threading.Event()

    def wait(self, at: int) -> int:
        self._ended.wait(self._poll_s)
        return 0

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        """Do nothing: there are no resources."""


class LogWatch:
    """A watch that polls in its own thread, during its `with` block."""

    def __init__(self, log: Log, lane: Lane, after: int, bell: Bell) -> None:
        """Watch for steers after batch `after`, whenever `bell` rings."""
        self._log = log
        self._lane = lane
        self._at = after
        self._bell = bell
        self._newest = 0
        self._aborts: list[Callable[[], None]] = []
        self._lock = threading.RLock()  # an abort may query the watch
        self._seen = threading.Event()
        self._ended = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        with self._lock:
            self._ended = True
        self._bell.end()
        self._thread.join(EXIT_S)
        if self._thread.is_alive():
            logger.warning("watch did not finish", extra={"seconds": EXIT_S})

    @property
    def requested(self) -> bool:
        return self._seen.is_set()

    def wait(self, seconds: float) -> bool:
        return self._seen.wait(seconds)

    def steer(self) -> int:
        return self._newest

    @contextmanager
    def calling(self, abort: Callable[[], None]) -> Iterator[None]:
        with self._lock:
            late = self.requested
            if not late:
                self._aborts.append(abort)
        if late:
            abort()
        try:
            yield
        finally:
            with self._lock:  # a running abort ends before the block does
                if abort in self._aborts:
                    self._aborts.remove(abort)

    def _run(self) -> None:
        try:
            while True:
                named = self._bell.wait(self._at)
                if self._ended:
                    return
                self._look(named)
        except SteplineError as error:
            logger.exception("watch stopped", extra={"code": error.reason})
        finally:
            self._bell.close()

    def _look(self, named: int) -> None:
        """Continue reading after the last poll; read an announced batch consistently."""
        if 0 < named <= self._at:
            return
        try:
            while not self._ended and (batch := self._read(named)) is not None:
                self._take(batch)
        except NotFoundError:  # the conversation was deleted, and the batch erased
            self._at += 1
            self._see(self._at)
        except DependencyError as error:
            if not self._failing:  # one log line per outage, not per poll
                logger.warning("log not read for steers", extra={"code": error.reason})
            self._failing = True
        else:
            self._failing = False

    def _read(self, named: int) -> Batch | None:
        n = self._at + 1
        return self._log.get(self._lane, n, consistent=n <= named)

    def _take(self, batch: Batch) -> None:
        self._at = batch.n
        if any(ends_wait(entry) for entry in batch.entries):
            self._see(batch.n)

    def _see(self, n: int) -> None:
        with self._lock:
            if self._ended:
                return
            self._newest = n
            self._seen.set()
            while self._aborts:
                self._aborts.pop()()


class PollingSignals:
    """Signals that use only the log: watchers poll at an interval."""

    def __init__(self, log: Log, poll_s: float) -> None:
        """Look for steers in `log` every `poll_s` seconds."""
        self._log = log
        self.poll_s = poll_s

    def notify(self, lane: Lane, n: int) -> None:
        """Do nothing: watchers poll on their own."""

    def watch(self, lane: Lane, after: int) -> LogWatch:
        return LogWatch(self._log, lane, after, Interval(self.poll_s))
