"""The erasures of users in this process."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from stepline.model.ids import person
from stepline.ports.tenancy.user_erasure import KEPT_S, UserErasure

if TYPE_CHECKING:
    from stepline.ports.clock import Clock


class MemoryUserErasures:
    """Erasures by whom they concern."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides what is forgotten."""
        self._clock = clock
        self._lock = Lock()
        self._kept: dict[str, tuple[UserErasure, float]] = {}

    def ask(self, erasure: UserErasure) -> UserErasure:
        with self._lock:
            kept = self._kept.get(erasure.whose)
            if kept and not kept[0].done_at:
                return kept[0]
            self._kept[erasure.whose] = (erasure, self._ends_at(erasure))
        return erasure

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        with self._lock:
            erasure, ends_at = self._kept.get(person(tenant, project, user), (None, 0.0))
        return erasure if ends_at > self._clock.now().timestamp() else None

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        with self._lock:
            kept = self._kept.get(erasure.whose)
            if kept is None or kept[0] != before:
                return False
            self._kept[erasure.whose] = (erasure, self._ends_at(erasure))
            return True

    def pending(self) -> list[UserErasure]:
        with self._lock:
            found = [erasure for erasure, _ in self._kept.values() if not erasure.done_at]
        return sorted(found, key=lambda erasure: erasure.asked_at)

    def _ends_at(self, erasure: UserErasure) -> float:
        return self._clock.now().timestamp() + KEPT_S if erasure.done_at else float("inf")
