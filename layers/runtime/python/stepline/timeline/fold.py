"""The fold: a conversation's log, batch by batch, becomes a timeline.

A timeline is a value. Extending one costs what the new batches cost, however long the log before them is, and
gives what folding the whole log at once would give. Nothing here looks at a clock or at anything but the log.
Source: docs/concepts/timeline.md.

The intake: what each entry of the log changes in a timeline, and the pieces it adds to what the model reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, assert_never

from msgspec.structs import replace

from stepline.model.batch import EMPTY, Batch, State
from stepline.model.block import Block
from stepline.model.entry import (
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Feedback,
    Hide,
    Inbound,
    Opened,
    Owner,
    Pruned,
    Reopened,
    Resulted,
    Started,
    Steered,
    TakenOver,
    Titled,
)
from stepline.model.ids import Lane
from stepline.model.plan import Plan
from stepline.model.source import Source
from stepline.model.usage import BustReason, Usage, sum_usages
from stepline.ports.model import Part
from stepline.rendering.inbound import event_place, prompt_places
from stepline.rendering.layout import STANDARD, Layout
from stepline.rendering.lazy_sequence import Strand
from stepline.rendering.piece import Piece, Shown
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.plan import contributed_plans
from stepline.rendering.quote import inline
from stepline.rendering.reduce import answer_to, hide, prune
from stepline.rendering.request_parts import Reading, first_change
from stepline.rendering.turn import NEVER_ASKED, Asked, Event, Turn, feedback_key, feedback_path, steered_path
from stepline.timeline.compacted import UNTOUCHED, Compaction, compact
from stepline.timeline.view import View

TITLE_CHARS: Final = 80
_OWN: Final = ("add", "old", "reading", "turn", "usages", "writer")
"""What an intake has and a timeline has not; everything else is named alike."""
CACHE_DEAD_S: Final = 360.0
"""So long after a decision no provider keeps the prompt any more: five minutes and some slack."""


class Intake:
    """A timeline in the making: its fields, open to change; each entry is taken in once and adds its pieces."""

    def __init__(self, old: Timeline) -> None:
        self.old = old
        self.title, self.asked, self.answer = old.title, old.asked, old.answer
        self.history = list(old.history)
        self.reading = Reading(
            old.pieces,
            old.sealed,
            old.ends,
            size=old.size,
            turn_part=old.turn_part,
            seen_part=old.seen_part,
            rewritten=old.rewritten,
        )
        self.add = self.reading.add
        self.plans, self.arrived, self.feedback = dict(old.plans), dict(old.arrived), dict(old.feedback)
        self.sources, self.cited = dict(old.sources), dict(old.cited)
        self.seen, self.waiting_results, self.attempts = old.seen, old.waiting_results, old.attempts
        self.pruned, self.fresh, self.incorporated = old.pruned, list(old.fresh), list(old.incorporated)
        self.compaction = old.compaction
        self.usages: list[Usage] = [old.usage]
        self.turn = old.current.id if old.current else ""
        self.writer = Writer(old.layout, self.turn, len(self.history))

    def take(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """Take batches in, in order; return the fields that the timeline now has."""
        for batch in batches:
            for entry in batch.entries:
                self.take_entry(batch, entry)
        made = {name: value for name, value in vars(self).items() if name not in _OWN}
        reading = self.reading
        return {
            **made,
            **{name: tuple(made[name]) for name in ("history", "fresh", "incorporated")},
            **{name: getattr(reading, name) for name in ("size", "turn_part", "seen_part", "rewritten")},
            "pieces": reading.pieces,
            "sealed": reading.parts(),
            "ends": tuple(reading.ends),
            "n": batches[-1].n,
            "state": batches[-1].state,
            "usage": sum_usages(self.usages),
            "batches": (*self.old.batches, *batches),
        }

    def take_entry(self, batch: Batch, entry: Entry) -> None:  # noqa: C901, PLR0912 - one branch a kind of entry
        """Take one entry in."""
        n = batch.n
        match entry:
            case Resulted():
                self.take_result(n, entry)
            case Decided():
                self.take_decision(batch, entry)
            case Inbound():
                self.take_event(n, entry)
            case Opened():
                self.take_opening(n, entry)
            case Closed():
                self.take_closing(n, entry)
            case Deferred():
                path = f"ar:{self.turn}.assistant.completion.attempt.{self.attempts}.outcome"
                text = self.writer.layout.outcome(entry, path, self.unseen(self.seen))
                self.add(self.writer.piece("outcome", n, text, path=path))
            case TakenOver():
                self.add(self.writer.piece("message", n, self.writer.layout.takeover()))
            case Dropped():
                self.arrived.pop(entry.n, None)
                self.withdraw(entry.n)
            case Steered():
                text = self.writer.layout.steered(entry)
                self.add(self.writer.piece("message", n, text, path=steered_path(entry)))
            case Pruned():
                self.take_pruning(n, entry)
            case Compacted():
                self.take_compaction(n, entry)
            case Titled():
                self.title = entry.title or self.title
                self.count(entry.usage)
            case Contributed():
                self.keep_plans(contributed_plans(entry))
                for piece in self.writer.contributed(n, entry):
                    self.add(piece)
            case Feedback():
                key = feedback_key(entry)
                self.feedback[key] = entry
                self.fresh = [*(old for old in self.fresh if old != key), key]
            case Compacting():
                self.compaction = self.compaction.begun(entry)
            case Owner() | Reopened() | Started():
                pass
            case _:
                assert_never(entry)

    def take_result(self, n: int, entry: Resulted) -> None:
        self.waiting_results -= 1
        if entry.plans:
            self.keep_plans(entry.plans)
        self.sources |= {row.sid: row for row in entry.sources}
        for piece in self.writer.result(n, entry, last=self.waiting_results == 0):
            self.add(piece)
        for overlay in entry.hides:
            self.take_hide(overlay)

    def take_event(self, n: int, entry: Inbound) -> None:
        event = self.arrived[n] = Event(n=n, inbound=entry)
        if self.turn:
            self.add_event(n, event)

    def add_event(self, n: int, event: Event) -> None:
        place = event_place(self.turn, event.inbound)
        self.arrived[event.n] = replace(event, path=place.path)
        self.add(self.writer.event(n, event.inbound, place))

    def withdraw(self, *admitted: int) -> None:
        """Take away events that no request has sent, as they are read elsewhere, or not at all."""
        self.reading.lift(lambda piece: piece.kind == "event" and piece.n in admitted)

    def take_opening(self, n: int, entry: Opened) -> None:
        self.withdraw(*entry.prompts)
        self.reading.seal(n)
        self.reading.open_turn()
        self.turn = entry.turn
        self.history.append(Turn(id=entry.turn, started_at=entry.at, opened=n, prompts=entry.prompts))
        self.writer = Writer(self.writer.layout, entry.turn, len(self.history))
        if self.asked.idle_s(entry.at) > CACHE_DEAD_S:
            pieces = self.with_feedback(self.reading.pieces)
            self.reading.replace(pieces, "feedback", self.newest, dead=True)
        self.waiting_results = self.attempts = 0
        self.answer = ""
        layout = self.writer.layout
        self.add(self.writer.piece("header", n, layout.opening(entry)))
        prompts = [self.arrived.pop(prompt) for prompt in entry.prompts]
        places = prompt_places(entry.turn, [event.inbound for event in prompts])
        for event, place in zip(prompts, places, strict=True):
            self.title = self.title or _clip(event.inbound.text)
            self.add(self.writer.prompt(n, event.inbound, place, event.path))
        waited = [event for event in self.arrived.values() if not event.path]
        self.arrived = {}  # every other event was settled, or stands in the turn before, where this one reads it
        for event in waited:
            self.add_event(n, event)

    def take_decision(self, batch: Batch, entry: Decided) -> None:
        rendered = batch.state.rendered
        rewritten, size = bool(self.reading.rewritten), self.reading.send(rendered)
        self.asked = self.asked.after(entry, batch.at, size=size, rewritten=rewritten)
        self.seen, self.incorporated = rendered, []
        self.count(entry.usage)
        if entry.plan is not None:
            self.keep_plans((entry.plan,))
        self.cited |= {cited.sid: batch.n for cited in entry.citations}
        self.waiting_results = len(entry.actions) if entry.accepted else 0
        if entry.accepted and entry.answer:
            self.attempts, self.answer = self.attempts + 1, entry.answer
        meanwhile = self.reading.lift(lambda piece: piece.kind == "event")
        unseen = self.unseen(rendered)
        for piece in self.writer.decision(batch.n, entry, self.attempts, unseen, meanwhile):
            self.add(piece)

    def take_closing(self, n: int, entry: Closed) -> None:
        turn = self.history[-1]
        self.history[-1] = replace(turn, closed=n, outcome=entry.outcome, reason=entry.reason)
        if self.waiting_results > 0:
            self.add(self.writer.piece("end", n, self.writer.layout.end()))
        if entry.answer and entry.answer != self.answer:
            path = f"ar:{entry.turn}.assistant.completion"
            text = self.writer.layout.answer(entry.answer, path, self.attempts + 1)
            self.add(self.writer.piece("answer", n, text, entry.answer, path=path))
        plans = [plan for plan in self.plans.values() if plan.is_open() and plan.last_turn_id == entry.turn]
        path = f"ar:{entry.turn}.react.turn.finalize"
        self.add(self.writer.piece("closing", n, self.writer.layout.closing(entry, plans), path=path))
        self.turn, self.waiting_results = "", 0
        self.compaction = self.compaction.turned()

    def take_hide(self, overlay: Hide) -> None:
        self.reading.replace(hide(self.reading.pieces, overlay, self.writer.layout), "hide", self.newest)

    def take_pruning(self, n: int, entry: Pruned) -> None:
        layout, dead, old = self.writer.layout, entry.cause == "ttl", self.reading.pieces
        made: Sequence[Piece] = prune(old, entry, len(self.history), layout)
        first = first_change(old, made)
        if dead or first < len(old):
            made = self.with_feedback(made, since=0 if dead else old[first].turn)
        self.reading.replace(made, "prune", self.newest, dead=dead)
        if self.pruned != entry.turn:
            self.pruned = entry.turn
            path = f"ar:{entry.turn}.system.message.cache_pruned"
            self.add(self.writer.piece("message", n, layout.pruned(entry), path=path))

    def take_compaction(self, n: int, entry: Compacted) -> None:
        self.count(entry.usage)
        self.compaction = self.compaction.ended(entry)
        if entry.status != "completed":
            return
        made: Sequence[Piece] = compact(
            self.reading.pieces,
            n,
            entry,
            first_kept=next((i for i, turn in enumerate(self.history, 1) if turn.opened == entry.cut), 0),
            turns=self.history,
            plans=[plan for plan in self.plans.values() if not (plan.current and plan.is_open())],
            layout=self.writer.layout,
        )
        self.reading.replace(self.with_feedback(made) if entry.cut else made, "compaction", self.newest)

    def with_feedback(self, pieces: Sequence[Piece], *, since: int = 0) -> Sequence[Piece]:
        """Return the pieces with what users think of turns behind those turns; no cache holds turn `since` and later ones.

        Of earlier ones it waits; there a change would cost more than it has to.
        """
        numbers = {turn.id: number for number, turn in enumerate(self.history, 1)} if self.fresh else {}
        ripe = [key for key in self.fresh if since <= numbers.get(self.feedback[key].turn, since)]
        for key in ripe:
            entry = self.feedback[key]
            path = feedback_path(entry.turn)
            text = self.writer.layout.feedback(entry, path)
            pieces = answer_to(pieces, entry, path, text, numbers.get(entry.turn, 0))
        self.incorporated += ripe
        self.fresh = [key for key in self.fresh if key not in ripe]
        return pieces

    @property
    def newest(self) -> int:
        """The number of the open turn, or of the one that will open next."""
        return len(self.history) if self.turn else len(self.history) + 1

    def count(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usages.append(usage)

    def unseen(self, rendered: int) -> Sequence[str]:
        """Return the paths of the events after what was rendered."""
        if not self.arrived or next(reversed(self.arrived)) <= rendered:  # the newest event stands last
            return ()
        return [event.path for event in self.arrived.values() if event.n > rendered]

    def keep_plans(self, plans: Iterable[Plan]) -> None:
        for plan in plans:
            self.plans.pop(plan.plan_id, None)
            self.plans[plan.plan_id] = plan


def _clip(text: str) -> str:
    line = inline(text)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


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
        return replaced(self, **Intake(self).take(new))

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
        return replaced(self, base=0, batches=self.since(0)) if self.base else self

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
