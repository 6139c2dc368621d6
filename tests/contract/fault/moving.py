"""A conversation that moves in while a process dies, and what must be there at the end: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import InputError
from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.ingress.import_conversation import ImportStatus
from stepline.log.bindings import Ports
from stepline.log.erase_conversation import erase
from stepline.log.fence import UNFINISHED
from stepline.log.importing.import_document import Document
from stepline.log.journal import Journal
from stepline.log.lists.listed_conversations import list_conversations
from stepline.log.owned_tail import owned_tail
from stepline.model.batch import Batch
from stepline.model.ids import utc
from stepline.model.memory_row import MemoryScope
from stepline.ports.memory_index import MemoryQuery
from tests.contract.fault.boundary import SILENT, Reach
from tests.contract.fault.driver import DAY_S, NOTHING, Plan, UnsettledError
from tests.contract.fault.invocation import Invocation
from tests.contract.fault.scenario import WORK
from tests.contract.fault.simulation import Simulation
from tests.support.moved_conversation import CSV, MOVED, SENT, bring, hydrated, principal, uploaded

TRIES: Final = 200


class ImportingDriver:
    """One import under a plan, in passes of one batch each if it is `slow`.

    `retried`: its client repeats it until it is whole. `abandoned`: it does not, and its user deletes the part that exists.
    """

    def __init__(self, documents: Sequence[Document], plan: Plan = NOTHING, *, slow: bool = False) -> None:
        self.plan = plan
        self.slow = slow
        self.documents = documents
        self.simulation: Simulation = WORK.simulation()
        self.upload = uploaded(self.simulation.ports, SENT, CSV)
        self.trace: list[str] = []
        self.problems: list[str] = []
        self.status: ImportStatus | None = None
        self.abandoned = False

    def run(self) -> ImportingDriver:
        remembered = 0
        for _ in range(TRIES):
            invocation = self._invoke(
                "import", lambda reach, remembered=remembered: self._pass(reach, remembered)
            )
            found = invocation.result if invocation.error is None else None
            if found is not None:
                remembered = found.remembered
            if found is not None and found.state == "whole":
                self.status = found
                return self
            self.problems += self._seen_too_early()
            if invocation.error is not None and self.plan.then == "abandoned":
                self._give_up()
                return self
        raise UnsettledError("the import never ends")

    def _pass(self, reach: Reach, remembered: int) -> ImportStatus:
        ports = self.simulation.seen(reach)
        until_s = 0.0 if self.slow else float("inf")
        return bring(ports, self.documents, uploads=(self.upload,), remembered=remembered, until_s=until_s)

    def _invoke(self, name: str, body: Any) -> Invocation:
        invocation = Invocation(name, body)
        while not invocation.done:
            at, where = len(self.trace), invocation.at
            self.trace.append(f"{where} in {name}")
            hit = at == self.plan.at and not (self.plan.fault == "lost" and where in SILENT)
            invocation.advance(self.plan.fault if hit else "")
        return invocation

    def _seen_too_early(self) -> list[str]:
        """Return what of a part is shown, or can be written to."""
        ports, log = self.simulation.ports, self.simulation.log
        tail = MemoryLog.tail(log, MOVED)
        if tail is None or not tail.state.importing:
            return []
        listed = list_conversations(log, principal(), after="", limit=10).rows
        problems = ["a part is listed"] if listed else []
        try:
            owned_tail(Journal(ports, MOVED, "test"), principal().user)
            problems.append("a part can be read")
        except InputError as error:
            problems += [] if error.reason == UNFINISHED else [error.reason]
        return problems

    def _give_up(self) -> None:
        """Delete what is there, as its user may at any time, and let everything of it go."""
        self.abandoned = True
        if MemoryLog.tail(self.simulation.log, MOVED) is None:
            return
        apply_deletion(self.simulation.ports, MOVED, principal().user)
        for _ in range(3):
            _erase(self.simulation.ports)
            self.simulation.clock.pause(DAY_S)

    def batches(self) -> list[Batch]:
        """Return the batches of the log, without the time of their import."""
        found = hydrated(self.simulation.ports, MOVED)
        return [replace(batch, state=replace(batch.state, begun_ms=0)) for batch in found]


def _erase(ports: Ports) -> None:
    assert ports.erasure is not None
    for stone in ports.erasure.pending(before=utc(ports.clock.now())):
        redo_deletion(ports, stone.lane)
        erase(ports, ports.erasure, stone)


@dataclass(frozen=True)
class Whole:
    """What an import comes to where nothing goes wrong."""

    batches: list[Batch]
    status: ImportStatus
    rows: int


def whole_of(driver: ImportingDriver) -> Whole:
    assert driver.status is not None
    return Whole(driver.batches(), driver.status, _rows(driver))


def broken_import(driver: ImportingDriver, plain: Whole) -> list[str]:
    """Return what is broken, sorted."""
    return sorted({*driver.problems, *(_left(driver) if driver.abandoned else _lacks(driver, plain))})


def _lacks(driver: ImportingDriver, plain: Whole) -> Iterator[str]:
    if driver.batches() != plain.batches:
        yield "another log"
    if driver.status != plain.status:
        yield "another answer"
    if _rows(driver) != plain.rows:
        yield "another memory"
    simulation = driver.simulation
    (row,) = list_conversations(simulation.log, principal(), after="", limit=10).rows
    if (row.applied_n, row.turns, row.importing) != (len(plain.batches), plain.status.turns, False):
        yield "another row"
    before = driver.batches()
    if bring(simulation.ports, driver.documents) != driver.status or driver.batches() != before:
        yield "done again, it is something else"


def _left(driver: ImportingDriver) -> Iterator[str]:
    simulation, name = driver.simulation, MOVED.key()
    log = simulation.log
    if log.batches.get(name):
        yield "batches of a deleted import"
    if name in log.tombstones:
        if any(f"/{MOVED.prefix()}/" in key for key in simulation.artifacts.objects):
            yield "objects of a deleted import"
        if name in log._listings:
            yield "a row of a deleted import"
    if list_conversations(log, principal(), after="", limit=10).rows:
        yield "a deleted import is listed"
    if _rows(driver):
        yield "memory of a deleted import"


def _rows(driver: ImportingDriver) -> int:
    who = principal()
    scope = MemoryScope(tenant=who.tenant, project=who.project, user=who.user)
    query = MemoryQuery(scope=scope, text="the a and to of which city largest minster answer longer is it")
    return len(driver.simulation.memory.search(query).hits)
