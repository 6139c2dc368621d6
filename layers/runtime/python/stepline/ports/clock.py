"""Time, for showing and for limits; never for order.

What is counted, under the names of `stepline.metrics`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time, aware, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds that only grow, in this process."""
        ...

    def pause(self, seconds: float) -> None:
        """Wait; a back-off between two tries."""
        ...


class Meter(Protocol):
    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        """Add `value` to a metric; a name that ends in `Ms` is a time in milliseconds.

        With a `reason`, which comes from a list of few, it is counted under that too.
        """
        ...
