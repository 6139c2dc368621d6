"""Counts in a dictionary."""

from __future__ import annotations

from collections import Counter


class MemoryMeter:
    """`counts` maps a metric to the sum of what was counted, and `<metric>/<reason>` to what was for a reason."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        for key in (name, f"{name}/{reason}") if reason else (name,):
            self.counts[key] += value  # type: ignore[assignment]  # a Counter adds floats as well
