"""A small conversation for tools to work in: blocks in a list, bodies in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Block, Body
from stepline.model.decision import Action
from stepline.model.ids import Lane, call_id
from stepline.model.plan_steps import Plan
from stepline.model.source import Source
from stepline.ports.search import WebPages, WebSearch
from stepline.ports.signal import Cancel, NeverCancelled
from stepline.rendering.piece import Attached, Piece, Shown
from stepline.rendering.pieces_of_entry import digest_text
from stepline.tools.catalogue import default_registry
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import Registry, run_tool
from stepline.tools.sources import SourcePool

TURN = "turn_20261121T101500_ab12cd"
LANE = Lane(tenant="acme", project="support", conversation="c-1")
TS = "2026-11-21T10:15:03.000Z"


@dataclass
class ToolConversation:
    """A conversation of one turn: every call's blocks, plans and sources are taken in, as the fold would."""

    artifacts: MemoryArtifacts = field(default_factory=MemoryArtifacts)
    registry: Registry = field(default_factory=default_registry)
    caps: ReadCaps = field(default_factory=ReadCaps)
    groups: list[tuple[Block, ...]] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)
    turns: tuple[str, ...] = (TURN,)
    sources: dict[int, Source] = field(default_factory=dict)
    search: WebSearch | None = None
    pages: WebPages | None = None
    rounds: int = 0
    pieces: tuple[Piece, ...] = ()
    media: list[Attached] = field(default_factory=list)
    cancel: Cancel = field(default_factory=NeverCancelled)

    def resolve(self, path: str) -> tuple[Block, ...]:
        if path.startswith("ws:") and path.endswith(".conv.working.summary"):
            path = f"{path}.attempt.1"
        for group in reversed(self.groups):
            if found := tuple(b for b in group if b.path == path and not b.meta.get("source_path")):
                return found
        return ()

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        return tuple(block for group in self.groups for block in group if block.turn_id == turn)

    def visible(self, path: str) -> Shown | None:
        for block in self._newest_first():
            meta, about = block.meta, {"path": path, "n": 0, "turn_id": TURN, "call_id": block.call_id}
            if meta.get("source_path") == path and meta.get("whole"):
                return Shown(**about, digest=meta["source_sha256"][:16])
            if block.path == path and block.body is None and not meta.get("source_path"):
                return Shown(**about, digest=digest_text(block.text))
        return None

    def _newest_first(self) -> Iterator[Block]:
        return (block for group in reversed(self.groups) for block in reversed(group))

    def say(self, path: str, text: str, **fields: Any) -> Block:
        """Store a text at a path."""
        block = Block(type="test.block", author="user", ts=TS, turn_id=TURN, path=path, text=text, **fields)
        self.groups.append((block,))
        return block

    def keep(self, path: str, data: bytes, mime: str) -> Block:
        """Store bytes at a path."""
        digest = hashlib.sha256(data).hexdigest()
        body = Body(key=f"out/{digest}", sha256=digest, size_bytes=len(data), mime=mime)
        self.artifacts.put(body.key, data, mime=mime)
        return self.say(path, "", body=body, mime=mime)

    def call(self, tool_id: str, params: Mapping[str, Any]) -> ToolOutput:
        """Run one call in a round of its own."""
        action = Action(call_id=call_id(TURN, self.rounds, 0), tool_id=tool_id, params=dict(params))
        output = run_tool(self.registry, action, self.context(action.call_id))
        self.rounds += 1
        self.groups.append(output.blocks)
        self.plans |= {plan.plan_id: plan for plan in output.plans}
        self.sources |= {row.sid: row for row in output.sources}
        self.media += _attached(output)
        return output

    def context(self, call: str) -> ToolContext:
        return ToolContext(
            lane=LANE,
            turn=TURN,
            call_id=call,
            iteration=self.rounds,
            ts=TS,
            artifacts=self.artifacts,
            timeline=self,
            caps=self.caps,
            search=self.search,
            pages=self.pages,
            sources=SourcePool(self.sources),
            cancel=self.cancel,
        )


def _attached(output: ToolOutput) -> Iterator[Attached]:
    """Yield what the views attach, as the fold finds it."""
    for block in output.blocks:
        if (about := block.meta.get("media")) and block.body:
            source = str(block.meta["source_sha256"])[:16]
            made = {"tokens": about["tokens"], "extent": about["extent"], "source": source}
            yield Attached(path=str(block.meta["source_path"]), body=block.body, **made)


@pytest.fixture
def conversation() -> ToolConversation:
    return ToolConversation()


def read_status(output: ToolOutput) -> dict[str, Any]:
    """Return the JSON of a call's status block."""
    (status,) = [block for block in output.blocks if block.path.endswith(".result")]
    return json.loads(status.text)
