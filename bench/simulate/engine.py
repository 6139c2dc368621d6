"""Time, waiting and counting: processes that are generators, buckets that refill, slots that are taken in order."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter, deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from bench.simulate.quota import Quota

Process: TypeAlias = Generator[Any, Any, None]
"""Yields seconds to wait, or a `Claim` to wait for; resumes after it."""
WINDOW_S = 60
STEP_S = 10


class Clock:
    """Runs processes in the order of their times, and of their beginning where these are equal."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Process]] = []
        self._count = itertools.count()

    def start(self, process: Process, after_s: float = 0.0) -> None:
        heapq.heappush(self._due, (self.now_s + after_s, next(self._count), process))

    def run(self, until_s: float) -> None:
        """Run every process that is due until a time."""
        while self._due and self._due[0][0] <= until_s:
            self.now_s, _, process = heapq.heappop(self._due)
            self._advance(process)
        if until_s < math.inf:
            self.now_s = until_s

    def _advance(self, process: Process) -> None:
        asked = next(process, None)
        if isinstance(asked, Claim):
            asked.places.line.append((asked.weight, process))
            asked.places.serve(self)
        elif asked is not None:
            self.start(process, asked)


@dataclass
class Demand:
    """The requests for a quota: by second, and those that had to wait or were refused."""

    by_second: Counter[int] = field(default_factory=Counter)
    total: float = 0.0
    late: float = 0.0
    peak_level: float = 0.0

    def add(self, amount: float, at_s: float) -> None:
        self.by_second[int(at_s)] += amount  # type: ignore[assignment]  # a Counter adds floats as well
        self.total += amount

    def reach(self, level: float) -> None:
        self.peak_level = max(self.peak_level, level)

    def peak(self) -> float:
        """Return the most at one time, or in a second, averaged over a minute."""
        if self.peak_level:
            return self.peak_level
        last = max(self.by_second, default=0) + 1
        return max(
            sum(self.by_second[at] for at in range(first, first + WINDOW_S)) / WINDOW_S
            for first in range(0, max(1, last - WINDOW_S + 1), STEP_S)
        )


class Bucket:
    """A token bucket. Without a quota it only counts."""

    def __init__(self, clock: Clock, quota: Quota | None, demand: Demand) -> None:
        self._clock = clock
        self._quota = quota
        self._demand = demand
        self._paid_until_s = -math.inf

    def take(self, amount: float) -> float:
        """Take an amount; return the seconds until it is available, for callers that retry."""
        self._demand.add(amount, self._clock.now_s)
        if self._quota is None:
            return 0.0
        begun_s = max(self._paid_until_s, self._clock.now_s - self._quota.burst / self._quota.limit)
        self._paid_until_s = begun_s + amount / self._quota.limit
        wait_s = max(0.0, self._paid_until_s - self._clock.now_s)
        self._demand.late += amount if wait_s else 0.0
        return wait_s

    def offer(self, amount: float) -> bool:
        """Take an amount if it is available now; return False if not, for callers that give up."""
        self._demand.add(amount, self._clock.now_s)
        if self._quota is None:
            return True
        begun_s = max(self._paid_until_s, self._clock.now_s - self._quota.burst / self._quota.limit)
        if begun_s + amount / self._quota.limit > self._clock.now_s:
            self._demand.late += amount
            return False
        self._paid_until_s = begun_s + amount / self._quota.limit
        return True


@dataclass
class Places:
    """Slots that are held for a while. Without a limit it only counts."""

    limit: float | None
    demand: Demand
    line: deque[tuple[float, Process]] = field(default_factory=deque)
    taken: float = 0.0

    @property
    def waiting(self) -> float:
        return sum(weight for weight, _ in self.line)

    def serve(self, clock: Clock) -> None:
        """Let waiting processes continue in order while there is room; a single one always has room."""
        while self.line and (self.limit is None or not self.taken or self._fits(self.line[0][0])):
            weight, process = self.line.popleft()
            self._hold(weight)
            clock.start(process)

    def free(self, weight: float, clock: Clock) -> None:
        self._hold(-weight)
        self.serve(clock)

    def _fits(self, weight: float) -> bool:
        return self.limit is None or self.taken + weight <= self.limit

    def _hold(self, weight: float) -> None:
        self.taken += weight
        self.demand.reach(self.taken)


@dataclass(frozen=True)
class Claim:
    """A request for some slots."""

    places: Places
    weight: float
