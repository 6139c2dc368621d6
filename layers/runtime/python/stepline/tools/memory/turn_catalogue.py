"""The catalogue of closed turns: by number, by time, or all of them, without the index.

A turn's number counts the closed turns of the scope that began within the window, from 1, oldest first.
Source: docs/reference/tools.md#reactmemsearch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from stepline.model.base import Value
from stepline.model.block import Block
from stepline.rendering.turn_facts import Turn
from stepline.timeline.view import index_path
from stepline.tools.context import Resolver, ToolContext
from stepline.tools.memory.recall import Scope, Window, excerpt, path_from

OTHERS_MAX: Final = 20
"""The other conversations that one call looks at, the last used ones."""
ABOUT_CHARS: Final = 800
NOTES_SHOWN: Final = 3
ATTACHMENTS_SHOWN: Final = 5

_USER: Final = ("user.prompt", "user.followup", "user.steer")


class Listed(Value):
    """A turn of the catalogue and its number."""

    conversation: str
    turn: Turn
    ordinal: int


class Catalogue:
    """The closed turns of a scope, oldest first. `complete`: no conversation of the scope was left out."""

    def __init__(self, context: ToolContext, scope: Scope, window: Window) -> None:
        """List them. Raises DependencyError."""
        self._context = context
        self._timelines: dict[str, Resolver] = {context.lane.conversation: context.timeline}
        self.complete = True
        if scope == "user" and context.conversations is not None:
            names, more = context.conversations.newest(OTHERS_MAX)
            found = {name: context.conversations.find(name) for name in names}
            self._timelines |= {name: timeline for name, timeline in found.items() if timeline is not None}
            self.complete = not more
        turns = [
            (turn.started_at, conversation, turn)
            for conversation, timeline in self._timelines.items()
            for turn in timeline.history
            if turn.closed and window.holds(turn.started_at)
        ]
        turns.sort(key=lambda one: (one[0], one[1], one[2].opened))
        self.turns = [
            Listed(conversation=conversation, turn=turn, ordinal=ordinal)
            for ordinal, (_, conversation, turn) in enumerate(turns, 1)
        ]

    def row(self, listed: Listed, targets: Collection[str], chars: int) -> dict[str, Any]:
        """Return the row of a turn, with snippets of at most so many characters."""
        turn, conversation = listed.turn, listed.conversation
        timeline, here = self._timelines[conversation], self._context

        def path(own: str) -> str:
            return path_from(here, conversation, own, turn.id)

        blocks = timeline.turn_blocks(turn.id)
        summary = timeline.resolve(f"ws:{turn.id}.conv.working.summary")
        elsewhere = {} if conversation == here.lane.conversation else {"conversation_id": conversation}
        ended = next((block.ts for block in reversed(blocks) if block.type == "react.exit"), "")
        return {
            "turn_id": turn.id,
            **elsewhere,
            "ordinal": listed.ordinal,
            "turn_index_path": path(index_path(turn.id)),
            "working_summary_path": path(f"ws:{turn.id}.conv.working.summary"),
            "started_at": turn.started_at,
            "ended_at": ended,
            "outcome": turn.outcome,
            "about": excerpt(summary[-1].text, "", ABOUT_CHARS) if summary else "",
            "matched_via_role": "turn_catalog",
            "snippets": [
                _snippet(role, block, path(block.path), chars)
                for role, block in _chosen(blocks, summary, targets)
            ],
        }


def _snippet(role: str, block: Block, path: str, chars: int) -> dict[str, Any]:
    said = {"path": path, "role": role, "ts": block.ts}
    told = "" if role == "summary" else excerpt(block.text, "", chars)  # a summary is told by `about`
    return {**said, "text": told} if told else said


def _chosen(
    blocks: Collection[Block], summary: Collection[Block], targets: Collection[str]
) -> Iterator[tuple[str, Block]]:
    """Yield what the targets name of a turn: its summary, the first message, the last answer, some files and notes."""
    newest = {block.path: block for block in blocks if block.path}
    of: Mapping[str, list[Block]] = {
        "summary": list(summary)[-1:],
        "user": [block for block in blocks if block.type in _USER][:1],
        "assistant": [block for block in blocks if block.type == "assistant.completion"][-1:],
        "attachment": [block for block in newest.values() if block.type == "user.attachment"][
            :ATTACHMENTS_SHOWN
        ],
        "notes": [block for block in newest.values() if block.type == "react.note"][-NOTES_SHOWN:],
        "plans": [block for block in newest.values() if block.type == "react.plan"][-1:],
    }
    for role, chosen in of.items():
        if role in targets:
            yield from ((role, block) for block in chosen)
