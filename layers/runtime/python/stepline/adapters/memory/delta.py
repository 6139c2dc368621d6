"""Stored text of the running generation, in a dictionary."""

from __future__ import annotations

from threading import Lock

from stepline.model.ids import Lane
from stepline.model.usage import ModelCall
from stepline.ports.clock import Clock
from stepline.ports.relay import DELTA_TTL_S, NOTE_TTL_S, Delta


class MemoryDeltas:
    """Pieces by lane, claim, name and offset; gone an hour after they were stored."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._lock = Lock()
        self._clock = clock
        self._streams: dict[tuple[str, int], dict[tuple[str, int], tuple[Delta, float]]] = {}
        self._notes: dict[tuple[str, int], dict[str, tuple[ModelCall, float]]] = {}

    def put(self, lane: Lane, claim: int, *deltas: Delta) -> None:
        expires_at = self._clock.now().timestamp() + DELTA_TTL_S
        with self._lock:
            stream = self._streams.setdefault((lane.key(), claim), {})
            stream.update({(delta.name, delta.off): (delta, expires_at) for delta in deltas})

    def note(self, lane: Lane, claim: int, call: ModelCall) -> None:
        expires_at = self._clock.now().timestamp() + NOTE_TTL_S
        with self._lock:
            self._notes.setdefault((lane.key(), claim), {})[call.id] = (call, expires_at)

    def notes(self, lane: Lane, claim: int) -> list[ModelCall]:
        now = self._clock.now().timestamp()
        with self._lock:
            noted = sorted(self._notes.get((lane.key(), claim), {}).items())
        return [call for _, (call, expires_at) in noted if expires_at > now]

    def since(self, lane: Lane, claim: int) -> list[Delta]:
        now = self._clock.now().timestamp()
        with self._lock:
            stream = sorted(self._streams.get((lane.key(), claim), {}).items())
        return [delta for _, (delta, expires_at) in stream if expires_at > now]

    def erase(self, lane: Lane) -> int:
        """Remove all pieces of a conversation; return the number of streams that there were."""
        with self._lock:
            for place in [place for place in self._notes if place[0] == lane.key()]:
                del self._notes[place]
            streams = [place for place in self._streams if place[0] == lane.key()]
            return sum(self._streams.pop(place, None) is not None for place in streams)
