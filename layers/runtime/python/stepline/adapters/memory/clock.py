"""A clock that only moves on request, and metrics in a dictionary."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

START = datetime(2026, 1, 1, tzinfo=UTC)


class MemoryClock:
    """A clock that does not move by itself; `pause` advances it and returns immediately."""

    def __init__(self, start: datetime = START) -> None:
        """Start at `start`, which is timezone-aware."""
        self._start = start
        self._passed_s = 0.0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._passed_s)

    def monotonic_s(self) -> float:
        return self._passed_s

    def pause(self, seconds: float) -> None:
        self._passed_s += seconds


class MemoryMeter:
    """Metrics in `counts`, which maps a metric to its sum, and `<metric>/<reason>` to the sum for a reason."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        for key in (name, f"{name}/{reason}") if reason else (name,):
            self.counts[key] += value  # type: ignore[assignment]  # a Counter adds floats as well
