"""The modules that four things pass on their way through the library: `python -m bench.trips`.

A trip is traced in one run of a turn, between two functions. Its modules are those with a function that is given the thing or
returns it, by itself or as a part of a value. Adapters are counted as their memory twins.
docs/concepts/turn.md has the table.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any, Final

import msgspec

import stepline
from bench.conversation import LANE, USER, Driver, InstantModel
from bundles.default import WORKFLOW
from stepline.adapters.memory.executor import MemoryExecutor
from stepline.bootstrap.agent_choice import read_caps
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.ingress.admit import Arrival, admit
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.programs.execute import execute
from stepline.model.program.execution import Limits, Run, RuntimeProfile
from stepline.ports.executor import Job
from stepline.settings import Settings
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

LIBRARY: Final = f"{stepline.__path__[0]}/"
WORD: Final = "kumquat"
DEPTH_MAX: Final = 4
FOREVER_S: Final = 2**40


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
        case dict():
            return value.values()
        case tuple() | list():
            return value
    return ()


@dataclass(kw_only=True)
class Trip:
    """The way between two functions, each a module below the library and a name; `modules` are in the order they are entered."""

    name: str
    start: tuple[str, str]
    end: tuple[str, str]
    modules: list[str] = field(default_factory=list)
    under_way: bool = False
    arrived: bool = False
    over: bool = False

    def trace(self, frame: FrameType, event: str, result: object) -> None:
        """Take a call or a return into account; a profile function."""
        code = frame.f_code
        ours = code.co_filename.startswith(LIBRARY) and not code.co_name.startswith(
            "<"
        )  # comprehensions are no calls
        if self.over or event not in {"call", "return"} or not ours:
            return
        place = (code.co_filename.removeprefix(LIBRARY).removesuffix(".py"), code.co_name)
        held = any(map(holds, arguments(frame, code))) if event == "call" else holds(result)
        self.under_way = self.under_way or (held and place == self.start)
        if held and self.under_way and place[0] not in self.modules:
            self.modules.append(place[0])
        if self.under_way and place == self.end:
            self.arrived = self.arrived or held
            self.over = self.arrived and event == "return"


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

TRIPS: Final[tuple[tuple[Trip, str, str], ...]] = (
    (
        Trip(name="prompt → request", start=("timeline/fold", "extended"), end=("context/request", "render")),
        f"Tell me about the {WORD}.",
        say(ANSWER),
    ),
    (
        Trip(
            name="delta → socket",
            start=("protocol/parser/channel_parser", "feed"),
            end=("adapters/memory/channel", "post"),
        ),
        "Hello.",
        say(ANSWER, thinking=f"A {WORD} is a fruit."),
    ),
    (
        Trip(
            name="tool parameter → result",
            start=("loop/act", "_run"),
            end=("loop/settle_action", "result_of"),
        ),
        "Hello.",
        say(CALL),
    ),
    (
        Trip(
            name="program text → executor",
            start=("programs/code", "check_program"),
            end=("adapters/memory/executor", "run"),
        ),
        "Hello.",
        say(PROGRAM, code=f"print('{WORD}')"),
    ),
)


def make_agent() -> Agent:
    """Return the default agent with programs and a tool that returns its parameter."""
    runtime = (RuntimeProfile(backend="memory"), Limits(timeout_s=60))
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
    """Trace a trip in a round of its own. Raises RuntimeError if it does not arrive."""
    app = in_memory(Settings.from_env({}))
    app.ports.subscriptions.subscribe(LANE, "listener", FOREVER_S, USER)
    app.ports.publisher.open("listener")
    driver = Driver(ports=app.ports, agent=make_agent(), model=InstantModel(generation))
    history = History()
    sys.setprofile(trip.trace)
    threading.setprofile(trip.trace)
    try:
        admit(driver.ports, LANE, Arrival(message_id="m", user=USER, text=prompt))
        step = driver.round(lambda: history)
        if step.route == "prepare":
            step = act(driver.ports, driver.agent, history, step)
            execute(driver.ports, lambda _: MemoryExecutor(lambda _: Run(returncode=0)), step)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if not trip.over:
        raise RuntimeError(f"{trip.name}: not arrived, but at {trip.modules}")
    return trip


def render_rows() -> str:
    """Return the rows of the table in docs/concepts/turn.md."""
    trips = [travel(*each) for each in TRIPS]
    return "".join(
        f"| {trip.name} | {len(trip.modules)} | {' · '.join(f'`{name}`' for name in trip.modules)} |\n"
        for trip in trips
    )


if __name__ == "__main__":
    sys.stdout.write(render_rows())
