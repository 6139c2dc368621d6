"""What outlives every process: the memory twins, the executions, and what the outside simulation has seen happen.

An invocation gets ports of its own, each of which can be interrupted. Its functions are the real ones.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal

from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.mcp.mcp_server import MemoryMcpServers, MemoryServer, said
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.adapters.memory.relay import MemoryRelay
from stepline.bootstrap.memory_wiring import in_memory
from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import DependencyError
from stepline.events.derive import newest_event
from stepline.log.bindings import BundleRules, Ports
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent, Execution, Hook, HookCall, Hooks
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.loop.hooks.run_hook import follow_turn
from stepline.loop.programs.execute import execute
from stepline.loop.programs.serve_call import serve_call
from stepline.metering.ledger import Ledger
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.block import Produced
from stepline.model.decision import ApprovalRule, RemoteTask
from stepline.model.entry import ApprovalRequested, Entry, Opened
from stepline.model.ids import Lane
from stepline.model.program.execution import (
    CollectedFile,
    ExecRequest,
    Placement,
    Run,
    RunLimits,
    RuntimeProfile,
    TaskConfig,
)
from stepline.model.program.served_call import ServedCall
from stepline.model.step import Step
from stepline.model.tenancy.price import read_prices
from stepline.ports.executor import Job
from stepline.ports.mcp.mcp_server import McpReply, RemoteTool
from stepline.ports.model import ModelRequest
from stepline.ports.signal import NeverSteered, Signals, SteerWatch
from stepline.programs.host import ASK_TRIES
from stepline.settings import Settings
from stepline.tools.context import NoServices, ReadCaps, ToolContext, ToolOutput
from stepline.tools.execute_code import exec_tool
from stepline.tools.mcp.server_row import McpServer
from stepline.tools.mcp.servers import Servers
from stepline.tools.registry import Registry, Tool
from stepline.tools.served.ask_model import ASK_MODEL
from stepline.tools.served.program_calls import ProgramCalls
from stepline.tools.spec import ToolEffect, ToolSpec
from stepline.tools.workfiles.checkout import CHECKOUT_TOOL
from stepline.tools.workfiles.patch import PATCH_TOOL
from stepline.tools.write import WRITE_TOOL
from tests.contract.fault.boundary import Reach, interruptible_ports
from tests.contract.fault.invocation import Killed
from tests.support.generation import answered, called

LANE: Final = Lane(tenant="acme", project="support", conversation="c-1")
USER: Final = "ada"
STRIKE: Final = "test.strike"
REPORT: Final = "test.report"
REPORTS: Final = 3
"""The reports of a call of REPORT, each with the number of the run that makes it."""
PROGRAM_ROLE: Final = "shop.classify"
CRM: Final = McpServer(alias="crm", url="https://crm.example/mcp")
ADD: Final = "mcp.crm.add"
TASK: Final = TaskConfig(cluster="c", task_definition="d", container_name="s", subnets=("n",))
PIECE_CHARS: Final = 400
PRICES: Final = read_prices({"models": [{"model": "memory", "plain": 2, "read": 0.2, "output": 10}]})
SAMPLE: Final = "[sample]"
"""The placeholder for the number of a generation."""

Hearing = Literal["prompt", "late", "deaf"]
Speech = Callable[["Simulation", str, ModelRequest], str]
"""What the model says in a round (`1.0` is the first one of the first turn) to a request: asked again, it does the same."""


@dataclasses.dataclass
class Simulation:
    """`moment` is called whenever something begins in which the user may interrupt: `stream 1.0`, `tool 1.0`, `program 1.0`.

    `samples` counts the requests to the model; each answer names its sample. `streams` are these calls, whose usage the model
    counts, and `unnoted` how often a process died before it could note one. `outlived`: workers may work on without a
    caller. `shared` are the claims under which two
    invocations of one attempt may speak at once: the text of such a stream is undefined before it is settled.
    With `reports` the agent has a tool that reports, and `reporting` counts its runs. `program_asks`: programs ask the
    model, and `program_streams` counts how often each run did. `tasks_last` is how often a task of the server is asked
    for until it is done; 0 if it makes none. `hearing` says how the functions hear of a steer: at once, never before
    they have read the log, or by then only.
    """

    speech: Speech
    policy: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    agent_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    placement: Placement = "inline"
    hearing: Hearing = "prompt"
    once: ToolEffect = "once"
    hooks: bool = False
    remote: bool = False
    reports: bool = False
    tasks_last: int = 0
    program_asks: bool = False
    program_streams: Counter[str] = dataclasses.field(default_factory=Counter)
    asks: Mapping[str, ApprovalRule] = dataclasses.field(default_factory=dict)
    log: Any = dataclasses.field(default_factory=MemoryLog)
    moment: Callable[[str], None] = lambda _: None
    effects: Counter[str] = dataclasses.field(default_factory=Counter)
    samples: int = 0
    reporting: int = 0
    streams: list[MemoryModelStream] = dataclasses.field(default_factory=list)
    unnoted: int = 0
    outlived: bool = False
    shared: set[int] = dataclasses.field(default_factory=set)

    def __post_init__(self) -> None:
        ports = in_memory(Settings.from_env({}), log=self.log).ports
        policy = dataclasses.replace(ports.policy, prices=PRICES, **self.policy)
        # An index that stores added rows, so that adding them is a boundary.
        self.memory = MemoryMemoryIndex()
        bundles = {"docs": BundleRules(policy, ports.outward)}
        servers = MemoryMcpServers(
            crm=MemoryServer(tools=(RemoteTool(name="add"),), answer=self._add, poll=self._poll)
        )
        self.ports: Ports = dataclasses.replace(
            ports, policy=policy, memory=self.memory, bundles=bundles, servers=servers
        )
        self.artifacts: Any = ports.artifacts
        self.clock: Any = ports.clock
        self.machine: Any = ports.machine
        self.publisher: Any = ports.publisher
        self.tasks: Any = ports.tasks
        self.history = History()
        self.crm_tasks: dict[str, int] = {}

    # --- the log

    def batches(self) -> list[Batch]:
        return MemoryLog.since(self.log, LANE, 0)

    @property
    def tail(self) -> Batch:
        return MemoryLog.tail(self.log, LANE) or EMPTY

    @property
    def state(self) -> State:
        return self.tail.state

    def entries(self, *kinds: type[Entry]) -> list[Any]:
        return [entry for batch in self.batches() for entry in batch.entries if isinstance(entry, kinds)]

    @property
    def asked(self) -> ApprovalRequested | None:
        """The request that a parked turn waits for."""
        parked = self.state.parked
        found = [e for batch in self.batches() if batch.n == parked for e in batch.entries]
        return next((entry for entry in found if isinstance(entry, ApprovalRequested)), None)

    @property
    def newest_event(self) -> int:
        """The newest batch that clients hear of."""
        return newest_event(self.tail)

    def round_of(self, step: Step) -> str:
        """Return the round that a step belongs to: its turn counted from 1, and its number in the turn."""
        if step.lane() != LANE:
            return "of a fork"
        turns = [entry.turn for entry in self.entries(Opened)]
        return f"{turns.index(step.turn) + 1}.{step.iteration}"

    @property
    def round(self) -> str:
        """The current round of the log."""
        return f"{len(self.entries(Opened))}.{self.state.cursor.iteration}"

    # --- what a process sees

    def seen(self, reach: Reach) -> Ports:
        """Return the ports as an invocation has them; composed ports use interruptible ones."""
        ports = dataclasses.replace(self.ports, **interruptible_ports(self.ports, self._noting(reach)))
        subscriptions, publisher = ports.subscriptions, ports.publisher
        return dataclasses.replace(
            ports,
            ledger=Ledger(),
            relay=MemoryRelay(deltas=ports.deltas, subscriptions=subscriptions, publisher=publisher),
            broadcast=GatewayBroadcast(
                subscriptions=subscriptions, publisher=publisher, meter=ports.meter, clock=ports.clock
            ),
            signals=_Signals(ports.signals, self.hearing),
        )

    def _noting(self, reach: Reach) -> Reach:
        """Count the notes of model calls before which a process died."""

        made: list[str] = []
        died: list[str] = []

        def reached(boundary: str, call: Callable[[], Any]) -> Any:
            before = len(made)
            try:
                return reach(boundary, lambda: (made.append(boundary), call())[1])
            except Killed:
                self.unnoted += boundary == "deltas.note" and not died and len(made) == before
                died.append(boundary)
                raise

        return reached

    def agent(self, reach: Reach) -> Agent:
        """Return the agent: a tool that may run once only, one that writes files, and programs."""
        execution = Execution(
            profile=RuntimeProfile(placement=self.placement, task=TASK),
            limits=RunLimits(timeout_s=60),
            tools=(),
            places=frozenset({self.placement}),
        )
        own = (self._strike(reach), WRITE_TOOL, PATCH_TOOL, CHECKOUT_TOOL, exec_tool())
        if self.reports:
            own = (*own, self._report(reach))
        fields = {"system": "You are tested.", "caps": ReadCaps(), "execution": execution}
        if self.program_asks:
            calls = ProgramCalls(roles=(PROGRAM_ROLE,))
            own = calls.grant(own)
            fields["execution"] = dataclasses.replace(execution, served=calls.limits)
            fields["services"] = _Services(ScriptedModel(self, reach, PROGRAM_ROLE))
        hook = self._hook(reach) if self.hooks else None
        hooks = Hooks(pre_run_hook=hook, before_round=hook, post_run_hook=hook)
        # Each turn lists the tools anew.
        servers = Servers([CRM], lambda more: ("You too.", Registry([*own, *more])), timeout_s=60, ttl_s=0)
        servers = servers if self.remote else None
        approvals = ApprovalPolicy(places=(self.asks,)).rule_of
        return Agent(
            registry=Registry(own),
            hooks=hooks,
            servers=servers,
            approvals=approvals,
            **{**fields, **self.agent_fields},
        )

    def run(self, state: str, step: Step) -> Callable[[Reach], Step]:
        """Return what a state of the machine runs."""

        def body(reach: Reach) -> Step:
            ports = self.seen(reach)
            match state:
                case "Decide":
                    voice = ScriptedModel(self, reach, self.round_of(step))
                    return decide(ports, self.agent(reach), voice, self.history, step)
                case "Act" | "Prepare":
                    return act(ports, self.agent(reach), self.history, step)
                case "Execute":
                    return execute(
                        ports, lambda _: MemoryExecutor(lambda job: self._program(reach, job)), step
                    )
                case _:
                    following = close(ports, step)
                    if following.route == "done":
                        follow_turn(ports, self.agent(reach), self.history, following)
                    return following

        return body

    def forget(self) -> None:
        """Lose what the processes remembered."""
        self.history = History()

    # --- what happens outside

    def _strike(self, reach: Reach) -> Tool:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        spec = ToolSpec(
            tool_id=STRIKE, purpose="p", schema=schema, returns="r", effect=self.once, read_only=False
        )

        def strike(_: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            self.moment(f"tool {self.round}")
            reach("tool.strike", lambda: self.effects.update([context.call_id]))
            return ToolOutput(blocks=(context.result(STRIKE, "struck"),))

        return Tool(spec=spec, run=strike)

    def _report(self, reach: Reach) -> Tool:
        schema = {"type": "object", "properties": {}, "additionalProperties": False}
        spec = ToolSpec(
            tool_id=REPORT, purpose="p", schema=schema, returns="r", effect="pure", read_only=True
        )

        def report(_: Mapping[str, Any], context: ToolContext) -> ToolOutput:
            self.moment(f"tool {self.round}")
            self.reporting += 1
            run = str(self.reporting)
            for done in range(1, REPORTS + 1):
                context.progress(done, REPORTS, run)
                reach("tool.report", lambda: None)
            return ToolOutput(blocks=(context.result(REPORT, "reported"),))

        return Tool(spec=spec, run=report)

    def _add(self, name: str, params: Mapping[str, Any]) -> McpReply | RemoteTask:
        self.moment(f"tool {self.round}")
        self.effects.update([self.state.running])  # `started` is in the log before the call
        if not self.tasks_last:
            return said("added")
        task = RemoteTask(id=f"task-{len(self.crm_tasks)}")
        self.crm_tasks[task.id] = self.tasks_last
        return task

    def _poll(self, task_id: str) -> McpReply | RemoteTask:
        self.crm_tasks[task_id] -= 1
        return RemoteTask(id=task_id) if self.crm_tasks[task_id] > 0 else said("added")

    def _hook(self, reach: Reach) -> Hook:
        def hook(call: HookCall) -> tuple[Produced, ...]:
            done = hook_effect(call.hook, call.context.turn, call.context.iteration)
            self.moment(f"hook {self.round}")
            reach(f"hook.{call.hook}", lambda: self.effects.update([done]))
            path = f"ar:{call.context.turn}.system.message.{call.hook}_{call.context.iteration}"
            return (
                () if call.closed else (Produced(type="bundle.note", author="bundle", path=path, text=done),)
            )

        return hook

    def _program(self, reach: Reach, job: Job) -> Run:
        self.moment(f"program {self.round}")
        if job.cancel.requested:
            return Run(returncode=None, error="cancelled")
        reach("executor.run", lambda: self.effects.update([job.request.exec_id]))
        self.ask_model(reach, job.request)
        return program_run(job)

    def ask_model(self, reach: Reach, request: ExecRequest) -> None:
        """Be the supervisor and the function that it asks: a call whose answer is lost is asked for again."""
        if not self.program_asks:
            return
        call = ServedCall(
            lane=LANE,
            turn=request.turn,
            exec_id=request.exec_id,
            ticket=request.served.ticket,
            number=0,
            tool_id=ASK_MODEL,
            params={"prompt": "Is it late?"},
            bundle=self.state.bundle,
        )
        for _ in range(ASK_TRIES):
            before = len(self.streams)
            try:
                serve_call(self.seen(reach), self.agent(reach), self.history, call)
            except DependencyError:
                continue
            else:
                return
            finally:
                self.program_streams[request.exec_id] += len(self.streams) - before


def hook_effect(hook: str, turn: str, iteration: int) -> str:
    """Return the name under which the effect of a hook is counted."""
    return f"{hook}/{turn}/{iteration if hook == 'before_round' else 0}"


def program_run(job: Job) -> Run:
    """Return a run that kept the first promise of its contract."""
    body = job.request.exec_id.encode()
    sha256 = hashlib.sha256(body).hexdigest()
    (job.spool / sha256).write_bytes(body)
    file = CollectedFile(path=job.request.contract[0].filename, sha256=sha256, size_bytes=len(body))
    return Run(returncode=0, seconds=0.5, program_log="hello\n", files=(file,))


class _Signals:
    """Signals that are heard in time, late or not at all."""

    def __init__(self, signals: Signals, hearing: Hearing) -> None:
        self._signals = signals
        self._hearing = hearing

    def notify(self, lane: Lane, n: int) -> None:
        self._signals.notify(lane, n)

    def watch(self, lane: Lane, after: int) -> SteerWatch:
        if self._hearing == "deaf":
            return NeverSteered()
        return (
            self._signals.watch(lane, after) if self._hearing == "prompt" else _LateWatch(self, lane, after)
        )


class _LateWatch(NeverSteered):
    """Reports a steer on request, and interrupts nothing."""

    def __init__(self, signals: _Signals, lane: Lane, after: int) -> None:
        self._watch = signals._signals.watch(lane, after)

    def steer(self) -> int:
        return self._watch.steer()


class _Services(NoServices):
    """The services of a tool that asks the model."""

    def __init__(self, model: ScriptedModel) -> None:
        self.model = model  # type: ignore[misc] # the base has none


class ScriptedModel:
    """The model of one invocation: a call of it is a boundary, and costs a sample."""

    def __init__(self, simulation: Simulation, reach: Reach, where: str) -> None:
        self._world = simulation
        self._reach = reach
        self._where = where

    def stream(self, request: ModelRequest) -> _Speaking:
        return _Speaking(self._world, self._reach, self._where, request)


class _Speaking(MemoryModelStream):
    """Sends the request when the iteration begins; after the first piece the user may interrupt. Its connection may break there, too."""

    def __init__(self, simulation: Simulation, reach: Reach, where: str, request: ModelRequest) -> None:
        super().__init__(request, lambda: Say(text=self._speak(request), piece_chars=PIECE_CHARS))
        self._world = simulation
        self._where = where
        self._reach = reach
        self._decides = request.role.startswith("solver.")

    def _speak(self, request: ModelRequest) -> str:
        self._world.samples += 1
        return self._world.speech(self._world, self._where, request).replace(
            SAMPLE, f"s{self._world.samples}"
        )

    def __iter__(self) -> Iterator[str]:
        self._reach("model.stream", lambda: None)
        self._world.streams.append(self)
        texts = 0
        for piece in super().__iter__():
            texts += bool(piece)
            if texts == 2 and piece and self._decides:
                self._world.moment(f"stream {self._where}")
                self._reach("model.piece", lambda: None)
            yield piece


# --- what a model says


def sampled(text: str) -> str:
    """Return an answer with the number of its sample."""
    return answered(f"{SAMPLE} {text}")


def written(name: str, text: str) -> str:
    return called("react.write", {"path": name, "content": text})
