"""Message counts in this process."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from stepline.ports.channel import Principal


class MemoryRate:
    """A counter for each user and minute."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = Lock()
        self._counts: Counter[tuple[str, str, str, int]] = Counter()

    def count(self, principal: Principal, minute: int) -> int:
        place = (principal.tenant, principal.project, principal.user, minute)
        with self._lock:
            self._counts[place] += 1
            return self._counts[place]
