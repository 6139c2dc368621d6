"""Steers read from the log on every call: no thread, and never late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from stepline.model.ids import Lane
from stepline.ports.log import Log
from stepline.ports.signal import ends_wait


class MemoryWatch:
    """Reads the log on every call; `calling` reads it at its start."""

    def __init__(self, log: Log, lane: Lane, after: int) -> None:
        """Watch for steers after batch `after`."""
        self._log = log
        self._lane = lane
        self._after = after

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: there is no thread."""

    @property
    def requested(self) -> bool:
        return self.steer() > 0

    def wait(self, seconds: float) -> bool:
        return self.requested

    def steer(self) -> int:
        found = self._log.since(self._lane, self._after, consistent=True)
        steers = (batch.n for batch in found if any(ends_wait(entry) for entry in batch.entries))
        return max(steers, default=0)

    @contextmanager
    def calling(self, abort: Callable[[], None]) -> Iterator[None]:
        if self.requested:
            abort()
        yield


class MemorySignals:
    def __init__(self, log: Log) -> None:
        self._log = log

    def notify(self, lane: Lane, n: int) -> None:
        """Do nothing: watchers read the log themselves."""

    def watch(self, lane: Lane, after: int) -> MemoryWatch:
        return MemoryWatch(self._log, lane, after)
