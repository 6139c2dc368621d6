"""Costs in this process."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

from stepline.model.ids import Lane
from stepline.model.tenancy.consumption import InvocationCost


class MemoryCosts:
    """A list for each lane; nothing here is billed, so a row counts no write of its own."""

    def __init__(self) -> None:
        """Start without rows."""
        self._lock = Lock()
        self._rows: defaultdict[Lane, list[InvocationCost]] = defaultdict(list)

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        with self._lock:
            self._rows[lane].append(cost)

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        with self._lock:
            found = [row for row in self._rows[lane] if turn is None or row.turn == turn]
        return sorted(found, key=lambda row: row.at)

    def erase(self, lane: Lane) -> int:
        """Remove the rows of a conversation; return their number."""
        with self._lock:
            return len(self._rows.pop(lane, ()))
