"""What outlives every process: the memory twins, the executions, and what the outside world has seen happen.

An invocation gets ports of its own, with a door before each of them. Its functions are the real ones.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.adapters.memory.relay import MemoryRelay
from stepline.bootstrap import in_memory
from stepline.loop.act import act
from stepline.loop.agent import Agent, Execution
from stepline.loop.close import close
from stepline.loop.decide import Mind, decide
from stepline.loop.execute import execute
from stepline.loop.history import History
from stepline.loop.port import Ports
from stepline.loop.posting import Posting
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.entry import Entry, Opened
from stepline.model.execution import CollectedFile, Fargate, Limits, Mode, Run, RuntimeProfile
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.ports.executor import Job
from stepline.ports.model import ModelRequest
from stepline.settings import Settings
from stepline.timeline.event import newest_event
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.execute import exec_tool
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import Effect, ToolSpec
from stepline.tools.write import WRITE_TOOL

from .boundary import Reach, doors

LANE: Final = Lane(tenant="acme", project="support", conversation="c-1")
USER: Final = "ada"
STRIKE: Final = "test.strike"
FARGATE: Final = Fargate(cluster="c", task_definition="d", container_name="s", subnets=("n",))
PIECE_CHARS: Final = 400

Speech = Callable[["World", ModelRequest], str]
"""What the model says to a request: a function of the log, so that asked again it says the same."""


@dataclasses.dataclass
class World:
    """`moment` is told whenever something begins in which the user may cut in: `stream 1.0`, `tool 1.0`, `program 1.0`."""

    speech: Speech
    policy: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    agent_fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    mode: Mode = "process"
    once: Effect = "once"
    log: Any = dataclasses.field(default_factory=MemoryLog)
    moment: Callable[[str], None] = lambda _: None
    effects: Counter[str] = dataclasses.field(default_factory=Counter)
    samples: int = 0

    def __post_init__(self) -> None:
        ports = in_memory(Settings.from_env({}), log=self.log).ports
        policy = dataclasses.replace(ports.policy, **self.policy)
        self.ports: Ports = dataclasses.replace(ports, policy=policy)
        self.artifacts: Any = ports.artifacts
        self.clock: Any = ports.clock
        self.machine: Any = ports.machine
        self.publisher: Any = ports.publisher
        self.tasks: Any = ports.tasks
        self.history = History()

    # --- what stands in the log

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
    def newest_event(self) -> int:
        """The newest batch that clients hear of."""
        return newest_event(self.tail)

    @property
    def round(self) -> str:
        """The open turn and its round, both counted from 0 and 1: `1.0` is the first round of the first turn."""
        return f"{len(self.entries(Opened))}.{self.state.cursor.iteration}"

    # --- what a process sees

    def seen(self, reach: Reach) -> Ports:
        """Return the ports as an invocation has them; what stands on others stands on doors."""
        ports = dataclasses.replace(self.ports, **doors(self.ports, reach))
        subscriptions, publisher = ports.subscriptions, ports.publisher
        return dataclasses.replace(
            ports,
            relay=MemoryRelay(deltas=ports.deltas, subscriptions=subscriptions, publisher=publisher),
            broadcast=Posting(
                subscriptions=subscriptions, publisher=publisher, meter=ports.meter, clock=ports.clock
            ),
        )

    def agent(self, reach: Reach) -> Agent:
        """Return the agent: a tool that may run once only, one that writes files, and programs."""
        execution = Execution(
            profile=RuntimeProfile(mode=self.mode, fargate=FARGATE),
            limits=Limits(timeout_s=60),
            tools=(),
            places=frozenset({self.mode}),
        )
        registry = Registry([self._strike(reach), WRITE_TOOL, exec_tool()])
        fields = {"system": "You are tested.", "caps": ReadCaps(), "execution": execution}
        return Agent(registry=registry, **{**fields, **self.agent_fields})  # type: ignore[arg-type]  # fields of many types

    def run(self, state: str, step: Step) -> Callable[[Reach], Step]:
        """Return what a state of the machine runs."""

        def body(reach: Reach) -> Step:
            ports = self.seen(reach)
            match state:
                case "Decide":
                    mind = Mind(agent=self.agent(reach), model=Voice(self, reach), history=self.history)
                    return decide(ports, mind, step)
                case "Act" | "Prepare":
                    return act(ports, self.agent(reach), self.history, step)
                case "Execute":
                    return execute(
                        ports, lambda _: MemoryExecutor(lambda job: self._program(reach, job)), step
                    )
                case _:
                    return close(ports, step)

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

    def _program(self, reach: Reach, job: Job) -> Run:
        self.moment(f"program {self.round}")
        if job.cancel.requested:
            return Run(returncode=None, error="cancelled")
        reach("executor.run", lambda: self.effects.update([job.request.exec_id]))
        return program_run(job)


def program_run(job: Job) -> Run:
    """Return a run that kept the first promise of its contract."""
    body = job.request.exec_id.encode()
    sha256 = hashlib.sha256(body).hexdigest()
    (job.spool / sha256).write_bytes(body)
    file = CollectedFile(path=job.request.contract[0].filename, sha256=sha256, size_bytes=len(body))
    return Run(returncode=0, seconds=0.5, program_log="hello\n", files=(file,))


class Voice:
    """The model of one invocation: a call of it is a boundary, and costs a sample."""

    def __init__(self, world: World, reach: Reach) -> None:
        self._world = world
        self._reach = reach

    def stream(self, request: ModelRequest) -> _Speaking:
        return _Speaking(self._world, self._reach, request)


class _Speaking(MemoryModelStream):
    """Asks when the iteration begins; behind the first pieces the user may cut in."""

    def __init__(self, world: World, reach: Reach, request: ModelRequest) -> None:
        super().__init__(request, lambda: Say(text=world.speech(world, request), piece_chars=PIECE_CHARS))
        self._world = world
        self._ask = lambda: reach("model.stream", lambda: world.__setattr__("samples", world.samples + 1))
        self._decides = request.role.startswith("solver.")

    def __iter__(self) -> Any:
        self._ask()
        where = self._world.round
        for at, piece in enumerate(super().__iter__()):
            if at == 1 and self._decides:
                self._world.moment(f"stream {where}")
            yield piece


# --- what a model says


def said(decision: Mapping[str, Any], *, more: str = "") -> str:
    """Return a generation as a model writes it."""
    return (
        "<channel:thinking>Let me see.</channel:thinking>\n"
        f"<channel:ReactDecisionOutV2>{json.dumps(decision)}</channel:ReactDecisionOutV2>{more}"
    )


def answered(text: str) -> str:
    return said({"action": "complete", "final_answer": text})


def called(tool_id: str, **params: Any) -> str:
    return said({"action": "call_tool", "notes": "", "tool_call": {"tool_id": tool_id, "params": params}})


def written(name: str, text: str) -> str:
    return called("react.write", path=name, content=text)


def coded(name: str) -> str:
    call = {"tool_id": "exec_tools.execute_code_python", "params": {}}
    call["params"] = {"contract": [{"filename": name, "description": "what it found"}]}
    decision = said({"action": "call_tool", "notes": "", "tool_call": call})
    return f"{decision}\n<channel:code>print('hello')</channel:code>"
