"""The view: a timeline's blocks by logical path, as a tool resolves them.

Only the turn that a path names is derived, and only when somebody asks.
Source: docs/concepts/timeline.md#paths.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from stepline.model.batch import Batch
from stepline.model.block import Block
from stepline.model.entry import Dropped, Inbound, Resulted
from stepline.model.ids import TURN
from stepline.model.plan import Plan
from stepline.timeline.block import Group, derive_groups
from stepline.timeline.layout import RESULT_PREVIEW_CHARS, SILENT, SILENT_TYPES, UNPREVIEWED
from stepline.timeline.quote import BLOB_CHARS, has_blob, is_whole
from stepline.timeline.result import whole_blocks
from stepline.timeline.turn import Turn

_OF_TURN = re.compile(rf"[a-z]{{2}}:({TURN.pattern})\.(.+)", re.DOTALL)
_ATTEMPT = "assistant.completion.attempt"
_LATEST_PLAN: Final = "ar:plan.latest:"
_UNSEEN_TYPES = SILENT_TYPES | {
    "turn.header",
    "react.round.start",
    "conv.working.summary",
    "stage.suggested_followups",
}
"""Blocks without a text of their own in the timeline."""


class View:
    """Blocks by path. Built for one timeline; what was derived once is kept."""

    def __init__(
        self, history: tuple[Turn, ...], batches: tuple[Batch, ...], plans: Mapping[str, Plan]
    ) -> None:
        self._history = {turn.id: turn for turn in history}
        self._batches = batches
        self._plans = plans
        self._groups: dict[str, tuple[Group, ...]] = {}

    def blocks(self) -> tuple[Block, ...]:
        """Return every block of every turn, in the order of the log."""
        return tuple(block for turn in self._history for group in self.groups(turn) for block in group)

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for a turn that is not here."""
        return tuple(block for group in self.groups(turn) for block in group) if turn in self._history else ()

    def groups(self, turn: str) -> tuple[Group, ...]:
        """Return the blocks of a turn, entry by entry."""
        if turn not in self._groups:
            found = self._history[turn]
            batches = self._batches[found.opened - 1 : found.closed or None]
            prompts = [inbound for n in found.prompts for inbound in _inbound(self._batches[n - 1])]
            self._groups[turn] = derive_groups(found, batches, prompts, self._waited(found))
        return self._groups[turn]

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest blocks at a logical path; none if nothing stands there.

        An alias leads to what it stands for. A view of another path (`meta.source_path`) is found at its own
        path only.
        """
        if path.startswith(_LATEST_PLAN):
            plan = self._plans.get(path.removeprefix(_LATEST_PLAN))
            return self._newest(f"ar:{plan.last_turn_id}.react.plan.{plan.plan_id}") if plan else ()
        return self._newest(path) or self._alias(path)

    def visible(self, path: str) -> Block | None:
        """Return the newest block that shows this path's content to the model: the block itself or a view of it."""
        own = next((block for block in reversed(self.resolve(path)) if is_shown(block)), None)
        for batch in reversed(self._batches):
            for entry in reversed(batch.entries):
                if isinstance(entry, Resulted):
                    for block in reversed(whole_blocks(entry, batch.state.turn)):
                        if block == own or (_is_whole_view(block, path) and is_shown(block)):
                            return block
        return own

    def _newest(self, path: str) -> tuple[Block, ...]:
        for group in self._where(path):
            found = tuple(b for b in group if b.path == path and b.meta.get("source_path", path) == path)
            if found:
                return found
        return ()

    def _where(self, path: str) -> Iterator[Group]:
        """Yield the groups in which a path can stand, newest first."""
        named = _OF_TURN.fullmatch(path)
        if named and named[1] in self._history:
            yield from reversed(self.groups(named[1]))

    def _alias(self, path: str) -> tuple[Block, ...]:
        named = _OF_TURN.fullmatch(path)
        if named is None or named[1] not in self._history:
            return ()
        turn, name = named[1], named[2]
        everything = [block for group in self.groups(turn) for block in group]
        if name == "conv.working.summary":
            return tuple(b for b in everything if b.type == "conv.working.summary")[-1:]
        if name == "assistant.completion":
            return tuple(b for b in everything if b.type == _ATTEMPT)[-1:]
        if name.startswith("assistant.completion."):
            number = name.removeprefix("assistant.completion.")
            return self._newest(f"ar:{turn}.{_ATTEMPT}.{number}") if number.isdecimal() else ()
        return ()

    def _waited(self, turn: Turn) -> list[Inbound]:
        """Return the events that came after the turn before had ended, and opened none."""
        before = max((t.closed for t in self._history.values() if t.opened < turn.opened), default=0)
        batches = self._batches[before : turn.opened]
        settled = {entry.n for batch in batches for entry in batch.entries if isinstance(entry, Dropped)}
        settled.update(turn.prompts)
        return [inbound for batch in batches if batch.n not in settled for inbound in _inbound(batch)]


def is_shown(block: Block) -> bool:
    """Tell whether the timeline shows a block's whole text to the model."""
    if block.body is not None or block.type in _UNSEEN_TYPES or block.meta.get(SILENT):
        return False
    match block.type:
        case "react.tool.call":
            return is_whole(msgspec.json.decode(block.text)["params"])
        case "react.decision.raw":
            return bool(block.meta.get("interrupted"))
        case "react.tool.result" if block.tool_id not in UNPREVIEWED:
            return len(block.text) <= RESULT_PREVIEW_CHARS and not _encoded(block.text)
        case _:
            return not _encoded(block.text)


def _is_whole_view(block: Block, path: str) -> bool:
    return block.meta.get("source_path") == path and block.meta.get("whole") is not False


def _encoded(text: str) -> bool:
    return len(text) >= BLOB_CHARS and has_blob(text)


def _inbound(batch: Batch) -> list[Inbound]:
    return [entry for entry in batch.entries if isinstance(entry, Inbound)]
