"""The fold: a conversation's log, batch by batch, becomes a timeline.

A timeline is a value. Extending one costs what the new batches cost, however long the log before them is, and
gives what folding the whole log at once would give. Nothing here looks at a clock or at anything but the log.
Source: docs/concepts/timeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, TypeAlias

from stepline.model.batch import EMPTY, Batch, State
from stepline.model.block import Block
from stepline.model.entry import Entry, Feedback
from stepline.model.ids import Lane
from stepline.model.plan import Plan
from stepline.model.source import Source
from stepline.model.usage import BustReason, Usage
from stepline.ports.model import Part
from stepline.timeline.compacted import UNTOUCHED, Compaction
from stepline.timeline.intake import Intake
from stepline.timeline.piece import Piece, Shown
from stepline.timeline.render.layout import STANDARD, Layout
from stepline.timeline.strand import Strand
from stepline.timeline.turn import NEVER_ASKED, Asked, Event, Turn
from stepline.timeline.view import View

NO_USAGE = Usage()

Loader: TypeAlias = Callable[[int, int], Sequence[Batch]]
"""Reads the batches of a lane after a number, up to and with another one."""


@dataclass(frozen=True, kw_only=True)
class Timeline:
    """Everything the log says, up to batch `n`.

    What the model reads is kept as `pieces`, in `layout`: `sealed` are the parts that earlier requests ended, or that
    ended with a turn, `ends` how many pieces there are up to each. `turn_part` counts the sealed parts before the
    current turn, `seen_part` those of the request before, or the first of them if the others changed since.
    `size` are the bytes of all of it; `asked` is the newest request, `rewritten` why what it sent is not what would
    be sent now. `pruned` is the newest turn in which turns were shortened, `compaction` how the newest compactions
    stand. `plans` holds the newest snapshot of each, the one that changed last at the end. `sources` is the pool by sid, `cited` the batch of the decision that cited a source last, `feedback`
    the newest of each turn and origin, and `fresh` which of it no cold cache let us put into its turn so far.

    `batches` are those after `base`; `load` reads the ones before, from and up to a number, if somebody asks.
    """

    lane: Lane
    n: int = 0
    state: State = EMPTY.state
    title: str = ""
    usage: Usage = NO_USAGE
    history: tuple[Turn, ...] = ()
    plans: Mapping[str, Plan] = field(default_factory=dict)
    sources: Mapping[int, Source] = field(default_factory=dict)
    cited: Mapping[int, int] = field(default_factory=dict)
    arrived: Mapping[int, Event] = field(default_factory=dict)
    feedback: Mapping[str, Feedback] = field(default_factory=dict)
    fresh: tuple[str, ...] = ()
    incorporated: tuple[str, ...] = ()
    layout: Layout = STANDARD
    pieces: Strand[Piece] = field(default_factory=Strand)
    sealed: Strand[Part] = field(default_factory=Strand)
    ends: tuple[int, ...] = ()
    size: int = 0
    turn_part: int = 0
    seen_part: int = 0
    asked: Asked = NEVER_ASKED
    rewritten: BustReason | Literal[""] = ""
    pruned: str = ""
    compaction: Compaction = UNTOUCHED
    base: int = 0
    batches: tuple[Batch, ...] = ()
    load: Loader | None = field(default=None, compare=False, repr=False)
    seen: int = 0
    waiting_results: int = 0
    attempts: int = 0
    answer: str = ""

    @classmethod
    def empty(cls, lane: Lane, *, layout: Layout = STANDARD) -> Timeline:
        """Return the timeline of a conversation in which nothing was said yet."""
        return cls(lane=lane, layout=layout)

    def extended(self, batches: Iterable[Batch]) -> Timeline:
        """Return the timeline with the batches after this one's n; those up to it are passed over.

        Raises ValueError if a batch is missing in between.
        """
        new = [batch for batch in batches if batch.n > self.n]
        if not new:
            return self
        if [batch.n for batch in new] != list(range(self.n + 1, self.n + 1 + len(new))):
            raise ValueError(f"the batches after {self.n} are not dense")
        return replace(self, **Intake(self).take(new))

    @property
    def current(self) -> Turn | None:
        """The turn that is open now."""
        return self.history[-1] if self.history and not self.history[-1].closed else None

    @property
    def turns(self) -> tuple[str, ...]:
        """The ids of all turns, oldest first."""
        return tuple(turn.id for turn in self.history)

    @property
    def entries(self) -> tuple[tuple[int, Entry], ...]:
        """The entries from the batch that opened the current turn on, each with its batch number."""
        turn = self.current
        batches = self.since(turn.opened - 1) if turn else ()
        return tuple((batch.n, entry) for batch in batches for entry in batch.entries)

    def since(self, n: int, upto: int | None = None) -> tuple[Batch, ...]:
        """Return the batches after n (up to and with `upto`), read anew if they are not at hand.

        Raises LookupError if they cannot be read here.
        """
        last = self.n if upto is None else min(upto, self.n)
        own = self.batches[max(0, n - self.base) : max(0, last - self.base)]
        if n >= min(self.base, last):
            return own
        if self.load is None:
            raise LookupError(f"batches after {n} are not at hand")
        return (*self.load(n, min(last, self.base)), *own)

    def whole(self) -> Timeline:
        """Return this timeline with every batch at hand, for who looks at all turns. Raises LookupError."""
        return replace(self, base=0, batches=self.since(0)) if self.base else self

    @property
    def tail(self) -> Batch:
        """The newest batch."""
        found = self.since(max(0, self.n - 1))
        return found[-1] if found else EMPTY

    def events_since(self, n: int) -> tuple[Event, ...]:
        """Return the inbound events after batch n that neither opened a turn nor were dropped."""
        return tuple(event for event in self.arrived.values() if event.n > n)

    @cached_property
    def view(self) -> View:
        """The blocks of this timeline by logical path, derived when asked."""
        return View(self.history, self.since, self.plans, self.sources, self.feedback, lane=self.lane)

    def blocks(self) -> tuple[Block, ...]:
        """Return every block of every turn, in the order of the log."""
        return self.whole().view.blocks()

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for a turn that is not here."""
        return self.view.turn_blocks(turn)

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest blocks that stand at a logical path; none if nothing does."""
        return self.view.resolve(path)

    def visible(self, path: str) -> Shown | None:
        """Return where the model sees the whole of a path now, the newest place; None if nowhere."""
        for piece in reversed(self.pieces):
            if piece.path == path and piece.shows and piece.text:
                turn = self.history[piece.turn - 1].id if piece.turn else ""
                return Shown(path=path, n=piece.n, turn_id=turn, call_id=piece.call, digest=piece.shows)
        return None
