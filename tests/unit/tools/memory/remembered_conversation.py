"""A conversation whose closed turns are in the memory index: each prompt and answer, added by hand."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace

from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.log.journal import Journal
from stepline.log.owned_conversations import OwnedConversations
from stepline.log.timeline_cache import History
from stepline.model.decision import Action
from stepline.model.ids import Lane, call_id, utc
from stepline.model.memory_row import MemoryRow, MemoryScope, RowKind
from stepline.ports.memory_index import MemoryIndex
from stepline.timeline.fold import Timeline
from stepline.tools.context import ReadCaps, ToolContext, ToolOutput
from stepline.tools.registry import run_tool
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

KINDS: dict[str, RowKind] = {
    "user.prompt": "prompt",
    "assistant.completion": "answer",
    "conv.working.summary": "summary",
    "react.note": "note",
}


class RememberedConversation(Conversation):
    """Turns in any conversation of any user; the tools are called in `LANE`."""

    def __init__(self) -> None:
        super().__init__()
        self.memory: MemoryIndex | None = self.ports.memory

    def turn(self, text: str, answer: str, *, lane: Lane = LANE, user: str = USER) -> str:
        """Have a turn, put its rows into the index, and return its id."""
        self.model.add(answered(answer))
        self.send(text, id=f"m{len(self.batches(lane))}", lane=lane, user=user)
        self.run()
        turn = self.folded(lane).turns[-1]
        self.remember(turn, lane=lane, user=user)
        return turn

    def remember(self, turn: str, *, lane: Lane = LANE, user: str = USER) -> None:
        blocks = self.folded(lane).turn_blocks(turn)
        rows = [
            self.row(turn, block.path, block.text, kind=KINDS[block.type], lane=lane)
            for block in blocks
            if block.type in KINDS
        ]
        self.add(*rows, user=user)

    def row(
        self, turn: str, path: str, text: str, *, kind: RowKind, lane: Lane = LANE, at: str = ""
    ) -> MemoryRow:
        at = at or utc(self.clock.now())
        return MemoryRow(
            conversation=lane.conversation, turn=turn, kind=kind, path=path, text=text, at=at, n=1
        )

    def add(self, *rows: MemoryRow, user: str = USER) -> None:
        index: Any = self.ports.memory
        assert isinstance(index, MemoryMemoryIndex)
        index.add(MemoryScope(tenant=LANE.tenant, project=LANE.project, user=user), rows)

    def folded(self, lane: Lane = LANE) -> Timeline:
        return History().load(Journal(self.ports, lane, "test"))

    def context(self, *, index: int = 0) -> ToolContext:
        timeline = self.folded()
        turn = timeline.turns[-1] if timeline.turns else "turn_none"
        return ToolContext(
            lane=LANE,
            turn=turn,
            call_id=call_id(turn, 0, index),
            iteration=0,
            ts=utc(self.clock.now()),
            artifacts=self.ports.artifacts,
            timeline=timeline,
            caps=ReadCaps(),
            memory=self.memory,
            conversations=OwnedConversations(self.ports, self.history, LANE, timeline.state.owner),
        )

    def call(self, tool_id: str, params: dict[str, Any]) -> ToolOutput:
        context = self.context()
        action = Action(call_id=context.call_id, tool_id=tool_id, params=params)
        return run_tool(self.agent.registry, action, context)

    def search(self, **params: Any) -> dict[str, Any]:
        """Return the result of a search that succeeds."""
        output = self.call("react.memsearch", params)
        assert output.status == "ok", output.error
        result: dict[str, Any] = json.loads(output.blocks[-1].text)
        return result

    def refused(self, **params: Any) -> str:
        """Return the code of a search that is refused."""
        output = self.call("react.memsearch", params)
        assert output.error is not None
        return str(output.error["code"])


def elsewhere(conversation: str, **fields: str) -> Lane:
    return replace(LANE, conversation=conversation, **fields)


def turns_of(result: dict[str, Any]) -> list[str]:
    return [hit["turn_id"] for hit in result["hits"]]


def codes_of(result: dict[str, Any]) -> list[str]:
    return [warning["code"] for warning in result.get("warnings", ())]
