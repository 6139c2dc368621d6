"""A conversation for measurements: its log as the loop itself writes it, cut where the next round is due.

A turn has eleven blocks: a prompt, a followup, four rounds of a call and its result, an answer. Each block
adds about 500 characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import msgspec

from bundles.default import WORKFLOW
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.bootstrap.agent_choice import read_caps
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.context.rules import ContextRules
from stepline.delivery.effect import current_step
from stepline.ingress.admit import Arrival, admit
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.act import act
from stepline.loop.agent import Agent
from stepline.loop.close import close
from stepline.loop.decide import decide
from stepline.model.batch import Batch
from stepline.model.entry import Decided, Inbound, Resulted
from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelRequest
from stepline.settings import Settings
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec

LANE = Lane(tenant="bench", project="default", conversation="resume")
USER = "somebody"
ROUNDS_A_TURN = 4
BLOCK_CHARS = 500
PIECE_CHARS = 40
_PROSE = "The figures of the last quarter rise by 7 % against the plan, mostly in the north. "


def prose(chars: int) -> str:
    """Return plain text of this length."""
    return (_PROSE * (chars // len(_PROSE) + 1))[:chars]


class InstantModel:
    """Answers at once with given text and reads nothing, so that only our own time is measured."""

    def __init__(self, text: str = "") -> None:
        self.text = text

    def stream(self, request: ModelRequest) -> InstantStream:
        return InstantStream(self.text)


@dataclass
class InstantStream:
    """One answer."""

    text: str

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        return None

    def __iter__(self) -> Iterator[str]:
        for at in range(0, len(self.text), PIECE_CHARS):
            yield self.text[at : at + PIECE_CHARS]

    def abort(self) -> None:
        return None

    def completion(self) -> Completion:
        usage = Usage(input_tokens=1000, output_tokens=100)
        return Completion(text=self.text, stop_reason="end_turn", usage=usage, model="instant")


def say_call(*, thinking_chars: int, argument_chars: int) -> str:
    """Return a decision that calls the tool of `make_agent`."""
    call = {"tool_id": "bench.look", "params": {"query": prose(argument_chars)}}
    return _say({"action": "call_tool", "notes": "", "tool_call": call}, prose(thinking_chars))


def say_answer() -> str:
    """Return a decision that ends the turn."""
    return _say({"action": "complete", "final_answer": prose(BLOCK_CHARS)}, "Done.")


def _say(decision: dict[str, Any], thinking: str) -> str:
    body = msgspec.json.encode(decision).decode()
    return (
        f"<channel:thinking>{thinking}</channel:thinking>\n"
        f"<channel:ReactDecisionOutV2>\n```json\n{body}\n```\n</channel:ReactDecisionOutV2>\n"
        "<channel:code></channel:code>\n"
    )


def make_agent(result_chars: int = BLOCK_CHARS) -> Agent:
    """Return the default agent with one tool, which answers at once with this many characters."""
    text = prose(result_chars)
    schema = {
        "type": "object",
        "properties": {"query": {"type": "string", "description": "what to look for"}},
        "required": ["query"],
        "additionalProperties": False,
    }

    def look(_params: object, context: ToolContext) -> ToolOutput:
        return ToolOutput(blocks=(context.result("bench.look", text),))

    spec = ToolSpec(
        tool_id="bench.look",
        purpose="Look something up.",
        schema=schema,
        returns="text",
        effect="pure",
        read_only=True,
    )
    agent = build_agent(read_caps(Settings.from_env({})), parts=WORKFLOW.parts())
    return replace(agent, registry=Registry([Tool(spec=spec, run=look)]))


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Runs the steps of a conversation as the state machine would."""

    ports: Ports
    agent: Agent
    model: InstantModel
    lane: Lane = LANE

    def receive(self, message_id: str) -> None:
        """Submit a user's message."""
        admit(self.ports, self.lane, Arrival(message_id=message_id, user=USER, text=prose(BLOCK_CHARS)))

    def step(self) -> Step:
        """Return the step that is due."""
        tail = self.ports.log.tail(self.lane, consistent=True)
        assert tail is not None
        return current_step(self.lane, tail)

    def round(self, history: Callable[[], History], step: Step | None = None) -> Step:
        """Run one Decide and, if it asked for a call, its Act; each with its own history from `history`."""
        after = decide(self.ports, self.agent, self.model, history(), step or self.step())
        return act(self.ports, self.agent, history(), after) if after.route == "act" else after


def converse(blocks: int, model: InstantModel | None = None) -> LoopApp:
    """Return a stored conversation of at least this many blocks.

    An instant model counts a thousand tokens for every request, so that no compaction is needed; and nothing
    is pruned for its price.
    """
    app = in_memory(Settings.from_env({}))
    if model is None:
        whole = replace(app.ports.policy, context=ContextRules(horizon_requests=0))
        app = replace(app, ports=replace(app.ports, policy=whole))
    model, history = model or InstantModel(), History()
    driver = Driver(ports=app.ports, agent=make_agent(), model=model)
    for turn in range(blocks // 11 + 1):
        driver.receive(f"m{turn}")
        driver.receive(f"f{turn}")
        model.text = say_call(thinking_chars=150, argument_chars=350)
        for _ in range(ROUNDS_A_TURN):
            driver.round(lambda: history)
        model.text = say_answer()
        close(app.ports, driver.round(lambda: history))
    return app


def stored(app: LoopApp) -> list[bytes]:
    """Return the bytes of the conversation's batches, mutable."""
    log = app.ports.log
    assert isinstance(log, MemoryLog)
    return log.batches.setdefault(LANE.key(), [])


def objects(app: LoopApp) -> dict[str, bytes]:
    """Return the stored objects, segments and spills, mutable."""
    artifacts = app.ports.artifacts
    assert isinstance(artifacts, MemoryArtifacts)
    return artifacts.objects


def cut(bodies: list[bytes], decode: Callable[[bytes], Batch], blocks: int) -> list[bytes]:
    """Return the log up to its `blocks`-th block; that must be a result, so that a decision is due."""
    count = 0
    for at, body in enumerate(bodies, 1):
        entries = decode(body).entries
        count += sum(isinstance(entry, Inbound | Decided | Resulted) for entry in entries)
        if count == blocks and isinstance(entries[-1], Resulted):
            return bodies[:at]
    raise ValueError(f"no result is block {blocks} of this log")
