"""Replays in this process."""

from __future__ import annotations

from threading import Lock

from stepline.model.ids import Lane
from stepline.ports.clock import Clock
from stepline.ports.round_replay import ReplayState, RoundReplay


class MemoryReplays:
    """Replays by conversation, user and id; expired ones are invisible."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._clock = clock
        self._lock = Lock()
        self._rows: dict[tuple[Lane, str, str], RoundReplay] = {}

    def add(self, lane: Lane, user: str, replay: RoundReplay) -> bool:
        with self._lock:
            return self._rows.setdefault((lane, user, replay.id), replay) is replay

    def change(self, lane: Lane, user: str, replay: RoundReplay, *, was: ReplayState) -> bool:
        whose = lane, user, replay.id
        with self._lock:
            found = self._rows.get(whose)
            if found is None or found.state != was:
                return False
            self._rows[whose] = replay
            return True

    def get(self, lane: Lane, user: str, replay_id: str) -> RoundReplay | None:
        with self._lock:
            found = self._rows.get((lane, user, replay_id))
        return found if found and self._is_kept(found) else None

    def of_round(self, lane: Lane, user: str, decided_n: int) -> list[RoundReplay]:
        with self._lock:
            rows = [row for (where, whose, _), row in self._rows.items() if (where, whose) == (lane, user)]
        found = [row for row in rows if row.wish.decided_n == decided_n and self._is_kept(row)]
        return sorted(found, key=lambda replay: (replay.asked_at, replay.id))

    def drop(self, lane: Lane, user: str, replay_id: str) -> None:
        with self._lock:
            self._rows.pop((lane, user, replay_id), None)

    def erase(self, lane: Lane) -> int:
        """Remove the replays of a conversation; return their number."""
        with self._lock:
            own = [place for place in self._rows if place[0] == lane]
            for place in own:
                del self._rows[place]
            return len(own)

    def _is_kept(self, replay: RoundReplay) -> bool:
        return self._clock.now().timestamp() < replay.expires_at
