"""Counts of messages and requests in this process."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from stepline.model.tenancy.limits import Scope
from stepline.model.tenancy.request_rates import RequestKind


class MemoryRate:
    """A counter for each account and minute."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = Lock()
        self._counts: Counter[tuple[Scope, int, str]] = Counter()

    def count(self, scope: Scope, minute: int) -> int:
        return self._count(scope, minute, "")

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        return self._count(scope, minute, kind)

    def _count(self, scope: Scope, minute: int, kind: str) -> int:
        with self._lock:
            self._counts[scope, minute, kind] += 1
            return self._counts[scope, minute, kind]
