"""Time for display and for limits, never for order; and a meter for the metrics of `stepline.metrics`."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """Return the time in UTC, timezone-aware."""

    def monotonic_s(self) -> float:
        """Return the monotonic seconds of this process."""

    def pause(self, seconds: float) -> None:
        """Wait; used for the delay between two attempts."""


class Meter(Protocol):
    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        """Add `value` to a metric; a name that ends in `Ms` is a time in milliseconds.

        With a `reason` from a short list, it is also counted under that reason.
        """
