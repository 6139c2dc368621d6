"""Metrics in a dictionary."""

from __future__ import annotations

from collections import Counter


class MemoryMeter:
    """`counts` maps a metric to its sum, and `<metric>/<reason>` to the sum for a reason."""

    def __init__(self) -> None:
        """Start at zero."""
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        for key in (name, f"{name}/{reason}") if reason else (name,):
            self.counts[key] += value  # type: ignore[assignment]  # a Counter adds floats as well
