"""A simulation on AWS's adapters over moto, whose functions leave receipts; who was invoked, and what became of it."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import greenlet
import msgspec
import pytest

from lambdas.edge.runtime import Invocation as Edge
from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.publisher import GatewayPublisher
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.tenancy.accounts import DynamoCosts
from stepline.adapters.memory.channel import MemoryPublisher
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.model import MemoryModelStream
from stepline.adapters.memory.signal import MemorySignals
from stepline.bootstrap.app import App
from stepline.errors import SteplineError
from stepline.log.bindings import Ports
from stepline.loop.graph import UNKNOWN_ERROR, tries_of_lost
from stepline.loop.tenancy.state_visit import StateVisit
from stepline.metering.ledger import Ledger
from stepline.model.batch import EMPTY, Batch
from stepline.model.step import Step
from stepline.ports.model import ModelRequest
from stepline.settings import Settings
from stepline_cdk.definition import render_definition

from .billing_front import BillingFront, observing
from .boundary import Reach
from .driver import Driver, Plan, Scenario
from .execution import Execution
from .invocation import Invocation, Killed
from .simulation import LANE, ScriptedModel, Simulation

MEMORY_MB: Final = 512
SETTINGS: Final = msgspec.structs.replace(Settings.from_env({}), exec_mode="process", fargate_cluster="c")
FUNCTIONS: Final = {
    "Decide": "decide",
    "Act": "act",
    "Prepare": "act",
    "Execute": "execute",
    "Close": "close",
}
DEFINITION: Final = render_definition(dict.fromkeys(FUNCTIONS.values(), "arn"), remote=True)["States"]

RETRIED: Final = type(UNKNOWN_ERROR, (Exception,), {})
"""The death of a function as the graph's retries name it; the final catch gets Step Functions' own name."""


class StoredSimulation(Simulation):
    """The log is read from the table. The ports of all invocations lead to the ledger of the calling one."""

    def seen(self, reach: Reach) -> Ports:
        return dataclasses.replace(super().seen(reach), ledger=self.ports.ledger)

    def batches(self) -> list[Batch]:
        found: list[Batch] = self.log.since(LANE, 0, consistent=True)
        return found

    @property
    def tail(self) -> Batch:
        return self.log.tail(LANE, consistent=True) or EMPTY


class Ledgers:
    """The ledger of the calling invocation: each is a separate process, with one."""

    def __init__(self) -> None:
        self.of: dict[greenlet.greenlet, Ledger] = {}
        self._unbilled: dict[greenlet.greenlet, Ledger] = {}

    def __getattr__(self, name: str) -> Any:
        caller = greenlet.getcurrent()
        return getattr(self.of.get(caller) or self._unbilled.setdefault(caller, Ledger()), name)


class BothPublishers:
    """Frames reach the clients of the simulation, and are posted over the wire."""

    def __init__(self, inboxes: MemoryPublisher, gateway: GatewayPublisher) -> None:
        self._inboxes = inboxes
        self._gateway = gateway

    def post(self, connection: str, frame: bytes) -> None:
        self._inboxes.post(connection, frame)
        self._gateway.post(connection, frame)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inboxes, name)


class MeteredDriver(Driver):
    """Drives a scenario over moto. `died` are the invocations that were killed, `states` those of the state machine.

    `free` are those that work for no conversation: a ping, a message that is
    refused, a sweep; and what is no function. `spoken` are the calls of the model, with who made them. `transitions` are counted by the state machine's own definition, for the invocation that they follow from.
    """

    def __init__(self, scenario: Scenario, plan: Plan, front: BillingFront, name: str) -> None:
        self.front = front
        self.ledgers = Ledgers()
        self.died: set[str] = set()
        self.free: set[str] = set()
        self.states: list[str] = []
        self.transitions: Counter[str] = Counter()
        self.spoken: list[tuple[str, MemoryModelStream]] = []
        self._count = 0
        super().__init__(scenario, plan)
        _move(self.simulation, self.ledgers, name)
        plain = self.simulation.run

        def run(state: str, step: Step) -> Callable[[Reach], Step]:
            visit = StateVisit(FUNCTIONS[state], step, token=False)
            return self._edge(FUNCTIONS[state], state, plain(state, step), visit)

        self.simulation.run = run  # type: ignore[method-assign]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take note of every call of the scripted model."""
        plain = ScriptedModel.stream

        def stream(model: ScriptedModel, request: ModelRequest) -> Any:
            made = plain(model, request)
            self.spoken.append((self.front.callers[greenlet.getcurrent()], made))
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ScriptedModel, "stream", stream)
            yield

    def _invoke(self, name: str, body: Callable[[Reach], Any]) -> Invocation:
        if "message:" in name:
            return self._finish(Invocation(name, self._edge("socket", name, body)))
        if name == "start task":
            return self._start_task(name, body)
        return self._finish(Invocation(name, self._named(name, body)))

    def _start_task(self, name: str, body: Callable[[Reach], Any]) -> Invocation:
        waiting = body.__self__  # type: ignore[attr-defined]  # the method of a `Waiting`
        run = self._edge("act", name, body, StateVisit("act", waiting._step, token=True))
        self.transitions[self.states[-1]] += 1
        return self._finish(Invocation(name, run))

    def _named(self, name: str, body: Callable[[Reach], Any]) -> Callable[[Reach], Any]:
        self._count += 1
        unique = f"{self._count} {name}"
        self.free.add(unique)

        def run(reach: Reach) -> Any:
            self.front.callers[greenlet.getcurrent()] = unique
            return body(reach)

        return run

    def _edge(
        self, function: str, name: str, body: Callable[[Reach], Any], visit: StateVisit | None = None
    ) -> Callable[[Reach], Any]:
        """Do around a function's work what `lambdas.edge.runtime` does."""
        self._count += 1
        unique = f"{self._count} {name}"
        if visit:
            self.states.append(unique)

        def run(reach: Reach) -> Any:
            here = greenlet.getcurrent()
            self.front.callers[here] = unique
            self.ledgers.of[here] = Ledger()
            edge = Edge()
            edge.begin(function, MEMORY_MB)
            edge.wired(App(settings=SETTINGS, ports=self.simulation.seen(reach)))
            try:
                result = self._run(edge, body, reach, visit)
            except Killed:
                self.died.add(unique)
                raise
            except Exception as error:
                edge.failed(error)
                self._record(edge, unique)
                raise
            self._record(edge, unique)
            return result

        return run

    def _run(self, edge: Edge, body: Callable[[Reach], Any], reach: Reach, visit: StateVisit | None) -> Any:
        if visit is None:
            return body(reach)
        edge.enters(visit)
        result = body(reach)
        edge.left(result.route if result else "started")
        return msgspec.structs.replace(result, visit=visit.step.visit + 1) if result else result

    def _record(self, edge: Edge, unique: str) -> None:
        found = edge.cost()
        if found is None or edge.app is None:
            self.free.add(unique)
            return
        try:
            edge.app.ports.costs.put(*found)
        except Killed:
            self.died.add(unique)
            raise
        except SteplineError:
            pass  # logged by the real edge; the row may be stored or not

    def _drive(self, name: str, step: Step) -> None:
        execution = Execution(self.simulation, name, step)
        while not execution.over:
            if execution.remote:
                execution.go_on(self._wait(execution))
                continue
            state = execution.state
            begun = execution.begin()
            unique = self.states[-1]
            self.transitions[unique] += 1
            invocation = self._finish(begun)
            abandoned = invocation is self._abandoned and invocation.error is not None
            if abandoned:
                execution.abandon()
            if invocation.died and execution.step.attempt + 1 < tries_of_lost(state):
                invocation.error = RETRIED(invocation.name)
            stopped = execution.over
            execution.settle(invocation)
            if not stopped:
                self.transitions[unique] += _passed(state, invocation, execution)
            self._listen()


def _passed(state: str, invocation: Invocation, execution: Execution) -> int:
    """Return how many states were entered between an attempt and the next function."""
    if invocation.error is not None:  # tried again, caught by a state that asks, or the end
        return int(execution.over)
    passed, at = 0, DEFINITION[state]["Next"]
    while DEFINITION[at]["Type"] != "Task":
        passed += 1
        here = DEFINITION[at]
        if here["Type"] in ("Succeed", "Fail"):
            break
        if here["Type"] == "Choice":
            said = invocation.result.route
            fits = (one["Next"] for one in here["Choices"] if one["StringEquals"] == said)
            at = next(fits, here["Default"])
        else:
            at = here["Next"]
    return passed


def _move(simulation: Simulation, ledgers: Ledgers, name: str) -> None:
    """Move the simulation's storage to tables and buckets on moto; the test's own reads are not billed."""
    ledger: Any = ledgers
    table, seen = Table(name, ledger=ledger), Table(name)
    observing(seen.client)
    artifacts, looked = S3Artifacts(name, ledger=ledger), S3Artifacts(name)
    observing(looked.client)
    clock = simulation.clock
    log, observed = DynamoLog(table), DynamoLog(seen)
    gateway = GatewayPublisher("https://front.execute-api.us-east-1.amazonaws.com/live", ledger=ledger)
    publisher = BothPublishers(simulation.publisher, gateway)
    simulation.ports = dataclasses.replace(
        simulation.ports,
        log=log,
        artifacts=artifacts,
        subscriptions=DynamoSubscriptions(table, clock),
        deltas=DynamoDeltas(table, clock),
        publisher=publisher,
        signals=MemorySignals(log),
        costs=DynamoCosts(table),
        grants=MemoryGrants(looked, clock),  # type: ignore[arg-type]
        ledger=ledger,
    )
    simulation.__class__ = StoredSimulation
    simulation.log = observed
    simulation.artifacts = looked
