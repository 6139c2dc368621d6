"""Signals by looking: a thread beside the step that reads the conversation's next batch every now and then.

A look is one small read of a batch that is usually not there. What makes the next look due is the bell's affair: the
plain one waits an interval, another may know sooner. Whatever a bell says, only the log makes a steer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, Self

from stepline.errors import DependencyError, SteplineError
from stepline.model.batch import Batch
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.ports.log import Log

logger = logging.getLogger(__name__)

EXIT_S: Final = 25.0
"""How long the end of a watch waits for a look that is under way: as long as one can take, since a process may be frozen
behind it. A thread that is still there tells nobody any more."""


class Bell(Protocol):
    """When a watch looks. Everything but `end` is called by its thread alone."""

    def wait(self, at: int) -> int:
        """Wait until a look is due, or `end`; return the batch that is said to steer, 0 if nobody says so.

        `at` is the newest batch that the watch has read.
        """
        ...

    def end(self) -> None:
        """Let nobody wait any more, from any thread."""
        ...

    def close(self) -> None:
        """Give up what waiting needed."""
        ...


class Interval:
    """The plain bell: the same pause before every look."""

    def __init__(self, poll_s: float) -> None:
        self._poll_s = poll_s
        self._ended = threading.Event()

    def wait(self, at: int) -> int:
        self._ended.wait(self._poll_s)
        return 0

    def end(self) -> None:
        self._ended.set()

    def close(self) -> None:
        """It holds nothing."""


class LogWatch:
    """A watch whose looks run in a thread of its own, from the beginning of its `with` block to the end."""

    def __init__(self, log: Log, lane: Lane, after: int, bell: Bell) -> None:
        """Watch for steers behind batch `after`, whenever `bell` says so."""
        self._log = log
        self._lane = lane
        self._at = after
        self._bell = bell
        self._newest = 0
        self._aborts: list[Callable[[], None]] = []
        self._lock = threading.RLock()  # an abort may ask what the watch has seen
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
            with self._lock:  # an abort that is under way ends before the block does
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
        """Read on from where the last look ended; for a batch that somebody named, as consistently as that takes."""
        if 0 < named <= self._at:
            return
        try:
            while not self._ended and (batch := self._read(named)) is not None:
                self._take(batch)
        except DependencyError as error:
            if not self._failing:  # a log that is away for a while is one line, not one a look
                logger.warning("log not read for steers", extra={"code": error.reason})
            self._failing = True
        else:
            self._failing = False

    def _read(self, named: int) -> Batch | None:
        n = self._at + 1
        return self._log.get(self._lane, n, consistent=n <= named)

    def _take(self, batch: Batch) -> None:
        self._at = batch.n
        if not any(isinstance(entry, Inbound) and entry.steers for entry in batch.entries):
            return
        with self._lock:
            if self._ended:
                return
            self._newest = batch.n
            self._seen.set()
            while self._aborts:
                self._aborts.pop()()


class PollingSignals:
    """Signals that need nothing but the log: whoever watches looks at an interval."""

    def __init__(self, log: Log, poll_s: float) -> None:
        """Look for steers in `log` every `poll_s` seconds."""
        self._log = log
        self.poll_s = poll_s

    def notify(self, lane: Lane, n: int) -> None:
        """Whoever watches looks by itself."""

    def watch(self, lane: Lane, after: int) -> LogWatch:
        return LogWatch(self._log, lane, after, Interval(self.poll_s))
