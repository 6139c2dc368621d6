"""A state machine within its quotas: running executions are listed once, and other requests wait for their quota.

Step Functions refills a bucket of requests for each action, account and region, and ingress uses the same bucket, so a
sweep uses half of the smaller regions' quota.
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
    """A bucket of `burst` requests that refills by `per_s` a second."""

    burst: int
    per_s: float

    def within(self, seconds: float) -> int:
        """Return how many requests a full bucket allows in `seconds`."""
        return self.burst + int(self.per_s * seconds)


DESCRIBES: Final = RequestQuota(125, 5)
"""Half of 250 and 10 a second; three regions have 300 and 15."""
STARTS: Final = RequestQuota(150, 75)
"""Half of 300 and 150 a second. Stops are as rare as turns beyond their deadline, and share this quota."""


class Bucket:
    """A quota that several threads share; it begins full."""

    def __init__(self, quota: RequestQuota, clock: Clock) -> None:
        self._quota, self._clock = quota, clock
        self._lock = Lock()
        self._left = float(quota.burst)
        self._at_s = clock.monotonic_s()

    def take(self) -> None:
        """Take one request out, and wait until it is available; requests are served in order of arrival."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            refilled = self._left + (now_s - self._at_s) * self._quota.per_s
            self._left, self._at_s = min(refilled, float(self._quota.burst)) - 1, now_s
            wait_s = max(0.0, -self._left / self._quota.per_s)
        if wait_s:
            self._clock.pause(wait_s)


class PacedMachine:
    """A `Machine` for one sweep. Thread-safe.

    `listed` are the executions that ran when the sweep began: they count as alive without a request. One that has ended
    since is found by the next sweep, or by its event.
    """

    def __init__(self, machine: Machine, clock: Clock) -> None:
        """List the running executions, and begin with full buckets."""
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
