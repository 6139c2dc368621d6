"""Time, for display and for limits, never for order; and a meter for the metrics of `stepline.metrics`."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time in UTC, timezone-aware."""

    def monotonic_s(self) -> float:
        """Return monotonic seconds of this process."""

    def pause(self, seconds: float) -> None:
        """Wait; the delay between two tries."""


class Meter(Protocol):
    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        """Add `value` to a metric; a name that ends in `Ms` is a time in milliseconds.

        With a `reason`, one of a short list, it is counted under that too.
        """
