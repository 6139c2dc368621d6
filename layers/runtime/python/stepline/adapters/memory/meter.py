"""Counts in a dictionary."""

from __future__ import annotations

from collections import Counter


class MemoryMeter:
    """`counts` maps a metric to the sum of what was counted."""

    def __init__(self) -> None:
        """Begin at nothing."""
        self.counts: Counter[str] = Counter()

    def count(self, name: str, value: float = 1) -> None:
        self.counts[name] += value  # type: ignore[assignment]  # a Counter adds floats as well
