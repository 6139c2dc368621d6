"""Logs that misbehave as the real one may: stale reads, lost answers, and a faster writer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import UnknownOutcome
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.ports.log import Occupied, Put


class StaleLog(MemoryLog):
    """Eventually consistent reads do not see the newest `lag` batches."""

    def __init__(self, lag: int = 1) -> None:
        super().__init__()
        self.lag = lag

    def _seen(self, lane: Lane, *, consistent: bool) -> int:
        stored = len(self.batches.get(lane.key(), []))
        return stored if consistent else max(0, stored - self.lag)

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        seen = self._seen(lane, consistent=consistent)
        return self.get(lane, seen) if seen else None

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        seen = self._seen(lane, consistent=consistent)
        return super().since(lane, n, upto=seen if upto is None else min(upto, seen))

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        found = MemoryLog.since(self, lane, n - 1, upto=n)
        return found[0] if found else None


class LosingLog(MemoryLog):
    """The answers to the next puts are lost: `True` for one that was applied, `False` for one that was not."""

    def __init__(self, *applied: bool) -> None:
        super().__init__()
        self._applied = list(applied)

    def lose(self, *applied: bool) -> None:
        self._applied += applied

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        if not self._applied:
            return super().put(lane, batch, **fields)
        if self._applied.pop(0):
            super().put(lane, batch, **fields)
        raise UnknownOutcome("the answer was lost")


class BusyLog(MemoryLog):
    """Before each put, the next of `rivals` acts; then the put continues."""

    def __init__(self) -> None:
        super().__init__()
        self.rivals: list[Callable[[], Any]] = []

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        if self.rivals:
            self.rivals.pop(0)()
        return super().put(lane, batch, **fields)


class ContendedLog(MemoryLog):
    """Another writer always takes the next number, once `contended` is set."""

    contended = False

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        if self.contended:
            return Occupied(batch=Batch(n=batch.n, by="another", at="", entries=(), state=batch.state))
        return super().put(lane, batch, **fields)


class CountingLog(MemoryLog):
    """Records the requested ranges of batches, in order: from after one up to another."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int | None]] = []

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        self.reads.append((n, upto))
        return super().since(lane, n, upto=upto, consistent=consistent)
