"""The modules that four values pass from door to door: `python -m bench.trips`.

The doors are the websocket's frame, the request to the provider, the pieces of its answer, the socket, and the log.
A trip is traced in one run of a turn. Its modules are those with a function that is given the thing or returns it, by itself
or as a part of a value. Adapters are counted as their memory twins, but for the provider's. docs/concepts/turn.md has the table.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

import stepline
from bench.budget import BUDGETS
from bench.conversation import LANE, USER, Driver
from bench.row import Row
from bundles.default import WORKFLOW
from stepline.adapters.memory.executor import MemoryExecutor
from stepline.bootstrap.agent_choice import read_caps
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.ingress.message import receive
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.programs.execute import execute
from stepline.model.program.execution import Run, RunLimits, RuntimeProfile
from stepline.ports.channel import Principal
from stepline.ports.executor import Job
from stepline.ports.model import Part
from stepline.settings import Settings
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

LIBRARY: Final = f"{stepline.__path__[0]}/"
WORD: Final = "kumquat"
DEPTH_MAX: Final = 6
WHO: Final = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=2**40)


def holds(value: object, depth: int = 0) -> bool:
    """Return True if a value is the traced thing or contains it. Timelines and ports, which reach everything, do not count."""
    if isinstance(value, str):
        return WORD in value
    if isinstance(value, bytes):
        return WORD.encode() in value
    return depth < DEPTH_MAX and any(holds(part, depth + 1) for part in parts_of(value))


def parts_of(value: object) -> Iterable[object]:
    """Return the parts of a value; nothing else has any."""
    match value:
        case msgspec.Struct():
            return [getattr(value, name, None) for name in value.__struct_fields__]
        case Job():
            return [value.request]
        case Part():
            return [value.text]
        case dict():
            return value.values()
        case tuple() | list():
            return value
    return ()


@dataclass(kw_only=True)
class Trip:
    """The way between doors, each a module below the library and a name; `modules` are in the order they are entered.

    It is over with the last arrival at one of its ends.
    """

    name: str
    start: tuple[str, str]
    ends: tuple[tuple[str, str], ...]
    modules: list[str] = field(default_factory=list)
    arrived: int = 0

    def trace(self, frame: FrameType, event: str, result: object) -> None:
        """Take a call or a return into account; a profile function."""
        code = frame.f_code
        ours = code.co_filename.startswith(LIBRARY) and not code.co_name.startswith(
            "<"
        )  # comprehensions are no calls
        if event not in {"call", "return"} or not ours:
            return
        place = (code.co_filename.removeprefix(LIBRARY).removesuffix(".py"), code.co_name)
        if not (self.modules or place == self.start):
            return
        if not (any(map(holds, arguments(frame, code))) if event == "call" else holds(result)):
            return
        if place[0] not in self.modules:
            self.modules.append(place[0])
        if place in self.ends:
            self.arrived = len(self.modules)


def arguments(frame: FrameType, code: CodeType) -> list[object]:
    """Return the arguments of a call but for `self`."""
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return [frame.f_locals.get(name) for name in names if name != "self"]


def say(decision: dict[str, Any], *, thinking: str = "Let me see.", code: str = "") -> str:
    """Return a generation."""
    body = msgspec.json.encode(decision).decode()
    return (
        f"<channel:thinking>{thinking}</channel:thinking>\n"
        f"<channel:ReactDecisionOutV2>{body}</channel:ReactDecisionOutV2>\n<channel:code>{code}</channel:code>\n"
    )


ANSWER: Final = {"action": "complete", "final_answer": "Done."}
CALL: Final = {"action": "call_tool", "tool_call": {"tool_id": "bench.echo", "params": {"query": WORD}}}
CONTRACT: Final = [{"filename": "a.txt", "description": "a file"}]
PROGRAM: Final = {
    "action": "call_tool",
    "tool_call": {"tool_id": "exec_tools.execute_code_python", "params": {"contract": CONTRACT}},
}
FRAME: Final = ("ingress/message", "receive")
PIECE: Final = ("adapters/anthropic/message_fold", "take")
REQUEST: Final = ("adapters/provider/http_transport", "_encode")
LOG: Final = ("adapters/memory/log", "put")
SOCKET: Final = ("adapters/memory/channel", "post")

TRIPS: Final[tuple[tuple[Trip, str, str], ...]] = (
    (
        Trip(name="message → provider", start=FRAME, ends=(REQUEST,)),
        f"Tell me about the {WORD}.",
        say(ANSWER),
    ),
    (Trip(name="tool parameter → recorded result", start=PIECE, ends=(LOG,)), "Hello.", say(CALL)),
    (
        Trip(name="program → recorded result", start=PIECE, ends=(LOG,)),
        "Hello.",
        say(PROGRAM, code=f"print('{WORD}')"),
    ),
    (
        Trip(name="delta → socket and log", start=PIECE, ends=(SOCKET, LOG)),
        "Hello.",
        say(ANSWER, thinking=f"A {WORD} is a fruit."),
    ),
)


METRICS: Final = ("hops_message", "hops_parameter", "hops_program", "hops_delta")


class Provider(ThreadingHTTPServer):
    """A server that answers every request with one generation."""

    daemon_threads = True

    def __init__(self, generation: str) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), Generation)
        pieces = [{"type": "text_delta", "text": piece} for piece in re.findall(r"\S+\s*", generation)]
        events = [
            {
                "type": "message_start",
                "message": {"id": "msg_1", "model": "claude-sonnet-5", "usage": {"input_tokens": 9}},
            },
            *({"type": "content_block_delta", "index": 0, "delta": piece} for piece in pieces),
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}},
            {"type": "message_stop"},
        ]
        self.body = b"".join(b"data: %b\n\n" % msgspec.json.encode(event) for event in events)


class Generation(BaseHTTPRequestHandler):
    """An answer of the provider."""

    def do_POST(self) -> None:
        """Send the events of the answer."""
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def make_agent() -> Agent:
    """Return the default agent with programs and a tool that returns its parameter."""
    runtime = (RuntimeProfile(backend="memory"), RunLimits(timeout_s=60))
    agent = build_agent(read_caps(Settings.from_env({})), parts=WORKFLOW.parts(), runtime=runtime)

    def echo(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        return ToolOutput(blocks=(context.result("bench.echo", params["query"]),))

    spec = ToolSpec(
        tool_id="bench.echo",
        purpose="Echo.",
        schema={"type": "object", "properties": {"query": {"type": "string", "description": "a text"}}},
        returns="text",
        effect="pure",
        read_only=True,
    )
    tools = [agent.registry.find(each.tool_id) for each in agent.registry.specs]
    return replace(agent, registry=Registry([*tools, Tool(spec=spec, run=echo)]))


def travel(trip: Trip, prompt: str, generation: str) -> Trip:
    """Trace a trip in a round of its own; return what was traced. Raises RuntimeError if it does not arrive."""
    trip = replace(trip, modules=[], arrived=0)
    with Provider(generation) as provider:
        threading.Thread(target=provider.serve_forever, args=(0.02,), daemon=True).start()
        url = f"http://127.0.0.1:{provider.server_port}"
        app = in_memory(Settings.from_env({"ANTHROPIC_API_KEY": "bench", "ANTHROPIC_BASE_URL": url}))
        app.ports.subscriptions.connect("listener", WHO)
        app.ports.publisher.open("listener")
        frame = {"action": "send", "conversation": LANE.conversation, "message_id": "m", "text": prompt}
        driver = Driver(ports=app.ports, agent=make_agent(), model=app.provider_model())
        sys.setprofile(trip.trace)
        threading.setprofile(trip.trace)
        try:
            play(driver, msgspec.json.encode(frame).decode())
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
            provider.shutdown()
    if not trip.arrived:
        raise RuntimeError(f"{trip.name}: not arrived, but at {trip.modules}")
    return trip


def play(driver: Driver, frame: str) -> None:
    """Receive a frame, and run one round of the turn that it opens, up to its last result."""
    history = History()
    receive(driver.ports, "listener", frame)
    step = driver.round(lambda: history)
    if step.route == "prepare":
        step = act(driver.ports, driver.agent, history, step)
        step = execute(
            driver.ports, lambda _: MemoryExecutor(lambda _: Run(returncode=0, program_log=WORD)), step
        )
        act(driver.ports, driver.agent, history, step)


def render_rows() -> str:
    """Return the rows of the table in docs/concepts/turn.md."""
    return "".join(
        f"| {trip.name} | {trip.arrived} | {' · '.join(f'`{name}`' for name in trip.modules[: trip.arrived])} |\n"
        for trip in (travel(*each) for each in TRIPS)
    )


def rows() -> list[Row]:
    """Return `hops_<value>`."""
    return [
        Row(
            metric=metric,
            value=travel(*each).arrived,
            unit="modules",
            goal=BUDGETS[metric].aim,
            note=each[0].name,
        )
        for metric, each in zip(METRICS, TRIPS, strict=True)
    ]


if __name__ == "__main__":
    sys.stdout.write(render_rows())
