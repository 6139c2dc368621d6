"""A state machine within its quotas: what runs is listed once, and every other question and start waits for its turn.

Step Functions refills a bucket of requests for each action, account and region, and ingress asks from the same bucket:
a sweep takes half of the smaller regions' quota.
Source: docs/concepts/log.md#the-sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import Final

from stepline.model.step import Step
from stepline.ports.clock import Clock
from stepline.ports.machine import ExecutionStatus, Machine


@dataclass(frozen=True)
class RequestQuota:
    """A bucket of `burst` requests into which `per_s` flow."""

    burst: int
    per_s: float

    def within(self, seconds: float) -> int:
        """Return how many requests it allows in so many seconds from full."""
        return self.burst + int(self.per_s * seconds)


DESCRIBES: Final = RequestQuota(125, 5)
"""Half of 250 and 10 a second; three regions have 300 and 15."""
STARTS: Final = RequestQuota(150, 75)
"""Half of 300 and 150 a second. Stops are as rare as turns beyond their deadline, and share them."""


class Bucket:
    """A quota that several threads draw on; it begins full."""

    def __init__(self, quota: RequestQuota, clock: Clock) -> None:
        self._quota, self._clock = quota, clock
        self._lock = Lock()
        self._left = float(quota.burst)
        self._at_s = clock.monotonic_s()

    def take(self) -> None:
        """Take one request out, and wait until it is there; requests are served in the order in which they came."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            refilled = self._left + (now_s - self._at_s) * self._quota.per_s
            self._left, self._at_s = min(refilled, float(self._quota.burst)) - 1, now_s
            wait_s = max(0.0, -self._left / self._quota.per_s)
        if wait_s:
            self._clock.pause(wait_s)


class PacedMachine:
    """A `Machine` for one sweep. Thread-safe.

    `listed` are the executions that ran when the sweep began: they are alive without a question. One that has ended since is
    met by the next sweep, or by its event.
    """

    def __init__(self, machine: Machine, clock: Clock) -> None:
        """List what runs, and begin with full buckets."""
        self.listed = machine.running()
        self._machine = machine
        self._describes, self._starts = Bucket(DESCRIBES, clock), Bucket(STARTS, clock)

    def start(self, name: str, step: Step) -> bool:
        self._starts.take()
        return self._machine.start(name, step)

    def status(self, name: str) -> ExecutionStatus:
        if name in self.listed:
            return "running"
        self._describes.take()
        return self._machine.status(name)

    def running(self) -> frozenset[str]:
        return self.listed

    def stop(self, name: str) -> None:
        self._starts.take()
        self._machine.stop(name)
