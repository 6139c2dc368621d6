"""A conversation that its owner deletes in the middle of things, and what must be left of it: the tombstone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.log.bindings import Ports
from stepline.log.erase_conversation import erase
from stepline.model.batch import Batch
from stepline.model.entry import Deleted
from stepline.model.ids import utc
from stepline.model.memory_row import MemoryScope
from stepline.ports.memory_index import MemoryQuery
from tests.contract.fault.driver import DAY_S, Driver, Scenario, UnsettledError
from tests.contract.fault.promise import left_of_tasks
from tests.contract.fault.scenario import ASKED, HOOKED, LONG_CALL, MEMORY, STEER, TASK, WAIT, WORK, text
from tests.contract.fault.simulation import ADD, LANE, STRIKE, USER
from tests.support.generation import PROGRAM
from tests.support.log_invariant import approvals, chain, effects, turns

DELETE: Final[Mapping[str, Any]] = {"kind": "delete"}
"""The deletion of the conversation."""
TRIES: Final = 8


class DeletingDriver(Driver):
    """`kept` are the batches of the conversation, as they were before it was erased."""

    def run(self) -> DeletingDriver:
        self._join(self.desk)
        self._say("m1", self.scenario.first)
        self._join(self.tablet)
        self._settle()
        self.kept: list[Batch] = self.simulation.batches()
        self.erase()
        return self

    def erase(self) -> None:
        """Erase what is deleted, until a pass finds nothing."""
        for _ in range(3):
            self._try("erase", self._erase)
            self.simulation.clock.pause(DAY_S)

    def _say(self, message_id: str, fields: Mapping[str, Any]) -> None:
        if fields is DELETE:
            self._try("delete", lambda ports: apply_deletion(ports, LANE, USER))
        else:
            super()._say(message_id, fields)

    def _try(self, name: str, body: Any) -> None:
        """Repeat an action until it is done, as its caller does."""
        for _ in range(TRIES):
            if self._invoke(name, lambda reach: body(self.simulation.seen(reach))).error is None:
                return
        raise UnsettledError(f"{name} is never done")

    def _erase(self, ports: Ports) -> None:
        assert ports.erasure is not None
        for stone in ports.erasure.pending(before=utc(ports.clock.now())):
            redo_deletion(ports, stone.lane)
            erase(ports, ports.erasure, stone)


def broken_deletion(driver: DeletingDriver) -> list[str]:
    """Return what is broken, sorted."""
    simulation, kept = driver.simulation, driver.kept
    done = (STRIKE, PROGRAM, ADD)
    found = [
        *chain(kept),
        *turns(kept),
        *effects(simulation.effects, kept, recorded=done),
        *approvals(simulation.effects, kept, asks=simulation.asks),
        *_ends(kept),
        *_left(driver),
        *left_of_tasks(simulation),
    ]
    return sorted(set(found))


def _ends(kept: list[Batch]) -> Iterator[str]:
    deletions = [batch.n for batch in kept for entry in batch.entries if isinstance(entry, Deleted)]
    if deletions != [kept[-1].n]:
        yield "something after the deletion"


def _left(driver: DeletingDriver) -> Iterator[str]:
    simulation = driver.simulation
    log, name = simulation.log, LANE.key()
    rows = (log._messages, log._feedback, log._listings, log._open, simulation.ports.deltas._streams)
    if log.batches.get(name) or any(name in (key, key[0]) for held in rows for key in held):
        yield "rows of a deleted conversation"
    if any(f"/{LANE.prefix()}/" in key for key in simulation.artifacts.objects):
        yield "objects of a deleted conversation"
    scope = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)
    if simulation.memory.search(MemoryQuery(scope=scope, text="the a and to of message done ok")).hits:
        yield "memory of a deleted conversation"
    if not log.tombstones[name].done_at:
        yield "an erasure without an end"


def _deleted(scenario: Scenario, moment: str, *, instead: bool = True) -> Scenario:
    """Return a scenario that is cut off at a moment, and goes on as if nothing had happened."""
    cues = {**({} if instead else scenario.cues), moment: {"d1": DELETE, "m9": text("Still there?")}}
    return replace(scenario, name=f"{scenario.name}, deleted", cues=cues)


DELETIONS: Final = (
    _deleted(ASKED, "parked 1.1", instead=False),
    _deleted(WORK, "program 1.1"),
    _deleted(MEMORY, "tool 2.1", instead=False),
    _deleted(WAIT, "wait 1.1"),
    _deleted(HOOKED, "hook 1.1"),
    _deleted(LONG_CALL, "wait 1.0"),
    _deleted(TASK, "program 1.0"),
    _deleted(STEER, "stream 1.1"),
)
"""Ordered so that three shares, dealt in turn, take about as long."""
