"""A conversation: the loop in one process over the memory twins, a scripted model, and functions that drive it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bundles.default import WORKFLOW
from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.delivery.resume import resume
from stepline.errors import SteplineError
from stepline.ingress.admit import Admitted, Arrival, admit
from stepline.local.client.reducer import resume_request
from stepline.local.client.state import ClientState
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.loop.graph import DEFAULT_LAUNCH, LAUNCHER, LAUNCHES, REMOTE, ROUTER, TASKS, WAIT
from stepline.loop.hooks.run_hook import follow_turn
from stepline.loop.programs.execute import execute
from stepline.loop.turn import caught
from stepline.metering.ledger import Ledger
from stepline.model.batch import EMPTY, Batch, State
from stepline.model.entry import Closed, Entry
from stepline.model.ids import Lane
from stepline.model.program.execution import Run, RunLimits, RuntimeProfile
from stepline.model.step import Step
from stepline.model.wire.event import EventFrame, Frame, decode_frame, join_pieces
from stepline.ports.channel import Principal
from stepline.ports.executor import Job
from stepline.ports.model import Media, ModelClient, ModelRequest, Part
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

LANE = Lane(tenant="acme", project="support", conversation="c-1")
USER = "ada"
FAR = 4_000_000_000


class Conversation:
    """The world of one test; `script` is the model's output, in order."""

    def __init__(self, *script: Say | Fail | str, log: MemoryLog | None = None, **policy: Any) -> None:
        self.app: LoopApp = in_memory(Settings.from_env({}), log=log)
        self.ports: Ports = replace(self.app.ports, policy=replace(self.app.ports.policy, **policy))
        self.model = MemoryModelClient(*script)
        self.agent: Agent = self.app.agent
        self.history = History()
        self.log: Any = self.ports.log
        self.machine: Any = self.ports.machine
        self.clock: Any = self.ports.clock
        self.backends: dict[str, MemoryExecutor] = {}
        self.steps: list[Step] = []

    # --- the content of the log

    def batches(self, lane: Lane = LANE) -> list[Batch]:
        return MemoryLog.since(self.log, lane, 0)

    @property
    def tail(self) -> Batch:
        return (self.batches() or [EMPTY])[-1]

    @property
    def state(self) -> State:
        return self.tail.state

    def entries(self, kind: type[Entry]) -> list[Any]:
        return [entry for batch in self.batches() for entry in batch.entries if isinstance(entry, kind)]

    def kinds(self) -> list[list[str]]:
        return [[type(entry).__name__ for entry in batch.entries] for batch in self.batches()]

    def timeline(self) -> Timeline:
        """Return the log's timeline, folded without a cache."""
        return Timeline.empty(LANE).extended(self.batches())

    # --- actions

    def send(self, text: str = "hello", *, id: str = "m1", user: str = USER, **fields: Any) -> Admitted:  # noqa: A002 - reads best
        lane, connection = fields.pop("lane", LANE), fields.pop("connection", "")
        arrival = Arrival(message_id=id, user=user, text=text, **fields)
        return admit(self.ports, lane, arrival, connection=connection, until_s=FAR)

    def take(self) -> tuple[str, Step]:
        """Take the oldest execution that was started."""
        return self.machine.queue.pop(0)

    def now(self, **fields: Any) -> Step:
        """Return the next step, in the form of a live execution."""
        state = self.state
        step = Step(
            tenant=LANE.tenant,
            project=LANE.project,
            conversation=LANE.conversation,
            turn=state.turn,
            epoch=state.epoch,
            iteration=state.cursor.iteration,
            route=state.route(),
            segment=state.segment,
        )
        return Step(**{**{name: getattr(step, name) for name in step.__struct_fields__}, **fields})

    @property
    def own_ports(self) -> Ports:
        """The ports of one step, which has its own ledger."""
        return replace(self.ports, ledger=Ledger())

    @property
    def answering(self) -> ModelClient:
        """The model that Decide calls."""
        return self.model

    def decide(self, step: Step | None = None, **fields: Any) -> Step:
        return decide(self.own_ports, self.agent, self.answering, self.history, step or self.now(**fields))

    def act(self, step: Step | None = None) -> Step:
        return act(self.own_ports, self.agent, self.history, step or self.now())

    def execute(self, step: Step) -> Step:
        return execute(self.own_ports, lambda profile: self.backends.get(profile.backend), step)

    def close(self, step: Step | None = None, **fields: Any) -> Step:
        following = close(self.own_ports, step or self.now(**fields))
        if following.route == "done":
            follow_turn(self.own_ports, self.agent, self.history, following)
        return following

    def run(self) -> None:
        """Drive every execution to its end."""
        while self.machine.queue:
            name, step = self.take()
            self.drive(step)
            self.machine.end(name)

    def drive(self, step: Step) -> None:
        """Act as the state machine of one execution; a step that fails for good closes the turn with its error."""
        state = "decide"
        self.steps.append(step)
        while True:
            try:
                step = self.states[state](step)
            except SteplineError as error:
                if state == "close":
                    raise
                step = caught(step, error)
                state = "close"
                continue
            self.steps.append(step)
            if step.route in ("stop", "done"):
                return
            state = follow(state, step.route)
            if state == "wait":
                self.clock.pause(step.wait_s)
                state = WAIT.next.lower()

    @property
    def states(self) -> dict[str, Callable[[Step], Step]]:
        """The functions of the machine's states."""
        return {
            "decide": self.decide,
            "act": self.act,
            "prepare": self.act,
            "execute": self.execute,
            "close": self.close,
        }

    # --- listeners

    def connect(
        self, connection: str, *, user: str = USER, client: str = "", expires_at: int = FAR
    ) -> list[bytes]:
        """Open a connection; return its inbox."""
        principal = Principal(
            tenant=LANE.tenant, project=LANE.project, user=user, client=client, expires_at=expires_at
        )
        self.ports.subscriptions.connect(connection, principal)
        inbox: list[bytes] = self.app.ports.publisher.open(connection)  # type: ignore[attr-defined]  # the memory twin's own
        return inbox

    def resume_as(self, connection: str, state: ClientState) -> list[bytes]:
        """Let a client request everything that it lacks; return the frames."""
        asked = resume_request(state)
        stream = asked.get("stream", {"claim": 0, "off": {}})
        inbox = self.connect(connection)
        resume(
            self.ports,
            LANE,
            user=USER,
            connection=connection,
            until_s=FAR,
            after=state.cursor,
            have=stream["off"],
            claim=stream["claim"],
        )
        return inbox

    def listen(self, connection: str = "k1", **fields: Any) -> list[bytes]:
        """Open a connection that listens to the conversation; return its inbox."""
        inbox = self.connect(connection, **fields)
        self.ports.subscriptions.subscribe(
            LANE, connection, fields.get("expires_at", FAR), fields.get("user", USER)
        )
        return inbox

    def use(self, *tools: Tool) -> None:
        """Give the agent these tools in addition to its own."""
        own = [self.agent.registry.find(spec.tool_id) for spec in self.agent.registry.specs]
        self.agent = Agent(system="", registry=Registry([*own, *tools]), caps=ReadCaps())

    def programs(self, run: Callable[[Job], Run]) -> MemoryExecutor:
        """Let the agent run programs; `run` returns the result of a run."""
        runtime = (RuntimeProfile(backend="process"), RunLimits(timeout_s=60))
        self.agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), runtime=runtime)
        self.backends["process"] = MemoryExecutor(run)
        return self.backends["process"]

    def forget(self, *tools: str) -> None:
        """Remove these tools, as a deployment in the middle of a turn does."""
        registry = self.agent.registry
        kept = [registry.find(spec.tool_id) for spec in registry.specs if spec.tool_id not in tools]
        self.agent = Agent(system="", registry=Registry(kept), caps=ReadCaps())


def follow(state: str, route: str) -> str:
    """Return the state after this one, by the edges of the graph."""
    task = next(task for task in (*TASKS, REMOTE) if task.name.lower() == state)
    if task.next == LAUNCHER:
        return LAUNCHES.get(route, DEFAULT_LAUNCH).lower()
    return route if task.next == ROUTER else task.next.lower()


def tool(tool_id: str, effect: Any, run: Callable[[ToolContext], ToolOutput], **facts: Any) -> Tool:
    """Return a tool without parameters."""
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    known: dict[str, Any] = {"tool_id": tool_id, "schema": schema, "effect": effect, **facts}
    spec = ToolSpec(purpose="p", returns="r", read_only=False, **known)
    return Tool(spec=spec, run=lambda _, context: run(context))


def frames(inbox: list[bytes]) -> list[Frame]:
    return [decode_frame(body) for body in inbox]


def of(kind: type[Any], inbox: list[bytes]) -> list[Any]:
    return [frame for frame in frames(inbox) if isinstance(frame, kind)]


def event_types(inbox: list[bytes]) -> list[str]:
    """Return the types of the durable events, in the order of arrival."""
    return [event.type for _, events in durable(inbox) for event in events]


def durable(inbox: list[bytes]) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the received events of each batch: its number and its events, parts joined."""
    found: list[tuple[int, tuple[Any, ...]]] = []
    pieces: list[str] = []
    for frame in of(EventFrame, inbox):
        if frame.parts == 1:
            found.append((frame.n, frame.events))
            continue
        pieces.append(frame.piece)
        if frame.part == frame.parts:
            found.append((frame.n, join_pieces(pieces)))
            pieces = []
    return found


def closings(conversation: Conversation) -> list[Closed]:
    return conversation.entries(Closed)


def text_of(request: ModelRequest) -> str:
    """Return the text of a request after its system part."""
    return "".join(part.text for part in request.content if isinstance(part, Part))


def files_of(request: ModelRequest) -> list[Media]:
    """Return the pictures and documents of a request."""
    return [part for part in request.content if isinstance(part, Media)]
