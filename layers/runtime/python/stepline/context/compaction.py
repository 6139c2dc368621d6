"""The compaction ladder: steps that shorten a request over its budget; the gentlest sufficient one is applied.

    1. results that can be read again become stubs, in all turns but the newest ones
    2. fewer turns remain turns; older ones become cards or rows
    3. results of the open turn's settled rounds become stubs, too
    4. turns become a summary that a model writes, and the open turn's earlier rounds a checkpoint
    5. the same with texts by the runtime, if no model helps
    6. the remaining pieces are cut to fit

Pure. A step is tried on the timeline itself, as an entry that is never put, and the resulting timeline is
measured; a step that does not help is not proposed.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from stepline.context.estimate import Gauge, gauge
from stepline.context.rules import ContextRules
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.entry import Compacted, CompactionKind, CompactionTrigger, Pruned
from stepline.rendering.piece import Piece, byte_length, text_bytes
from stepline.timeline.compacted import FIXED, is_settled, omits_events, share
from stepline.timeline.fold import Timeline

MEMORY_BYTES: Final = 10_000
"""Maximum bytes of a summary of turns; less for a small budget."""
CHECKPOINT_BYTES: Final = 16_000
FRAME_BYTES: Final = 800
"""Slack for the layout's frame around either."""
KEPT_ROUNDS: Final = (8, 4, 2, 1)
WORTH_BYTES: Final = 2_000
"""Turns with fewer bytes than this are not worth a model call."""
READABLE_BYTES: Final = 800
"""Pieces cut shorter than this are useless: their rounds go to the checkpoint, too."""
CROWDED: Final = 0.8
"""The newest rounds stay whole if that leaves the request within this share of its budget."""


class Need(Value):
    """The required reduction of a request of `before_tokens`: to `ceiling_tokens`, ideally `goal_tokens`."""

    gauge: Gauge
    before_tokens: int
    goal_tokens: int
    ceiling_tokens: int
    max_tokens: int
    at: str
    trigger: CompactionTrigger


class Outline(Value):
    """A compaction without its texts: their positions and maximum lengths, and `entry` with all other fields.

    `first_kept` is the number of the first turn that stays; 0 if no turn goes.
    """

    entry: Compacted
    first_kept: int
    memory_bytes: int
    checkpoint_bytes: int


def measure_need(
    timeline: Timeline, rules: ContextRules, *, overhead_bytes: int, before_tokens: int, at: str, forced: bool
) -> Need:
    """Return the reduction for a request over its budget, or, if `forced`, refused by the provider.

    The parts outside the timeline count, but cannot be shortened: if the target is lower than half of the tokens that
    they leave, the timeline is reduced to that half.
    """
    scale = gauge(timeline, overhead_bytes)
    ceiling = min(rules.budget, before_tokens * 8 // 10) if forced else rules.budget
    overhead = scale.tokens(0)
    goal = max(min(rules.target_tokens, ceiling * 7 // 10), overhead + (ceiling - overhead) // 2)
    return Need(
        gauge=scale,
        before_tokens=before_tokens,
        goal_tokens=min(goal, ceiling),
        ceiling_tokens=ceiling,
        max_tokens=rules.budget,
        at=at,
        trigger="forced" if forced else "render_token_limit",
    )


def plan_room(timeline: Timeline, need: Need, rules: ContextRules) -> Pruned | Outline | None:
    """Return the gentlest step that reaches the goal, else the strongest; None if none shortens anything."""
    strongest: Pruned | None = None
    least = timeline.parts.size
    for entry in _prunings(timeline, need, rules):
        after = trial(timeline, entry).parts.size
        if after < least:
            least, strongest = after, replace(entry, after_tokens=need.gauge.tokens(after))
            if strongest.after_tokens <= need.goal_tokens:
                return strongest
    outline = plan_outline(timeline, need, rules)
    if outline and (strongest is None or outline.entry.after_tokens < strongest.after_tokens):
        return outline
    return strongest


def trial(timeline: Timeline, entry: Pruned | Compacted) -> Timeline:
    """Return the timeline as it would be with the entry."""
    n = timeline.n + 1
    return timeline.extended([Batch(n=n, by="", at=entry.at, entries=(entry,), state=timeline.state)])


def _prunings(timeline: Timeline, need: Need, rules: ContextRules) -> Iterator[Pruned]:
    keep, intact = max(1, rules.keep_turns), max(1, rules.intact_turns)
    settled = [start - 1 for start in round_starts(timeline)[-2:]]
    steps = [(keep, intact, 0), (keep, 1, 0), *((fewer, 1, 0) for fewer in range(keep - 1, 1, -1))]
    steps += [(min(2, keep), 1, n) for n in settled]
    steps += [(1, 1, n) for n in settled[-1:] or [0]]
    for kept, whole, upto in dict.fromkeys(steps):
        yield Pruned(
            turn=timeline.state.turn,
            at=need.at,
            cause="budget",
            keep=kept,
            intact=whole,
            settled=upto,
            before_tokens=need.before_tokens,
        )


def round_starts(timeline: Timeline) -> list[int]:
    """Return the batch numbers of the decisions of the open turn's rounds that are still shown as rounds."""
    newest = len(timeline.history)
    return [piece.n for piece in open_pieces(timeline, newest) if piece.kind == "round"]


def open_pieces(timeline: Timeline, newest: int) -> list[Piece]:
    """Return the pieces of the last turn, which has number `newest`."""
    found: list[Piece] = []
    for piece in reversed(timeline.pieces):
        if piece.turn != newest:
            break
        found.append(piece)
    return found[::-1]


def plan_outline(timeline: Timeline, need: Need, rules: ContextRules) -> Outline | None:
    """Return the gentlest compaction that reaches the goal; None if none shortens the request."""
    if timeline.current is None:
        return None
    draft = _Draft(timeline, need)
    found = None
    for cut, split in _cuts(timeline, rules):
        found = draft.outline(cut, split)
        if found.entry.after_tokens <= need.goal_tokens:
            return found
    if found and found.entry.after_tokens <= need.ceiling_tokens * CROWDED:
        return found
    last = draft.fitted()
    return last if last.entry.after_tokens < need.gauge.tokens(timeline.parts.size) else None


def _cuts(timeline: Timeline, rules: ContextRules) -> Iterator[tuple[int, int]]:
    """Yield the first turn to keep and the last batch of the open turn to compact, the gentlest cut first."""
    newest = len(timeline.history)
    first = max(2, newest + 1 - max(1, rules.keep_turns))
    worth = [number for number in range(first, newest + 1) if _worth(timeline, number)]
    for number in worth:
        yield number, 0
    cut = newest if newest in worth else 0
    starts = round_starts(timeline)
    for kept in KEPT_ROUNDS:
        if kept < len(starts):
            yield cut, starts[-kept] - 1


def _worth(timeline: Timeline, first_kept: int) -> bool:
    return text_bytes(piece for piece in timeline.pieces if 0 < piece.turn < first_kept) >= WORTH_BYTES


class _Draft:
    """Outlines of one timeline, each tried with texts of the maximum length that it allows."""

    def __init__(self, timeline: Timeline, need: Need) -> None:
        self.timeline, self.need = timeline, need
        self.own = open_pieces(timeline, len(timeline.history))
        whole = need.gauge.room(need.ceiling_tokens)
        self.memory = min(MEMORY_BYTES, whole // 6)
        self.checkpoint = min(CHECKPOINT_BYTES, whole // 4)

    def outline(self, first_kept: int, split: int, room: int = 0) -> Outline:
        timeline, need = self.timeline, self.need
        turns = timeline.history
        split = split if any(is_settled(piece, split) for piece in self.own) else 0
        before = timeline.compaction.memory.turns if timeline.compaction.memory else 0
        covered = tuple(turn.id for turn in turns[before : max(0, first_kept - 1)])
        entry = Compacted(
            id=f"{timeline.state.turn}:{timeline.n + 1}",
            turn=timeline.state.turn,
            at=need.at,
            scope=_scope(first_kept, split),
            status="completed",
            trigger=need.trigger,
            cut=turns[first_kept - 1].opened if first_kept else 0,
            split=split,
            room=room,
            keeps_events=room > 0,
            turns=max(0, first_kept - 1),
            covered=covered,
            before_tokens=need.before_tokens,
            max_tokens=need.max_tokens,
        )
        after = need.gauge.tokens(trial(timeline, self._filled(entry)).parts.size)
        return Outline(
            entry=replace(entry, after_tokens=after),
            first_kept=first_kept,
            memory_bytes=self.memory if first_kept else 0,
            checkpoint_bytes=self.checkpoint if split else 0,
        )

    def fitted(self) -> Outline:
        """Return the outline that always fits: with the newest round, if enough of it can be shown."""
        newest = len(self.timeline.history)
        cut = newest if any(0 < piece.turn < newest for piece in self.timeline.pieces) else 0
        starts = round_starts(self.timeline)
        if starts:
            found = self._with_room(cut, starts[-1] - 1)
            if found is not None:
                return found
        return self._with_room(cut, self.timeline.n, least=0) or self.outline(cut, self.timeline.n)

    def _with_room(self, first_kept: int, split: int, least: int = READABLE_BYTES) -> Outline | None:
        """Return an outline with pieces cut to fit.

        None if they would be cut below `least` bytes, or would leave no room for an event of the open turn.
        """
        filled = self._filled(self.outline(first_kept, split).entry)
        pieces = trial(self.timeline, filled).pieces
        fixed = text_bytes(piece for piece in pieces if piece.kind in FIXED)
        whole, goal = (self.need.gauge.room(n) for n in (self.need.ceiling_tokens, self.need.goal_tokens))
        room = max(1, goal - fixed, (whole - fixed) // 2)
        sizes = [byte_length(piece.text) for piece in pieces if piece.kind not in FIXED]
        fits = share(sizes, room) >= min(least, max(sizes, default=0))
        crowded = least > 0 and omits_events(pieces, room)
        return self.outline(first_kept, split, room) if fits and not crowded else None

    def _filled(self, entry: Compacted) -> Compacted:
        return replace(
            entry,
            summary=_filler(self.memory + FRAME_BYTES) if entry.cut else "",
            checkpoint=_filler(self.checkpoint + FRAME_BYTES) if entry.split else "",
        )


def _scope(first_kept: int, split: int) -> CompactionKind:
    if first_kept and split:
        return "history_with_split_turn"
    return "history" if first_kept else "current_turn_prefix"


def _filler(size: int) -> str:
    return ("words " * (size // 6 + 1))[:size]
