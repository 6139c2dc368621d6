"""A conversation that its owner forks in the middle of things: both continue, or both are deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace as replaced
from typing import Any, Final

from msgspec.structs import replace

from stepline.ingress.admit import Arrival, admit
from stepline.ingress.delete import apply_deletion
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.bindings import Ports
from stepline.log.journal import read_since
from stepline.log.spill import hydrate
from stepline.model.batch import Batch, forked_from
from stepline.model.entry import Closed, Inbound
from stepline.model.usage import sum_calls
from tests.contract.fault.deleted import DeletingDriver
from tests.contract.fault.driver import Plan, Scenario
from tests.contract.fault.promise import broken
from tests.contract.fault.scenario import ASKED, MEMORY, WORK
from tests.contract.fault.simulation import LANE, USER
from tests.support.log_invariant import chain, requests, turns

FORK: Final = replace(LANE, conversation="c-fork")
BEGIN: Final[Mapping[str, Any]] = {"kind": "fork"}
"""The fork of the conversation at its newest batch."""
BRANCH: Final[Mapping[str, Any]] = {"kind": "branch"}
"""The same fork as a branch, which is deleted with its root."""


class ForkingDriver(DeletingDriver):
    """`found` is what was broken in the origin before its fork went on; `n` is where the fork begins."""

    def __init__(self, scenario: Scenario, plan: Plan, *, deletes: bool) -> None:
        super().__init__(scenario, plan)
        self.deletes, self.n, self.found = deletes, 0, list[str]()
        self.branch = False

    def run(self) -> ForkingDriver:
        super(DeletingDriver, self).run()
        self.found = broken(self.simulation, self.sent, self.clients)
        self.kept = self.simulation.batches()
        if self.deletes:
            self._try("delete", lambda ports: apply_deletion(ports, LANE, USER, cascade=not self.branch))
            self.erase()
            return self
        said = Arrival(message_id="f", user=USER, text="And then?")
        self._try("say in the fork", lambda ports: admit(ports, FORK, said))
        self._settle()
        return self

    def _say(self, message_id: str, fields: Mapping[str, Any]) -> None:
        if fields not in (BEGIN, BRANCH):
            super()._say(message_id, fields)
            return
        self.n, self.branch = self.simulation.tail.n, fields == BRANCH
        self._try("fork", self._fork)

    def _fork(self, ports: Ports) -> Batch:
        point, name = ForkPoint(kind="batch", at=str(self.n)), FORK.conversation
        return fork_conversation(ports, LANE, point, user=USER, conversation=name, branch=self.branch)


def broken_fork(driver: ForkingDriver) -> list[str]:
    """Return what is broken, sorted."""
    own = _deleted(driver) if driver.deletes else _forked(driver)
    return sorted({*driver.found, *own})


def _deleted(driver: ForkingDriver) -> Iterator[str]:
    simulation = driver.simulation
    for lane in (LANE, FORK):
        if simulation.log.batches.get(lane.key()) or simulation.log.forks(lane):
            yield "rows of a deleted conversation"
        if any(f"/{lane.prefix()}/" in key for key in simulation.artifacts.objects):
            yield "objects of a deleted conversation"
        if not simulation.log.tombstones[lane.key()].done_at:
            yield "an erasure without an end"


def _forked(driver: ForkingDriver) -> Iterator[str]:
    simulation = driver.simulation
    log, artifacts = simulation.log, simulation.artifacts
    batches = [hydrate(artifacts, one) for one in read_since(log, FORK, 0, consistent=True)]
    own: list[Batch] = [one for one in batches if one.n > driver.n]
    yield from chain(batches)
    yield from turns(batches)
    yield from requests(artifacts, FORK, batches)
    if simulation.batches() != driver.kept:
        yield "an origin that its fork changes"
    if [row.conversation for row in log.forks(LANE)] != [FORK.conversation]:
        yield "a fork that its origin does not count"
    if [one.n for one in batches if forked_from(one)] != [driver.n + 1]:
        yield "a fork at another batch"
    said = [entry for one in own for entry in one.entries if isinstance(entry, Inbound)]
    if [entry.message_id for entry in said] != ["f"]:
        yield "a message admitted twice, or not"
    ends = [entry for one in own for entry in one.entries if isinstance(entry, Closed)]
    if batches[-1].state.status != "idle" or not ends:
        yield "a turn of a fork that is stuck"
    spent = sum_calls(call for one in own for call in one.calls)
    if batches[-1].state.output_tokens != sum(call.usage.output_tokens for call in spent):
        yield "a fork that counts what its origin has spent"
    if any(mark.lane == FORK for mark in log.open_lanes(before="9999")):
        yield "an idle lane is marked open"


def _forking(scenario: Scenario, moment: str, begin: Mapping[str, Any] = BEGIN) -> Scenario:
    """Return a scenario in which the conversation is forked at a moment."""
    cues = {**scenario.cues, moment: {**scenario.cues.get(moment, {}), "fork": begin}}
    return replaced(scenario, name=f"{scenario.name}, {begin['kind']}", cues=cues)


FORKINGS: Final = (
    _forking(WORK, "program 1.1"),
    _forking(MEMORY, "tool 2.1", BRANCH),
    _forking(ASKED, "parked 1.1"),
)
