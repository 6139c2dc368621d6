"""Time, for showing and for limits; never for order."""

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
