"""The ledger of one invocation: its model calls that no batch has recorded yet, and counts of used services."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from threading import Lock

from stepline.model.ids import Lane
from stepline.model.tenancy.consumption import Consumption
from stepline.model.usage import ModelCall


class Ledger:
    """Model calls, and counts by field of `Consumption`, of all threads of one invocation.

    A process that runs invocations one after another has one ledger and calls `begin` for each; a process that drives
    several steps at once has one ledger per step.
    """

    def __init__(self) -> None:
        """Begin empty, with a function's memory of 0."""
        self._lock = Lock()
        self._calls: list[ModelCall] = []
        self._counts: Counter[str] = Counter()
        self._began = time.monotonic()
        self._memory_mb = 0
        self._spent_nanos = 0
        self.lane: Lane | None = None
        self.turn = ""
        self.beside: tuple[ModelCall, ...] = ()
        """The model calls that belong to no batch: the row of the invocation has them."""

    def begin(self, memory_mb: int, *, began_s: float | None = None) -> None:
        """Begin an invocation of a function with `memory_mb`, now or at `began_s` (`time.monotonic`).

        Calls and counts of the previous invocation are dropped.
        """
        with self._lock:
            self._calls.clear()
            self._counts.clear()
            self._began = time.monotonic() if began_s is None else began_s
            self._memory_mb = memory_mb
            self._spent_nanos = 0
            self.lane, self.turn, self.beside = None, "", ()

    def works_for(self, lane: Lane, turn: str = "") -> None:
        """Set the conversation that the invocation works for, and its turn; "" for no turn."""
        self.lane, self.turn = lane, turn

    def called(self, call: ModelCall) -> None:
        """Add a model call that no batch has recorded, and its price to `spent_nanos`."""
        with self._lock:
            self._calls.append(call)
            self._spent_nanos += call.nanos

    def count(self, field: str, amount: int = 1) -> None:
        """Add an amount to the count of a field of `Consumption`, in that field's unit."""
        with self._lock:
            self._counts[field] += amount

    @property
    def spent_nanos(self) -> int:
        """The price of all model calls of the invocation, recorded or not, in billionths of a dollar."""
        return self._spent_nanos

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The model calls that no batch has recorded yet, oldest first."""
        with self._lock:
            return tuple(self._calls)

    def take_calls(self) -> tuple[ModelCall, ...]:
        """Return the model calls that no batch has recorded yet, oldest first, and remove them.

        They are for a batch that is about to be put.
        """
        with self._lock:
            calls = tuple(self._calls)
            self._calls.clear()
            return calls

    def give_back(self, calls: Iterable[ModelCall]) -> None:
        """Return calls to the front of the others, because their batch was not put."""
        given = list(calls)
        with self._lock:
            self._calls[:0] = given

    def consumption(self) -> Consumption:
        """Return the counts so far, with one invocation and its time in milliseconds and in megabyte-milliseconds."""
        with self._lock:
            passed_ms = round((time.monotonic() - self._began) * 1000)
            counts = Counter(self._counts)
        counts["invocations"] += 1
        counts["function_ms"] += passed_ms
        counts["mb_ms"] += passed_ms * self._memory_mb
        return Consumption(**counts)
