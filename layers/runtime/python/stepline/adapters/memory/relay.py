"""A relay without a thread: every piece is stored and posted immediately, cut like those of `adapters/relay.py`."""

from __future__ import annotations

import logging

from stepline.errors import DependencyError, Gone
from stepline.model.ids import Lane
from stepline.model.usage import ModelCall
from stepline.model.wire.event import DeltaFrame, cut_delta, encode_frame
from stepline.ports.channel import Publisher, Subscriptions
from stepline.ports.relay import Delta, Deltas

logger = logging.getLogger(__name__)


class MemoryRelayStream:
    def __init__(self, relay: MemoryRelay, lane: Lane, claim: int) -> None:
        self._relay = relay
        self._lane = lane
        self._claim = claim
        self._sent: dict[str, int] = {}

    def push(self, name: str, text: str) -> None:
        off = self._sent.get(name, 0)
        self._sent[name] = off + len(text)
        for at, piece in cut_delta(text, off):
            self._relay.send(self._lane, self._claim, Delta(name=name, off=at, text=piece))

    def note(self, call: ModelCall) -> None:
        try:
            self._relay.deltas.note(self._lane, self._claim, call)
        except DependencyError as error:
            logger.warning("call not noted", extra={"code": error.reason})

    def settle(self) -> None:
        """Do nothing: every piece was stored immediately."""

    def close(self) -> None:
        """Do nothing: every piece was sent immediately."""


class MemoryRelay:
    def __init__(self, *, deltas: Deltas, subscriptions: Subscriptions, publisher: Publisher) -> None:
        self.deltas = deltas
        self._subscriptions = subscriptions
        self._publisher = publisher

    def open(self, lane: Lane, claim: int) -> MemoryRelayStream:
        return MemoryRelayStream(self, lane, claim)

    def send(self, lane: Lane, claim: int, delta: Delta) -> None:
        """Store one piece, then post it to the subscribers; failures of either are not raised."""
        try:
            self.deltas.put(lane, claim, delta)
        except DependencyError as error:
            logger.warning("text not stored", extra={"code": error.reason})
        frame = encode_frame(
            DeltaFrame(
                conversation=lane.conversation, claim=claim, lane=delta.name, off=delta.off, text=delta.text
            )
        )
        for connection in self._subscriptions.listeners(lane):
            self._post(lane, connection, frame)

    def _post(self, lane: Lane, connection: str, frame: bytes) -> None:
        try:
            self._publisher.post(connection, frame)
        except Gone:
            self._drop(lane, connection)
        except DependencyError as error:
            # The client requests missed text, by offset.
            logger.warning("piece not posted", extra={"code": error.reason})

    def _drop(self, lane: Lane, connection: str) -> None:
        try:
            self._subscriptions.drop(lane, connection)
        except DependencyError as error:
            logger.warning("subscription not dropped", extra={"code": error.reason})
