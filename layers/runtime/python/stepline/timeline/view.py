"""The view: a timeline's blocks by logical path, as a tool resolves them.

Only the turn that a path names is derived, and only when somebody asks.
Source: docs/concepts/timeline.md#paths.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import msgspec

from stepline.model.batch import Batch
from stepline.model.block import Block
from stepline.model.entry import Decided, Dropped, Entry, Feedback, Inbound, Resulted
from stepline.model.ids import TURN, Lane
from stepline.model.plan import Plan
from stepline.model.source import Source
from stepline.timeline.block import Group, derive_groups
from stepline.timeline.feedback import feedback_block
from stepline.timeline.index import index_path, render_turn_index
from stepline.timeline.plan import plan_history
from stepline.timeline.turn import Turn
from stepline.timeline.working_summary import summarize_turn

_OF_TURN = re.compile(rf"[a-z]{{2}}:({TURN.pattern})\.(.+)", re.DOTALL)
_ATTEMPT = "assistant.completion.attempt"
_LATEST_PLAN: Final = "ar:plan.latest:"
LAST: Final = 10**12
"""Beyond every batch."""


class View:
    """Blocks by path. Built for one timeline; what was derived once is kept."""

    def __init__(
        self,
        history: tuple[Turn, ...],
        since: Callable[[int, int], Sequence[Batch]],
        plans: Mapping[str, Plan],
        sources: Mapping[int, Source],
        feedback: Mapping[str, Feedback],
        *,
        lane: Lane,
    ) -> None:
        self._lane = lane
        self._history = {turn.id: turn for turn in history}
        self._ended = {turn.id: last.closed for last, turn in pairwise(history)}
        self._since = since
        self._plans, self._sources, self._feedback = plans, sources, feedback
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
            before = self._ended.get(turn, 0)
            first = min([before, *(n - 1 for n in found.prompts)])
            batches = self._since(first, found.closed or LAST)
            by_n = {batch.n: batch for batch in batches}
            prompts = [inbound for n in found.prompts for inbound in _inbound(by_n[n])]
            waited = _waited([batch for batch in batches if before < batch.n <= found.opened], found)
            own = [batch for batch in batches if batch.n >= found.opened]
            groups = derive_groups(self._lane, found, own, prompts, waited)
            said = [entry for entry in self._feedback.values() if entry.turn == turn and not entry.withdrawn]
            self._groups[turn] = (*groups, tuple(map(feedback_block, said))) if said else groups
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
        kind, _, number = name.rpartition(".")
        return (
            self._numbered(turn, kind, int(number)) if number.isdecimal() else self._plain(turn, name, path)
        )

    def _plain(self, turn: str, name: str, path: str) -> tuple[Block, ...]:
        """Return the newest of what stands at paths of its own, or what is made when somebody asks."""
        match name:
            case "react.turn.index":
                return (self._index(self._history[turn]),)
            case "react.plan.history":
                return (self._plan_history(path, self._history[turn]),)
            case "conv.working.summary":
                return self._last(turn, name) or self._summary(turn)
            case "assistant.completion":
                return self._last(turn, _ATTEMPT)
            case _:
                return ()

    def _numbered(self, turn: str, kind: str, number: int) -> tuple[Block, ...]:
        """Return one of several, counted from 1."""
        match kind:
            case "assistant.completion":
                return self._newest(f"ar:{turn}.{_ATTEMPT}.{number}")
            case "conv.range.summary" if number:
                return tuple(b for b in self.turn_blocks(turn) if b.type == kind)[number - 1 : number]
            case _:
                return ()

    def _last(self, turn: str, kind: str) -> tuple[Block, ...]:
        return tuple(block for block in self.turn_blocks(turn) if block.type == kind)[-1:]

    def _plan_history(self, path: str, turn: Turn) -> Block:
        facts = msgspec.json.encode(plan_history(self._plans.values())).decode()
        return _made("react.plan.history", path, facts, turn, {})

    def _summary(self, turn: str) -> tuple[Block, ...]:
        """Return what stands in for the summary that a turn's model did not write; none while the turn runs."""
        found = self._history[turn]
        if not found.closed:
            return ()
        path, meta = f"ws:{turn}.conv.working.summary", {"kind": "working_summary", "created_by": "runtime"}
        text = summarize_turn(self.turn_blocks(turn))
        return (_made("conv.working.summary", path, text, found, meta),)

    def _index(self, turn: Turn) -> Block:
        entries = [e for batch in self._since(turn.opened - 1, turn.closed or LAST) for e in batch.entries]
        statuses = {entry.call_id: entry.status for entry in entries if isinstance(entry, Resulted)}
        wanted = {sid for entry in entries for sid in _sids(entry)}
        sources = [row for row in self._sources.values() if row.sid in wanted or row.turn_id == turn.id]
        text = render_turn_index(turn, self.turn_blocks(turn.id), sources, statuses)
        meta = {"artifact_kind": "react.turn.index", "generated": "on_demand", "source_turn_id": turn.id}
        return _made("react.turn.index", index_path(turn.id), text, turn, meta)


def _made(kind: str, path: str, text: str, turn: Turn, meta: dict[str, str]) -> Block:
    """Return a block that nobody stored."""
    return Block(
        type=kind, author="react", ts=turn.started_at, turn_id=turn.id, path=path, text=text, meta=dict(meta)
    )


def _sids(entry: Entry) -> list[int]:
    """Return the sources that an entry brings or cites."""
    match entry:
        case Resulted():
            return [source.sid for source in entry.sources]
        case Decided():
            return [source.sid for source in entry.citations]
        case _:
            return []


def _waited(batches: Sequence[Batch], turn: Turn) -> list[Inbound]:
    """Return the events that came after the turn before had ended, and opened none."""
    settled = {entry.n for batch in batches for entry in batch.entries if isinstance(entry, Dropped)}
    settled.update(turn.prompts)
    return [inbound for batch in batches if batch.n not in settled for inbound in _inbound(batch)]


def _inbound(batch: Batch) -> list[Inbound]:
    return [entry for entry in batch.entries if isinstance(entry, Inbound)]
