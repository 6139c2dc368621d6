"""The ledger of one invocation: the model calls and the services that it used, until they are recorded."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from threading import Lock

from stepline.model.ids import Lane
from stepline.model.tenancy.consumption import Consumption
from stepline.model.usage import ModelCall


class Ledger:
    """Collects from all threads of an invocation.

    A process that runs one invocation after another has one, and `begin`s it anew each time; a process that drives several
    steps at once has one for each.
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

    def begin(self, memory_mb: int, *, began_s: float | None = None) -> None:
        """Begin an invocation of a function with this memory, now or before (`time.monotonic`).

        What an earlier one left is void.
        """
        with self._lock:
            self._calls.clear()
            self._counts.clear()
            self._began = time.monotonic() if began_s is None else began_s
            self._memory_mb = memory_mb
            self._spent_nanos = 0
            self.lane, self.turn = None, ""

    def works_for(self, lane: Lane, turn: str = "") -> None:
        """Name the conversation that the invocation works for, and its turn, if there is one."""
        self.lane, self.turn = lane, turn

    def called(self, call: ModelCall) -> None:
        """Add a call of a model."""
        with self._lock:
            self._calls.append(call)
            self._spent_nanos += call.nanos

    def count(self, field: str, amount: int = 1) -> None:
        """Add to a field of `Consumption`."""
        with self._lock:
            self._counts[field] += amount

    @property
    def spent_nanos(self) -> int:
        """The cost of the invocation's model calls so far, recorded or not."""
        return self._spent_nanos

    @property
    def calls(self) -> tuple[ModelCall, ...]:
        """The calls that no batch has recorded yet."""
        with self._lock:
            return tuple(self._calls)

    def take_calls(self) -> tuple[ModelCall, ...]:
        """Return the calls that no batch has recorded yet, and forget them."""
        with self._lock:
            taken = tuple(self._calls)
            self._calls.clear()
            return taken

    def give_back(self, calls: Iterable[ModelCall]) -> None:
        """Take calls back whose batch was not put."""
        given = list(calls)
        with self._lock:
            self._calls[:0] = given

    def consumption(self) -> Consumption:
        """Return what the invocation has used so far, its time included."""
        with self._lock:
            passed_ms = round((time.monotonic() - self._began) * 1000)
            counts = Counter(self._counts)
        counts["invocations"] += 1
        counts["function_ms"] += passed_ms
        counts["mb_ms"] += passed_ms * self._memory_mb
        return Consumption(**counts)
