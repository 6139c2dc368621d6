"""Who deletes and erases in a simulation, what must hold of it (R23), and its rules taken back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.tenancy.erasure import MemoryErasure
from stepline.errors import NotFoundError
from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.log import erase_conversation
from stepline.model.batch import Batch
from stepline.model.entry import Deleted
from stepline.model.ids import Lane, utc

from .process import Process, Proxy

if TYPE_CHECKING:
    from tests.contract.explorer.simulation import Simulation

YIELDING = frozenset({"erase_rows", "erase_husks", "delete_prefix", "delete_rows"})
DELETED = "conversation_deleted"


class SteppedErasure(Proxy):
    """An erasure whose every request is one atomic effect of its process."""

    def __getattr__(self, method: str) -> Any:
        if method not in YIELDING:
            return super().__getattr__(method)

        def each(*args: Any, **fields: Any) -> Iterator[int]:
            counts = getattr(self._adapter, method)(*args, **fields)
            while True:
                count = self._process.call("erasure", method, next, counts, None)
                if count is None:
                    return
                yield count

        return each


def erasure_of(simulation: Simulation) -> MemoryErasure:
    """Return the erasure of a simulation's twins."""
    beside = (simulation.deltas, simulation.subscriptions)
    return MemoryErasure(simulation.log, simulation.artifacts, *beside)


def delete(simulation: Simulation, *, at: int) -> None:
    """Have the owner delete the conversation, again and again until it is done."""
    from tests.contract.explorer.simulation import LANE, USER

    def once(me: Process) -> None:
        try:
            apply_deletion(simulation.ports(me), LANE, USER)
        except NotFoundError as error:
            if error.reason != DELETED:
                raise
        simulation.saw_deletion = True

    def body(me: Process) -> None:
        me.wait(lambda: simulation.tail().n >= max(at, 1) or simulation.settling)
        for attempt in range(8):
            asked = simulation.spawn(f"delete:{attempt}", once)
            me.wait(lambda asked=asked: asked.done or asked.given_up or simulation.saw_deletion)
            if simulation.saw_deletion:
                return

    simulation.spawn("deleter", body, safe=True)


def erase(simulation: Simulation, *, safe: bool) -> None:
    """Have the eraser come once there is a tombstone."""

    def body(me: Process) -> None:
        me.wait(lambda: bool(simulation.log.tombstones) or simulation.quiet)
        ports = simulation.ports(me)
        erasure = ports.erasure
        assert erasure is not None
        for stone in erasure.pending(before=utc(simulation.clock.now())):
            redo_deletion(ports, stone.lane)
            erase_conversation.erase(ports, erasure, stone)

    simulation.spawn("eraser", body, safe=safe)


def say_again(simulation: Simulation) -> None:
    """Have each message come once more, when everything is erased."""
    for message_id in sorted(simulation.sent):

        def body(me: Process, message_id: str = message_id) -> None:
            simulation.ingress(me, message_id, "followup")

        simulation.spawn(f"late:{message_id}", body, safe=True)


def find_leftovers(simulation: Simulation, lane: Lane) -> Iterator[str]:
    """Yield the broken promises of an erased conversation: it is gone, and nothing was put after its end."""
    ends = [at for at, batch in enumerate(simulation.puts) if is_end(batch)]
    if not ends:
        yield "never deleted"
        return
    if len(ends) > 1:
        yield "deleted twice"
    if len(simulation.puts) > ends[0] + 1:
        yield "a batch after the deletion"
    if not simulation.saw_deletion:
        yield "never informed that it is deleted"
    log: MemoryLog = simulation.log
    beside = (simulation.deltas._streams, simulation.deltas._notes)
    rows = (log._messages, log._feedback, log._listings, log._open, *beside)
    kept = any(lane.key() in (name, name[0]) for held in rows for name in held)
    objects = any(f"/{lane.prefix()}/" in key for key in simulation.artifacts.objects)
    if kept or objects or log.batches.get(lane.key()) or lane.key() in log._unlisted:
        yield "content left of a deleted conversation"
    stone = log.tombstones.get(lane.key())
    if stone is None or not stone.done_at or stone.owner:
        yield "an erasure without an end"


def is_end(batch: Batch) -> bool:
    return any(isinstance(entry, Deleted) for entry in batch.entries)


class NoTombstones(MemoryLog):
    """Puts without a look at the tombstone."""

    def _obstacle(self, lane: Lane, batch: Batch, message_id: str, *, alone: bool) -> Any:
        held, self.tombstones = self.tombstones, {}
        try:
            return super()._obstacle(lane, batch, message_id, alone=alone)
        finally:
            self.tombstones = held


class NoHusks(MemoryLog):
    """Erases batches and leaves nothing in their places."""

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        yield from super().erase_rows(lane, husks_from="~")


class BuriesLater(Proxy):
    """Puts the tombstone in a second call, after the batch that deletes."""

    def __getattr__(self, method: str) -> Any:
        if method != "put":
            return super().__getattr__(method)

        def put(lane: Any, batch: Batch, **fields: Any) -> Any:
            done = self._process.call("log", "put", self._adapter.put, lane, batch, **fields)
            if is_end(batch) and (stone := self._adapter.tombstones.pop(lane.key(), None)):
                self._process.call("log", "bury", self._adapter.tombstones.__setitem__, lane.key(), stone)
            return done

        return put


def passes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """End an erasure with its first pass, whatever comes later."""
    original = erase_conversation.erase

    def erase_once(ports: Any, erasure: Any, tombstone: Any) -> bool:
        original(ports, erasure, tombstone)
        for _ in erasure.erase_husks(tombstone.lane):
            pass
        erasure.finish(tombstone.lane, utc(ports.clock.now()))
        return True

    monkeypatch.setattr(erase_conversation, "erase", erase_once)
