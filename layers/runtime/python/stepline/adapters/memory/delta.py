"""Stored text of the running generation, in a dictionary."""

from __future__ import annotations

from threading import Lock

from stepline.model.ids import Lane
from stepline.model.usage import ModelCall
from stepline.ports.clock import Clock
from stepline.ports.relay import DELTA_TTL_S, Delta


class MemoryDeltas:
    """Pieces by lane, claim, name and offset, kept for an hour."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._lock = Lock()
        self._clock = clock
        self._streams: dict[tuple[str, int], dict[tuple[str, int], tuple[Delta, float]]] = {}
        self._notes: dict[tuple[str, int], dict[str, ModelCall]] = {}

    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        expires_at = self._clock.now().timestamp() + DELTA_TTL_S
        with self._lock:
            stream = self._streams.setdefault((lane.key(), claim), {})
            stream.update({(delta.name, delta.off): (delta, expires_at) for delta in deltas})

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        with self._lock:
            self._notes.setdefault((lane.key(), claim), {})[call.id] = call

    def notes(self, lane: Lane, since: int) -> dict[int, list[ModelCall]]:
        with self._lock:
            places = sorted(place for place in self._notes if place[0] == lane.key() and place[1] >= since)
            return {place[1]: [call for _, call in sorted(self._notes[place].items())] for place in places}

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        now = self._clock.now().timestamp()
        with self._lock:
            stream = sorted(self._streams.get((lane.key(), claim), {}).items())
        return [delta for _, (delta, expires_at) in stream if expires_at > now]

    def erase(self, lane: Lane) -> int:
        """Remove all pieces and notes of a conversation; return the number of claims that had some."""
        with self._lock:
            places = {place for place in (*self._notes, *self._streams) if place[0] == lane.key()}
            for place in places:
                self._notes.pop(place, None)
                self._streams.pop(place, None)
            return len(places)
