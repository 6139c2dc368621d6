"""Message counts in this process."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from stepline.model.tenancy.limits import Scope


class MemoryRate:
    """A counter for each account and minute."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = Lock()
        self._counts: Counter[tuple[Scope, int]] = Counter()

    def count(self, scope: Scope, minute: int) -> int:
        with self._lock:
            self._counts[scope, minute] += 1
            return self._counts[scope, minute]
