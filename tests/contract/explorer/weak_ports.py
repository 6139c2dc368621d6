"""Adapters that lack one promise of their port each."""

from __future__ import annotations

from typing import Any

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.model.batch import Batch
from stepline.ports.channel import Audience
from stepline.ports.log import OpenLane
from tests.contract.explorer.simulation import LANE

from .process import Proxy


class NoMessageRows(MemoryLog):
    def put(self, lane: Any, batch: Batch, *, message_id: str = "", **fields: Any) -> Any:
        return super().put(lane, batch, **fields)

    def admitted(self, lane: Any, message_id: str) -> None:
        return None


class ClearsAnything(MemoryLog):
    def clear_open(self, lane: Any, upto: int) -> None:
        super().clear_open(lane, 10**9)


class Overwriting(MemoryArtifacts):
    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        self.objects.pop(key, None)
        return super().put(key, body, mime=mime)


class MarksLater(Proxy):
    """Marks the lane open in a second call, after the batch."""

    def __getattr__(self, method: str) -> Any:
        if method != "put":
            return super().__getattr__(method)

        def put(
            lane: Any, batch: Batch, *, message_id: str = "", marks_open: bool = False, slots: Any = None
        ) -> Any:
            done = self._process.call("log", "put", self._adapter.put, lane, batch, message_id=message_id)
            if marks_open:
                mark = OpenLane(lane=lane, n=batch.n, since=batch.at)
                self._process.call("log", "mark", self._adapter._open.__setitem__, lane.key(), mark)
            return done

        return put


class ListensBefore:
    """Reads the listeners once, when the invocation begins."""

    def __init__(self, subscriptions: Any) -> None:
        self._subscriptions = subscriptions
        self._listeners = list(subscriptions._adapter.listeners(LANE))

    def listeners(self, lane: Any) -> list[str]:
        return self._listeners

    def audience(self, lane: Any, user: str) -> Audience:
        return Audience(self._listeners, [])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._subscriptions, name)
