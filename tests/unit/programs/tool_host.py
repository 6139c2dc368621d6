"""A run's tools for tests: a host over a small registry, and a conversation with two blocks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import PathError, ToolError
from stepline.model.block import Block
from stepline.model.ids import Lane
from stepline.model.plan_steps import Plan
from stepline.programs.host import ToolHost
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.sources import SourcePool
from stepline.tools.spec import ToolSpec

EXEC_ID = "tc_0123456789ab"
TURN = "turn_20261121T101500_ab12cd"
PROMPT = f"ar:{TURN}.user.prompt"
TS = "2026-11-21T10:15:03.000Z"

Act = Callable[[Mapping[str, Any], ToolContext], ToolOutput]


def tool(tool_id: str, act: Act, **fields: Any) -> Tool:
    """Return a tool for programs that takes any parameters."""
    spec = ToolSpec(
        tool_id=tool_id,
        purpose="For a test.",
        schema=fields.pop("schema", {"type": "object"}),
        returns="what the test wants",
        effect="pure",
        read_only=True,
        in_exec=fields.pop("in_exec", True),
    )
    return Tool(spec=spec, run=act)


def echo(params: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
    return ToolOutput(ret=dict(params))


def speak(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    context.emit("test.said", {"text": params["text"]})
    return ToolOutput(blocks=(context.result("test.speak", "said"),))


def refuse(params: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
    raise {"tool": ToolError, "path": PathError}[params["kind"]]("not like this", code=params["code"])


def crash(_params: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
    raise RuntimeError("password is hunter2")


TOOLS = (
    tool("test.echo", echo),
    tool("test.speak", speak),
    tool("test.refuse", refuse),
    tool("test.crash", crash),
    tool("test.private", echo, in_exec=False),
    tool("test.whoami", lambda _params, context: ToolOutput(ret=context.call_id)),
    tool("test.strict", echo, schema={"type": "object", "properties": {"n": {"type": "integer"}}}),
)


@dataclass
class Conversation:
    """A timeline of single blocks, all of which the model sees."""

    blocks: dict[str, Block] = field(default_factory=dict)
    turns: tuple[str, ...] = (TURN,)
    plans: Mapping[str, Plan] = field(default_factory=dict)

    def resolve(self, path: str) -> tuple[Block, ...]:
        return (self.blocks[path],) if path in self.blocks else ()

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        return tuple(self.blocks.values()) if turn in self.turns else ()

    def visible(self, path: str) -> Block | None:
        return self.blocks.get(path)


def said(text: str, path: str = PROMPT, mime: str = "text/markdown") -> Block:
    return Block(type="test.block", author="user", ts=TS, turn_id=TURN, path=path, mime=mime, text=text)


def make_host(
    *tools: Tool,
    allowed: tuple[str, ...] | None = None,
    pool: Callable[[], SourcePool] = SourcePool,
    **context: Any,
) -> ToolHost:
    """Return a host of the tools above and these; by default it grants all of them.

    `pool` is asked for every call's sources.
    """
    registry = Registry((*_builtin(), *TOOLS, *tools))
    prompt = said("Summe?")

    def make_context(call_id: str) -> ToolContext:
        fields = {
            "lane": Lane(tenant="acme", project="support", conversation="c-1"),
            "turn": TURN,
            "call_id": call_id,
            "iteration": 1,
            "ts": TS,
            "artifacts": MemoryArtifacts(),
            "timeline": Conversation({PROMPT: prompt}),
            "caps": ReadCaps(),
            "sources": pool(),
        }
        return ToolContext(**{**fields, **context})

    return ToolHost(
        registry=registry,
        allowed=[spec.tool_id for spec in registry.specs] if allowed is None else allowed,
        context=make_context,
        clock=MemoryClock(),
        exec_id=EXEC_ID,
    )


def _builtin() -> tuple[Tool, ...]:
    registry = default_registry(executes=True)
    return tuple(registry.find(spec.tool_id) for spec in registry.specs)
