"""What is counted, under the names of `stepline.metrics`."""

from __future__ import annotations

from typing import Protocol


class Meter(Protocol):
    def count(self, name: str, value: float = 1, *, reason: str = "") -> None:
        """Add `value` to a metric; a name that ends in `Ms` is a time in milliseconds.

        With a `reason`, which comes from a list of few, it is counted under that too.
        """
        ...
