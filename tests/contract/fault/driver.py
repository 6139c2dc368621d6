"""The driver: one process that is the whole cloud. It runs every invocation to its end, one inside the other where
the user cuts in, and lets exactly one boundary go wrong, by a plan. Then it lets the simulation settle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stepline.loop.programs.remote import StoppedTask, end_wait, sweep_tasks
from stepline.loop.sweep import sweep
from stepline.model.ids import execution_name
from stepline.model.program.handover import PROVISION_S
from stepline.model.step import Step
from tests.contract.fault.client import Client
from tests.contract.fault.simulation import LANE, Simulation

from .boundary import SILENT, Reach
from .execution import Execution
from .invocation import Fault, Invocation
from .task import EXITED, Waiting

SETTLE_ROUNDS: Final = 60
SWEEP_S: Final = 120.0
SWEEPS_MOST: Final = 3
DAY_S: Final = 86_400.0


Then = Literal["retried", "abandoned"]


@dataclass(frozen=True)
class Plan:
    """What goes wrong: at the boundary `at`, counted from 0; -1 for nothing.

    `retried`: the caller of the invocation retries at once. `abandoned`: it does not; an execution is lost,
    and a client says nothing until the sweeper has come.
    """

    at: int = -1
    fault: Fault = ""
    then: Then = "retried"


NOTHING: Final = Plan()
AGAIN: Final[Mapping[str, Any]] = {}
"""The message of this id: it is sent once more, though it may have its answer."""
FAULTS: Final[tuple[Fault, ...]] = ("before", "after", "lost")
THENS: Final[tuple[Then, ...]] = ("retried", "abandoned")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A conversation. `cues` says what happens at which moment: messages as a client sends them, by their id.

    A moment that never comes, because a fault kept the turn from it, comes at the end.
    """

    name: str
    simulation: Callable[[], Simulation]
    first: Mapping[str, Any]
    cues: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(default_factory=dict)
    later: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    answers: tuple[Mapping[str, Any], ...] = ()
    """What the desk answers to requests for an approval, in turn."""


class UnsettledError(AssertionError):
    """The simulation does not come to rest."""


class Driver:
    """One run of a scenario under a plan. `trace` names its boundaries, `sent` has what was said."""

    def __init__(self, scenario: Scenario, plan: Plan = NOTHING) -> None:
        self.scenario = scenario
        self.plan = plan
        self.simulation = scenario.simulation()
        self.simulation.moment = self._moment
        self.trace: list[str] = []
        self.sent: list[str] = []
        self.costs: list[str] = []
        """What a parked turn still had that costs something."""
        self.desk = Client("desk", self.simulation, self._invoke)
        self.tablet = Client("tablet", self.simulation, self._invoke)
        self._due = dict(scenario.cues)
        self._later = dict(scenario.later)
        self._answers = list(scenario.answers)
        self._abandoned: Invocation | None = None
        self._swept = True

    @property
    def clients(self) -> tuple[Client, ...]:
        return (self.desk, self.tablet)

    def run(self) -> Driver:
        """Play the scenario to its end, and let all clients learn of it."""
        self._join(self.desk)
        self._say("m1", self.scenario.first)
        self._join(self.tablet)
        self._settle()
        for client in self.clients:
            self._catch_up(client)
        return self

    # --- invocations

    def _invoke(self, name: str, body: Callable[[Reach], Any]) -> Invocation:
        return self._finish(Invocation(name, body))

    def _finish(self, invocation: Invocation) -> Invocation:
        while not invocation.done:
            at, where = len(self.trace), invocation.at
            self.trace.append(f"{where} in {invocation.name}")
            hit = at == self.plan.at and not (self.plan.fault == "lost" and where in SILENT)
            if hit and self.plan.then == "abandoned":
                self._abandoned, self._swept = invocation, False
            invocation.advance(self.plan.fault if hit else "")
        return invocation

    def _drive(self, name: str, step: Step) -> None:
        execution = Execution(self.simulation, name, step)
        while not execution.over:
            if execution.remote:
                execution.go_on(self._wait(execution))
                continue
            invocation = self._finish(execution.begin())
            if invocation is self._abandoned and invocation.error is not None:
                execution.abandon()
            execution.settle(invocation)
            self._listen()

    def _wait(self, execution: Execution) -> Step:
        """Wait for a task to report, to stop, or not to be heard of any more."""
        waiting = Waiting(self.simulation, execution.name, execution.step)
        if self._invoke("start task", waiting.start).error is not None:
            waiting.lose()
        if not waiting.find():
            return waiting.step()
        assert waiting.task is not None
        invocation = self._invoke("task", waiting.run)
        waiting.task.reason = waiting.task.reason or EXITED
        if invocation is not self._abandoned:
            stopped = StoppedTask(task=waiting.name, cluster=waiting.cluster, reason=waiting.task.reason)
            self._invoke("stopped task", lambda reach: end_wait(self.simulation.seen(reach), stopped))
        if not waiting.over:
            self.simulation.clock.pause(PROVISION_S)
            waiting.expire()
        return waiting.step()

    def _sweep(self) -> None:
        self.simulation.clock.pause(SWEEP_S)
        self._invoke("sweep", lambda reach: sweep(self.simulation.seen(reach)))
        self._invoke("sweep tasks", lambda reach: sweep_tasks(self.simulation.seen(reach)))
        self._swept = True

    # --- who says what, and hears it

    def _moment(self, moment: str) -> None:
        """Let the user cut in. The tablet goes away at the first cue, and comes back at the next."""
        cue = self._due.pop(moment, None)
        if cue is None:
            return
        if self.tablet.connection:
            self.tablet.drop()
        else:
            self._join(self.tablet)
        for message_id, fields in cue.items():
            if fields is not AGAIN:
                self._say(message_id, fields)
            elif message_id in self.desk.said:
                self.desk.send(message_id)

    def _say(self, message_id: str, fields: Mapping[str, Any]) -> None:
        self.sent.append(message_id)
        self.desk.say(message_id, **fields)
        self._listen()

    def _join(self, client: Client) -> None:
        client.join()
        client.resume()
        self._listen()

    def _listen(self) -> None:
        for client in self.clients:
            client.read()

    def _catch_up(self, client: Client) -> None:
        """Let a client do what it does every 25 seconds, until it has everything."""
        for _ in range(SETTLE_ROUNDS):
            if not client.connection or client.expired:
                client.join()
            client.ping()
            client.read()
            if client.is_late():
                client.resume()
                client.read()
            if not client.is_late() and client.state.cursor == self.simulation.newest_event:
                return
        raise UnsettledError(f"{client.name} does not catch up")

    # --- the end

    def _settle(self) -> None:
        for _ in range(SETTLE_ROUNDS):
            self._listen()
            if not self._swept:
                self._sweep()
            elif self.simulation.machine.queue:
                self._drive(*self.simulation.machine.queue.pop(0))
            elif self.desk.outbox:
                self._say_again()
            elif self.simulation.log.open_lanes(before="9999"):
                self._sweep()
            elif self.simulation.asked is not None:
                self._attend()
            elif self._later:
                message_id = next(iter(self._later))
                self._say(message_id, self._later.pop(message_id))
            elif self._due:
                self._moment(next(iter(self._due)))
            else:
                self._sweep_leftovers()
                return
        raise UnsettledError(f"the lane is at {self.simulation.state}")

    def _attend(self) -> None:
        """Be the person whom a parked turn waits for: say what is due at this moment, or else answer."""
        names = self.simulation.machine
        execution = names.status(execution_name(LANE, self.simulation.state.epoch))
        self.costs += ["a parked turn has an execution"] if execution != "ended" else []
        if (moment := f"parked {self.simulation.round}") in self._due:
            self._moment(moment)
            return
        asked = self.simulation.asked
        if asked is None or not self._answers:
            raise UnsettledError("no person answers")
        said = f"a{len(self.scenario.answers) - len(self._answers)}"
        self.desk.say(said, **{**self._answers.pop(0), "call_id": asked.action.call_id})
        self._listen()

    def _say_again(self) -> None:
        if self.desk.expired or self.desk.refused or not self.desk.connection:
            self.desk.join()
        for message_id in sorted(self.desk.outbox):
            self.desk.send(message_id)

    def _sweep_leftovers(self) -> None:
        for _ in range(SWEEPS_MOST):
            if self.simulation.tasks.rows:
                self.simulation.clock.pause(DAY_S)
                self._sweep()
