"""The simulation of one run: the memory twins, the executions and the actors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.machine import MemoryMachine
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.memory.signal import MemorySignals
from stepline.adapters.memory.task import MemoryTasks
from stepline.adapters.memory.tenancy.accounts import MemoryAccounts, MemoryCosts, MemoryRate
from stepline.adapters.memory.ticket import MemoryTickets
from stepline.adapters.memory.upload.quarantine import MemoryUploads
from stepline.delivery import resume as resume_step
from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import InputError, NotFoundError, SteplineError
from stepline.ingress import admit as admit_step
from stepline.ingress.admit import Arrival
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.log.bindings import Policy, Ports
from stepline.log.timeline_cache import History
from stepline.loop import act as act_step
from stepline.loop import close as close_step
from stepline.loop import decide as decide_step
from stepline.loop import sweep as sweep_step
from stepline.loop.agent import Agent, Execution
from stepline.loop.attempt import Attempt
from stepline.loop.programs import execute as execute_step
from stepline.loop.programs import remote as orphan_step
from stepline.loop.steer import finalize_left
from stepline.loop.stream_generation import Sample
from stepline.model.batch import EMPTY, Batch
from stepline.model.decision import ApprovalRule
from stepline.model.entry import ApprovalRequested, Decided, Deferred
from stepline.model.ids import Lane, call_id, execution_name, utc
from stepline.model.program.execution import Placement, RunLimits, RuntimeProfile, TaskConfig
from stepline.model.step import Step
from stepline.model.tenancy.limits import Limits as AccountLimits
from stepline.ports.log import Written
from stepline.ports.model import NO_MODEL
from stepline.tools.context import ReadCaps
from tests.contract.explorer import asking, bounded, limited
from tests.contract.explorer.decision import PROGRAM, at_once, cut_off, new_action
from tests.contract.explorer.deletion import DELETED, SteppedErasure, erasure_of
from tests.contract.explorer.process import Process, Proxy
from tests.contract.explorer.task import Cloud, SteppedTasks
from tests.contract.explorer.tool import REPORT, program, registry

LANE = Lane(tenant="t", project="p", conversation="c")
USER = "u"
MAX_ITERATIONS = 4
REFUSED = -1
"""The position of a message that was not admitted, because the conversation was deleted."""
ATTEMPTS = 3
SECOND_ROUND = 2
CALM_ANSWERS = 6
"""The calm round from which on every person answers."""
SEAL_BATCHES = 3
"""Few, so that nearly every round seals, and what is sealed is read by the next."""


@dataclass
class Simulation:
    """Everything that outlives a process, and the processes."""

    placement: Placement = "inline"
    marker: bool = True
    row_first: bool = True
    once: str = "once"
    mutable: bool = False
    subscriptions_of: Callable[[Any], Any] = lambda adapter: adapter
    publisher_of: Callable[[Process, Any], Any] = lambda _process, adapter: adapter
    proxy: Callable[[Process, str, Any], Any] = Proxy
    accounts_of: Callable[[Process, Any], Any] = lambda process, adapter: Proxy(process, "accounts", adapter)
    log: Any = field(default_factory=MemoryLog)
    artifacts: Any = field(default_factory=MemoryArtifacts)
    machine: MemoryMachine = field(default_factory=MemoryMachine)
    clock: MemoryClock = field(default_factory=MemoryClock)
    accounts: Any = field(default_factory=MemoryAccounts)
    limits: AccountLimits | None = None
    """Limits of the user; with some, each sample of the model has a cost."""
    open_turns: int = 0
    """The bound on open turns; with one, others want their turns, too."""
    effects: Counter[str] = field(default_factory=Counter)
    processes: list[Process] = field(default_factory=list)
    driven: list[str] = field(default_factory=list)
    acked: dict[str, int] = field(default_factory=dict)
    sent: set[str] = field(default_factory=set)
    samples: int = 0
    settling: bool = False
    quiet: bool = False
    reports: bool = False
    """Each round calls a tool that reports, and the client shows the reports."""
    reported: Counter[str] = field(default_factory=Counter)
    """How much each call has reported to be done."""
    program_asks: bool = False
    """Each program asks the model, by the function `serve`."""
    sampled: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often the model was asked for each call of a run."""
    answered: set[str] = field(default_factory=set)
    """The runs whose calls were all answered."""
    broke: list[str] = field(default_factory=list)
    asks: dict[str, ApprovalRule] = field(default_factory=dict)
    """The tools whose calls need a person."""
    calm: int = 0
    puts: list[Batch] = field(default_factory=list)
    """Every batch that was put, in order, erased ones too."""
    deletes: bool = False
    saw_deletion: bool = False
    forks: bool = False
    """The owner forks the conversation."""
    forked: dict[Lane, int] = field(default_factory=dict)
    """The batch of its origin at which each fork was acknowledged."""
    faultless: bool = False
    """Nothing fails in it, so no turn waits for the sweeper."""
    visited: list[str] = field(default_factory=list)
    """The resources still held by a turn that waits for a person."""

    def __post_init__(self) -> None:
        if self.limits:
            self.accounts.set_limits(limited.SCOPE, self.limits, version=0, by="", at="")
        self.subscriptions = MemorySubscriptions(self.clock)
        self.publisher = MemoryPublisher()
        self.deltas: MemoryDeltas = MemoryDeltas(self.clock)
        if self.program_asks:
            self.deltas = asking.Noted(self.clock, lambda: self.tail().state)
        self.tasks = MemoryTasks(self.clock)
        self.grants = MemoryGrants(self.artifacts, self.clock)
        self.cloud = Cloud(
            self.tasks, self.grants, self.effects, marker=self.marker, ask=partial(asking.ask, self)
        )
        task = TaskConfig(cluster="c", task_definition="d", container_name="s", subnets=("n",))
        self.agent = Agent(
            system="",
            registry=registry(self.effects, self.reported, once=self.once, mutable=self.mutable),
            caps=ReadCaps(),
            execution=Execution(
                profile=RuntimeProfile(placement=self.placement, task=task),
                limits=RunLimits(),
                tools=(),
                places=frozenset({self.placement}),
            ),
            approvals=lambda spec: self.asks.get(spec.tool_id, "never"),
        )

        if self.program_asks:
            self.agent = asking.with_calls(self.agent)
        self._put, self.log.put = self.log.put, self._note

    def _note(self, lane: Lane, batch: Batch, **fields: Any) -> Any:
        answer = self._put(lane, batch, **fields)
        if isinstance(answer, Written) and lane == LANE:
            self.puts.append(batch)
        return answer

    def batches(self) -> list[Batch]:
        return list(self.puts) if LANE.key() in self.log.tombstones else self.log.since(LANE, 0)

    def tail(self) -> Batch:
        if LANE.key() in self.log.tombstones:
            return next(batch for batch in self.puts if batch.state.deleted)
        return self.log.tail(LANE) or EMPTY

    def ports(self, process: Process) -> Ports:
        """Return the ports as this process sees them: it stops before each call."""
        deltas = Proxy(process, "deltas", self.deltas)
        subscriptions = self.subscriptions_of(Proxy(process, "subscriptions", self.subscriptions))
        publisher = self.publisher_of(process, Proxy(process, "publisher", self.publisher))
        return Ports(
            log=self.proxy(process, "log", self.log),
            artifacts=Proxy(process, "artifacts", self.artifacts),
            subscriptions=subscriptions,
            publisher=publisher,
            broadcast=GatewayBroadcast(
                subscriptions=subscriptions, publisher=publisher, meter=MemoryMeter(), clock=self.clock
            ),
            signals=MemorySignals(self.log),
            deltas=deltas,
            relay=MemoryRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher),
            machine=Proxy(process, "machine", self.machine),
            tasks=SteppedTasks(process, self.tasks, row_first=self.row_first),
            grants=self.grants,
            uploads=MemoryUploads(),
            tickets=MemoryTickets(self.clock),
            rate=MemoryRate(),
            accounts=self.accounts_of(process, self.accounts) if self.limits else self.accounts,
            costs=MemoryCosts(),
            erasure=SteppedErasure(process, "erasure", erasure_of(self)),
            clock=self.clock,
            meter=MemoryMeter(),
            policy=Policy(
                max_iterations=MAX_ITERATIONS, seal_batches=SEAL_BATCHES, open_turns=self.open_turns
            ),
        )

    def spawn(self, name: str, body: Callable[[Process], Any], *, safe: bool = False) -> Process:
        process = Process(name, body, safe=safe)
        self.processes.append(process)
        return process

    def running(self) -> list[str]:
        ours = execution_name(LANE, 0)[:-1]
        return [
            name for name in self.driven if name.startswith(ours) and self.machine.status(name) == "running"
        ]

    # --- invocations

    def invoke(self, state: str, step: Step) -> Process:
        return self.spawn(
            f"{state}:{step.epoch}.{step.iteration}.{step.attempt}", lambda me: self._state(me, state, step)
        )

    def _state(self, me: Process, state: str, step: Step) -> Step:
        ports = self.ports(me)
        try:
            if state == "decide":
                return decide_step.decide(
                    ports, self.agent, NO_MODEL, History(), step, sampler=self.sampler()
                )
            if state in ("act", "prepare"):
                return act_step.act(ports, self.agent, History(), step)
            if state == "execute":
                backend = program(ports, self.effects, partial(asking.ask, self, me))
                return execute_step.execute(ports, lambda _: backend, step)
            return close_step.close(ports, step)
        except (IndexError, KeyError, AttributeError, StopIteration) as error:
            self.broke.append(f"{me.name}: {error!r}")
            raise SteplineError(repr(error)) from error

    def sampler(self) -> Callable[..., Sample]:
        """Return a model of two rounds of two actions and an answer beside one; a sample's text names the sample."""

        def take(attempt: Attempt, timeline: Any) -> Sample:
            ports, step, claim, watch = attempt.ports, attempt.step, attempt.claim, attempt.watch
            self.samples += 1
            name = f"s{self.samples}"
            at = utc(self.clock.now())
            stream = ports.relay.open(step.lane(), claim)
            shown = ""
            for part in range(2):
                if watch.requested:
                    break
                stream.push("answer", piece := f"[{name}.{part}]")
                shown += piece
            stream.close()
            limited.spend(self, ports)
            bounded.look_at_stage(self, step)
            if watch.requested:
                return Sample(decision=cut_off(step, at, shown))
            tools = self._tools(step, claim)
            if step.lane() != LANE:
                return Sample(decision=at_once(step, claim, at, name))
            answers = not tools
            if answers:
                tools = ("test.write",)
            left = finalize_left(timeline)
            if left > 1:
                tools, answers = ("test.write",), False
            if left == 1 or step.iteration + 1 >= MAX_ITERATIONS + timeline.state.credits:
                tools, answers = (), True
            actions = tuple(
                new_action(call_id(step.turn, step.iteration, i), tool) for i, tool in enumerate(tools)
            )
            return Sample(
                decision=Decided(
                    iteration=step.iteration,
                    claim=claim,
                    action="complete" if answers else "call_tool",
                    started_at=at,
                    actions=actions,
                    answer=name if answers else "",
                )
            )

        return take

    def _tools(self, step: Step, claim: int) -> tuple[str, ...]:
        """Return the tools that a round calls; none if it answers."""
        tools = {0: ("test.once", "test.write"), 1: (PROGRAM, "test.write")}.get(step.iteration, ())
        if self._was_deferred(claim):
            tools = ("test.write",)
        return (REPORT, REPORT, *tools) if self.reports and tools else tools

    def _was_deferred(self, claim: int) -> bool:
        """Return True if this round follows an answer that came too early: then an action is due first."""
        opening = self.log.get(LANE, claim)
        return opening is not None and any(isinstance(entry, Deferred) for entry in opening.entries)

    # --- actors

    def drive(self, name: str, first: Step) -> None:
        """Step Functions: reliable itself; a task that dies or is given up is tried again, then closes with an error."""
        self.driven.append(name)
        self.spawn(f"execution:{name}", lambda me: self._execution(me, name, first), safe=True)

    def _execution(self, me: Process, name: str, step: Step) -> None:
        state = "decide"
        for visit in range(60):
            step = Step(**{**_fields(step), "visit": visit})
            if state == "execute_task":
                step, state = self.cloud.await_task(me, self.spawn, step, name), "act"
                if self.machine.status(name) != "running":
                    return
                continue
            done = self._task(me, name, state, step, attempts=1 if state == "execute" else ATTEMPTS)
            if self.machine.status(name) != "running":
                return
            if done is None:
                if state == "close":
                    break
                step = Step(**{**_fields(step), "error": {"Error": "Runtime.ExitError"}})
                state = "act" if state == "execute" else "close"
                continue
            step = done
            if step.route in ("stop", "done"):
                break
            state = _next(state, step.route)
        self.machine.end(name)

    def _task(self, me: Process, name: str, state: str, step: Step, *, attempts: int) -> Step | None:
        for attempt in range(attempts):
            task = self.invoke(state, Step(**{**_fields(step), "attempt": attempt}))
            me.wait(lambda task=task: task.done or task.given_up)
            if self.machine.status(name) != "running":
                return None
            if task.done and not task.given_up and task.error is None:
                return task.result
        return None

    def client(self, message_id: str, *, kind: str, at: int) -> None:
        """Send one message until it is acknowledged."""

        def body(me: Process) -> None:
            me.wait(lambda: self.tail().n >= at or self.settling)
            self.sent.add(message_id)
            for attempt in range(8):
                sending = self.spawn(
                    f"in:{message_id}.{attempt}", lambda p: self.ingress(p, message_id, kind)
                )
                me.wait(lambda sending=sending: sending.done or sending.given_up or message_id in self.acked)
                if message_id in self.acked:
                    return

        self.spawn(f"client:{message_id}", body, safe=True)

    def late_duplicate(self, message_id: str, *, kind: str, at: int) -> None:
        def body(me: Process) -> None:
            me.wait(lambda: message_id in self.sent and (self.tail().n >= at or self.settling))
            self.spawn(f"dup:{message_id}", lambda p: self.ingress(p, message_id, kind))

        self.spawn(f"duplicator:{message_id}", body, safe=True)

    def ingress(self, me: Process, message_id: str, kind: str) -> None:
        text = "" if kind == "stop" else message_id
        arrival = Arrival(message_id=message_id, user=USER, text=text, kind=kind)
        try:
            admitted = admit_step.admit(self.ports(me), LANE, arrival)
        except NotFoundError as refused:
            if refused.reason != DELETED:
                raise
            self.acked.setdefault(message_id, REFUSED)
        else:
            self.acked.setdefault(message_id, admitted.batch.n)

    def asked(self) -> str:
        """Return the call that a parked turn waits for; "" if none does."""
        if not self.tail().state.parked:
            return ""
        batch = self.log.get(LANE, self.tail().state.parked)
        requests = (e for e in (batch.entries if batch else ()) if isinstance(e, ApprovalRequested))
        return next((entry.action.call_id for entry in requests), "")

    def person(self, name: str, *, verdicts: tuple[Any, ...], patience: int) -> None:
        """Answer every request, until each answer is acknowledged or refused, when `patience` more batches have come."""
        done: set[str] = set()

        def ready() -> bool:
            call, tail = self.asked(), self.tail()
            late = self.calm >= CALM_ANSWERS or tail.n >= tail.state.parked + patience
            return call not in ("", *done) and late

        def body(me: Process) -> None:
            for count in range(40):
                me.wait(ready)
                call = self.asked()
                done.add(call)
                said = f"{name}{count}"
                for attempt in range(8):
                    sending = self.spawn(
                        f"{said}.{attempt}",
                        lambda p, call=call, said=said, count=count: self._settle(
                            p, call, said, verdicts[count % len(verdicts)]
                        ),
                    )
                    me.wait(
                        lambda sending=sending, said=said: (
                            sending.done or sending.given_up or said in self.acked
                        )
                    )
                    if said in self.acked:
                        break

        self.spawn(f"person:{name}", body, safe=True)

    def _settle(self, me: Process, call: str, said: str, verdict: Any) -> None:
        params = {} if verdict == "edited" else None
        answer = ApprovalAnswer(message_id=said, user=USER, call_id=call, verdict=verdict, params=params)
        try:
            settled = answer_request(self.ports(me), LANE, answer)
        except InputError as refused:
            if refused.reason not in ("approval_not_pending", "approval_not_editable"):
                raise
            if refused.reason == "approval_not_editable":
                allowed = ApprovalAnswer(message_id=f"{said}a", user=USER, call_id=call, verdict="approved")
                self._allow(me, allowed)
            self.acked.setdefault(said, 0)
        except NotFoundError as refused:
            if refused.reason != DELETED:
                raise
            self.acked.setdefault(said, REFUSED)
        else:
            self.acked.setdefault(said, settled.batch.n)

    def _allow(self, me: Process, answer: ApprovalAnswer) -> None:
        try:
            answer_request(self.ports(me), LANE, answer)
        except InputError as refused:
            if refused.reason != "approval_not_pending":
                raise

    def look_at_parked(self) -> None:
        """Note what is still there for a turn that has waited for a while."""
        if self.tail().state.parked:
            self.visited += ["an execution of a parked turn"] if self.running() else []
            marked = [mark for mark in self.log.open_lanes(before="9999") if mark.lane == LANE]
            self.visited += ["a row of a parked turn for the sweeper"] if marked else []

    def sweeper(self) -> None:
        def body(me: Process) -> None:
            if self.open_turns or self.forks:
                bounded.sweep_all(self.ports(me))
            elif self.log.open_lanes(before="9999"):
                sweep_step.sweep_lane(self.ports(me), LANE)
            orphan_step.sweep_tasks(self.ports(me))

        self.spawn("sweeper", body, safe=True)

    def suspicious_sweeper(self, *, at: int) -> None:
        """Take the turn from its driver, dead or alive."""

        def body(me: Process) -> None:
            me.wait(lambda: self.tail().n >= at or self.settling)
            ports = self.ports(me)
            tail = ports.log.tail(LANE, consistent=True)
            if tail is not None and tail.state.status == "open":
                sweep_step.replace_owner(ports, LANE, tail)
            orphan_step.sweep_tasks(ports)

        self.spawn("suspicious sweeper", body)

    def resume(self, me: Process, connection: str, after: int, claim: int, have: dict[str, int]) -> None:
        resume_step.resume(
            self.ports(me),
            LANE,
            user=USER,
            connection=connection,
            until_s=2**40,
            after=after,
            claim=claim,
            have=have,
        )


def _fields(step: Step) -> dict[str, Any]:
    return {name: getattr(step, name) for name in step.__struct_fields__}


def _next(state: str, route: str) -> str:
    """Return the state that follows, by the edges of the graph."""
    match state:
        case "act":
            return "decide"
        case "prepare":
            return route if route in ("execute", "execute_task") else "decide"
        case "execute":
            return "act"
        case _:
            return route
