"""Erasure from the memory twins: the log's rows, the objects of an artifact store, and the erasures of users."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane, person
from stepline.ports.tenancy.erasure import KEPT_S, UserErasure

if TYPE_CHECKING:
    from stepline.ports.clock import Clock


class MemoryErasure:
    """`stored` are the tombstones outside the log; `beside` are other twins with rows of conversations.

    Each of those has a method `erase(lane)`, which removes its rows of a conversation and returns their number.
    """

    def __init__(self, log: MemoryLog, artifacts: MemoryArtifacts, *beside: Any) -> None:
        self._log, self._artifacts, self._beside = log, artifacts, beside
        self._lock = Lock()
        self.stored: dict[Lane, Tombstone] = {}

    def erase_also(self, twin: Any) -> None:
        """Erase the rows of this twin, too."""
        self._beside = (*self._beside, twin)

    def tombstone(self, lane: Lane) -> Tombstone | None:
        return self._log.tombstones.get(lane.key())

    def pending(self, *, before: str) -> list[Tombstone]:
        due = [stone for stone in self._log.tombstones.values() if stone.due and stone.due <= before]
        return sorted(due, key=lambda stone: stone.due)

    def keep(self, tombstone: Tombstone) -> None:
        with self._lock:
            self.stored.setdefault(tombstone.lane, replace(tombstone, owner="", due="", done_at=""))

    def kept(self) -> Iterator[Tombstone]:
        yield from list(self.stored.values())

    def bury(self, tombstone: Tombstone) -> None:
        self._log.tombstones[tombstone.lane.key()] = tombstone

    def unlist(self, tombstone: Tombstone) -> None:
        self._log.unlist(tombstone)

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        for twin in self._beside:
            yield twin.erase(lane)
        yield from self._log.erase_rows(lane, husks_from=husks_from)

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        yield from self._log.erase_husks(lane)

    def delete_prefix(self, prefix: str, *, but: Sequence[str] = ()) -> Iterator[int]:
        for key in [key for key in self._artifacts.objects if key.startswith(prefix)]:
            if key not in but:
                self._artifacts.mimes.pop(key, None)
                yield self._artifacts.objects.pop(key, None) is not None

    def delete_rows(self, pk: str, *, sk: str = "") -> Iterator[int]:
        yield from ()

    def postpone(self, lane: Lane, due: str) -> None:
        self._change(lane, due=due)

    def finish(self, lane: Lane, done_at: str) -> None:
        self._change(lane, owner="", due="", done_at=done_at)

    def _change(self, lane: Lane, **fields: str) -> None:
        with self._lock:
            if stone := self._log.tombstones.get(lane.key()):
                self._log.tombstones[lane.key()] = replace(stone, **fields)


class MemoryUserErasures:
    """Erasures by user."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
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
