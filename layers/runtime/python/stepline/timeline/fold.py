"""The fold: read a conversation's log, batch by batch, into a timeline.

A timeline is a value. Extending one costs only the new batches, however long the log before them is, and
gives the same as folding the whole log at once. The fold is a function of the log alone; it reads no clock.
Each kind of entry has one reducer: it changes the state, and adds the pieces that the model reads.
Source: docs/concepts/timeline.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from functools import cached_property
from typing import Any, Final, TypeAlias

from msgspec.structs import replace

from stepline.model.batch import EMPTY, Batch, State
from stepline.model.block import Block
from stepline.model.decision import LastingCall
from stepline.model.entry import (
    TITLE_CHARS,
    ApprovalAnswered,
    ApprovalRequested,
    Begun,
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Deleted,
    Dropped,
    Entry,
    Feedback,
    Forked,
    Imported,
    Importing,
    Inbound,
    Listed,
    Opened,
    Owner,
    Pruned,
    Queued,
    Reopened,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
    Titled,
    whole_answer,
)
from stepline.model.ids import UTC_ZONE, Lane
from stepline.model.plan_steps import Plan
from stepline.model.source import Source
from stepline.model.usage import Usage, sum_usages
from stepline.model.visible_text import shorten
from stepline.ports.mcp.mcp_server import CALL_REFUSED
from stepline.rendering.piece import Attached, Piece, Shown
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.plan_text import contributed_plans
from stepline.rendering.quote import inline
from stepline.rendering.reduce import answer_to, hide, prune, shortened
from stepline.rendering.request_parts import RequestParts, Strand, first_change
from stepline.rendering.text_form import STANDARD, TextForm
from stepline.rendering.turn_facts import (
    NEVER_ASKED,
    AdmittedEvent,
    RequestFacts,
    Turn,
    event_place,
    feedback_key,
    feedback_path,
    prompt_places,
    steered_path,
)
from stepline.timeline.compacted import UNTOUCHED, Compactions, compact
from stepline.timeline.view import TimelineView
from stepline.timeline.workspace import touches_workspace

OPEN: Final = (
    *("history", "plans", "sources", "cited", "arrived", "feedback", "fresh", "incorporated", "parts"),
)
"""Mutable fields of a timeline: `extended` copies them."""
CACHE_SLACK_S: Final = 60.0
"""Seconds after its lifetime until a provider's cache is certainly gone."""


NO_USAGE = Usage()

Loader: TypeAlias = Callable[[int, int], Sequence[Batch]]
"""Reads the batches of a lane after one number, up to and including another."""


@dataclass(kw_only=True)
class Timeline:
    """The folded log up to batch `n`. A value: only `extended` changes one, the copy that it returns.

    The pieces that the model reads are kept as `parts`, in `form`. `asked` is the newest request, `pruned`
    the newest turn in which turns were shortened, `compaction` the state of compaction. `plans` holds the
    newest snapshot of each plan, the last changed at the end. `sources` is the pool by sid, `cited` the batch
    of each source's last citation, `feedback` the newest of each turn and origin, `fresh` the feedback not
    yet added to its turn, which requires a cold cache, and `incorporated` the feedback put there since the
    newest decision. `timezone` is the last one from the user's client. `has_files`: something in the open turn
    concerned its `files/`, or files of other turns. `listed` names the tools of the agent's MCP servers; `relisted`: they
    differ from those of the newest request.

    `allowed` are the tools of which a person approved a call, sorted. `kept_effects` are the calls that the origins of a
    fork made after its points.

    `batches` are those after `base`; `load` reads earlier ones on demand, after one number and up to
    another.
    """

    lane: Lane
    n: int = 0
    state: State = EMPTY.state
    title: str = ""
    usage: Usage = NO_USAGE
    history: list[Turn] = field(default_factory=list)
    plans: dict[str, Plan] = field(default_factory=dict)
    sources: dict[int, Source] = field(default_factory=dict)
    cited: dict[int, int] = field(default_factory=dict)
    arrived: dict[int, AdmittedEvent] = field(default_factory=dict)
    feedback: dict[str, Feedback] = field(default_factory=dict)
    fresh: list[str] = field(default_factory=list)
    incorporated: list[str] = field(default_factory=list)
    form: TextForm = STANDARD
    parts: RequestParts = field(default_factory=RequestParts)
    asked: RequestFacts = NEVER_ASKED
    pruned: str = ""
    compaction: Compactions = UNTOUCHED
    base: int = 0
    batches: tuple[Batch, ...] = ()
    load: Loader | None = field(default=None, compare=False, repr=False)
    seen: int = 0
    waiting_results: int = 0
    attempts: int = 0
    answer: str = ""
    timezone: str = UTC_ZONE
    has_files: bool = False
    listed: Listed | None = None
    relisted: bool = False
    allowed: tuple[str, ...] = ()
    kept_effects: tuple[LastingCall, ...] = ()

    @classmethod
    def empty(cls, lane: Lane, *, form: TextForm = STANDARD) -> Timeline:
        """Return the timeline of an empty conversation."""
        return cls(lane=lane, form=form)

    def extended(self, batches: Iterable[Batch]) -> Timeline:
        """Return the timeline with the batches after this one's n; earlier ones are skipped.

        Raises ValueError if a batch is missing in between.
        """
        new = [batch for batch in batches if batch.n > self.n]
        if not new:
            return self
        if [batch.n for batch in new] != list(range(self.n + 1, self.n + 1 + len(new))):
            raise ValueError(f"the batches after {self.n} are not dense")
        after = replaced(
            self,
            **{name: getattr(self, name).copy() for name in OPEN},
            n=new[-1].n,
            state=new[-1].state,
            batches=(*self.batches, *new),
            usage=sum_usages([self.usage, *_usages(new)]),
        )
        for batch in new:
            _fold_batch(after, batch)
        after.parts.settle()
        return after

    @property
    def current(self) -> Turn | None:
        """The open turn."""
        return self.history[-1] if self.history and not self.history[-1].closed else None

    @property
    def newest(self) -> int:
        """The number of the open turn, or of the next one."""
        return len(self.history) if self.current else len(self.history) + 1

    @property
    def writer(self) -> Writer:
        """The writer of the open turn's pieces, or of none."""
        turn = self.current
        return Writer(self.form, turn.id if turn else "", len(self.history))

    @property
    def pieces(self) -> Strand[Piece]:
        """The pieces that the model reads, in order."""
        return self.parts.pieces

    @property
    def media(self) -> Sequence[Attached]:
        """The pictures and PDFs that they attached, in order; a request has the newest."""
        return self.parts.media

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
        """Return the batches after n (up to and including `upto`); those not loaded are read.

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
        """Return this timeline with every batch loaded, for reading all turns. Raises LookupError."""
        return replaced(self, base=0, batches=self.since(0)) if self.base else self

    @property
    def tail(self) -> Batch:
        """The newest batch."""
        found = self.since(max(0, self.n - 1))
        return found[-1] if found else EMPTY

    def events_since(self, n: int) -> tuple[AdmittedEvent, ...]:
        """Return the inbound events after batch n that neither opened a turn nor were dropped."""
        return tuple(event for event in self.arrived.values() if event.n > n)

    @cached_property
    def view(self) -> TimelineView:
        """The blocks of this timeline by logical path, derived on demand."""
        return TimelineView(self.history, self.since, self.plans, self.sources, self.feedback, lane=self.lane)

    def blocks(self) -> tuple[Block, ...]:
        """Return every block of every turn, in the order of the log."""
        return self.whole().view.blocks()

    @property
    def history_blocks(self) -> tuple[Block, ...]:
        """The blocks of every closed turn. Reads the batches that are not loaded."""
        view, open_turn = self.whole().view, self.current
        closed = [turn.id for turn in self.history if turn != open_turn]
        return tuple(block for turn in closed for block in view.turn_blocks(turn))

    @property
    def current_turn_blocks(self) -> tuple[Block, ...]:
        """The blocks with which the open turn began: its header, and the events that opened it or were queued for it."""
        return self.view.groups(self.current.id)[0] if self.current else ()

    @property
    def event_blocks(self) -> tuple[Block, ...]:
        """The blocks of the open turn since it began, in the order of the log."""
        groups = self.view.groups(self.current.id)[1:] if self.current else ()
        return tuple(block for group in groups for block in group)

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for an unknown turn."""
        return self.view.turn_blocks(turn)

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest blocks at a logical path; none if there are none."""
        return self.view.resolve(path)

    def visible(self, path: str) -> Shown | None:
        """Return the newest position at which the model sees a whole path now; None if it does not."""
        for piece in reversed(self.pieces):
            if piece.path == path and piece.shows and piece.text:
                turn = self.history[piece.turn - 1].id if piece.turn else ""
                return Shown(path=path, n=piece.n, turn_id=turn, call_id=piece.call, digest=piece.shows)
        return None


def _fold_batch(timeline: Timeline, batch: Batch) -> None:
    """Fold a batch into a timeline that is being extended."""
    for entry in batch.entries:
        reduce_entry = REDUCERS[type(entry)]
        if reduce_entry is not None:
            reduce_entry(timeline, batch, entry)


def _reduce_inbound(timeline: Timeline, batch: Batch, entry: Inbound) -> None:
    event = timeline.arrived[batch.n] = AdmittedEvent(n=batch.n, inbound=entry)
    if entry.timezone and not entry.source:
        timeline.timezone = entry.timezone
    if timeline.current:
        _add_event(timeline, batch.n, event)


def _reduce_opened(timeline: Timeline, batch: Batch, entry: Opened) -> None:
    n, parts = batch.n, timeline.parts
    _withdraw(timeline, *entry.prompts)
    parts.seal(n)
    parts.open_turn()
    timeline.history.append(Turn(id=entry.turn, started_at=entry.at, opened=n, prompts=entry.prompts))
    if timeline.asked.idle_s(entry.at) > timeline.asked.lives_s + CACHE_SLACK_S:
        parts.replace(_with_feedback(timeline, parts.pieces), "feedback", timeline.newest, dead=True)
    timeline.waiting_results = timeline.attempts = 0
    timeline.answer, timeline.has_files = "", False
    write = timeline.writer
    parts.add(write.piece("header", n, timeline.form.opening(entry)))
    prompts = [timeline.arrived.pop(prompt) for prompt in entry.prompts]
    places = prompt_places(entry.turn, [event.inbound for event in prompts])
    for event, place in zip(prompts, places, strict=True):
        timeline.title = timeline.title or shorten(inline(event.inbound.text), TITLE_CHARS)
        parts.add(write.prompt(n, event.inbound, place, event.path))
    waited = [event for event in timeline.arrived.values() if not event.path]
    timeline.arrived.clear()  # every other event was settled, or is a piece of the previous turn
    for event in waited:
        _add_event(timeline, n, event)


def _reduce_decided(timeline: Timeline, batch: Batch, entry: Decided) -> None:
    parts, rendered = timeline.parts, batch.state.rendered
    rewritten, size = bool(parts.rewritten), parts.send(rendered)
    timeline.asked = timeline.asked.after(entry, batch.at, size=size, rewritten=rewritten)
    timeline.seen = rendered
    timeline.incorporated.clear()
    timeline.relisted = False
    if entry.plan is not None:
        _keep_plans(timeline, (entry.plan,))
    timeline.cited |= {cited.sid: batch.n for cited in entry.citations}
    timeline.waiting_results = len(entry.actions) if entry.accepted else 0
    if entry.accepted and entry.answer:
        timeline.attempts, timeline.answer = timeline.attempts + 1, entry.answer
    meanwhile = parts.lift(lambda piece: piece.kind == "event")
    unseen = _unseen(timeline, rendered)
    for piece in timeline.writer.decision(batch.n, entry, timeline.attempts, unseen, meanwhile):
        parts.add(piece)


def _reduce_resulted(timeline: Timeline, batch: Batch, entry: Resulted) -> None:
    timeline.waiting_results -= 1
    if entry.plans:
        _keep_plans(timeline, entry.plans)
    timeline.sources |= {row.sid: row for row in entry.sources}
    timeline.has_files = timeline.has_files or touches_workspace(entry, timeline.writer.turn)
    if timeline.listed and entry.error and entry.error.get("code") == CALL_REFUSED:
        timeline.listed = replace(timeline.listed, until="")  # the server has other tools now
    parts = timeline.parts
    for piece in timeline.writer.result(batch.n, entry, last=timeline.waiting_results == 0):
        parts.add(piece)
    for overlay in entry.hides:
        parts.replace(hide(parts.pieces, overlay, timeline.form), "hide", timeline.newest)


def _reduce_deferred(timeline: Timeline, batch: Batch, entry: Deferred) -> None:
    write = timeline.writer
    path = f"ar:{write.turn}.assistant.completion.attempt.{timeline.attempts}.outcome"
    text = timeline.form.outcome(entry, path, _unseen(timeline, timeline.seen))
    timeline.parts.add(write.piece("outcome", batch.n, text, path=path))


def _reduce_taken_over(timeline: Timeline, batch: Batch, _: TakenOver) -> None:
    timeline.parts.add(timeline.writer.piece("message", batch.n, timeline.form.takeover()))


def _reduce_answered(timeline: Timeline, batch: Batch, entry: ApprovalAnswered) -> None:
    if entry.verdict in ("approved", "edited"):
        timeline.allowed = tuple(sorted({*timeline.allowed, entry.tool_id}))
    if entry.action is not None:
        timeline.parts.add(timeline.writer.edited(batch.n, entry, entry.action))


def _reduce_dropped(timeline: Timeline, _: Batch, entry: Dropped) -> None:
    timeline.arrived.pop(entry.n, None)
    _withdraw(timeline, entry.n)


def _reduce_steered(timeline: Timeline, batch: Batch, entry: SteeredEntry) -> None:
    text = timeline.form.steered(entry)
    timeline.parts.add(timeline.writer.piece("message", batch.n, text, path=steered_path(entry)))


def _reduce_closed(timeline: Timeline, batch: Batch, entry: Closed) -> None:
    n, write, form, add = batch.n, timeline.writer, timeline.form, timeline.parts.add
    if timeline.waiting_results > 0:
        add(write.piece("end", n, form.end()))
    if entry.answer and entry.answer != timeline.answer:
        path = f"ar:{entry.turn}.assistant.completion"
        text = form.answer(whole_answer(entry), path, timeline.attempts + 1)
        add(write.piece("answer", n, text, whole_answer(entry), path=path))
    plans = [plan for plan in timeline.plans.values() if plan.is_open() and plan.last_turn_id == entry.turn]
    path = f"ar:{entry.turn}.react.turn.finalize"
    add(write.piece("closing", n, form.closing(entry, plans), path=path))
    turn = timeline.history[-1]
    timeline.history[-1] = replace(turn, closed=n, outcome=entry.outcome, reason=entry.reason)
    timeline.waiting_results = 0
    timeline.compaction = timeline.compaction.turned()


def _reduce_pruned(timeline: Timeline, batch: Batch, entry: Pruned) -> None:
    parts, dead, old = timeline.parts, entry.cause == "ttl", timeline.parts.pieces
    made: Sequence[Piece] = prune(old, entry, len(timeline.history), timeline.form)
    first = first_change(old, made)
    if dead or first < len(old):
        made = _with_feedback(timeline, made, since=0 if dead else old[first].turn)
    steady = shortened(made, entry, len(timeline.history)) if entry.steady else 0
    parts.replace(made, "prune", timeline.newest, dead=dead, steady=steady)
    if timeline.pruned != entry.turn:
        timeline.pruned = entry.turn
        path = f"ar:{entry.turn}.system.message.cache_pruned"
        parts.add(timeline.writer.piece("message", batch.n, timeline.form.pruned(entry), path=path))


def _reduce_compacting(timeline: Timeline, _: Batch, entry: Compacting) -> None:
    timeline.compaction = timeline.compaction.begun(entry)


def _reduce_compacted(timeline: Timeline, batch: Batch, entry: Compacted) -> None:
    timeline.compaction = timeline.compaction.ended(entry)
    if entry.status != "completed":
        return
    parts, history = timeline.parts, timeline.history
    made: Sequence[Piece] = compact(
        parts.pieces,
        batch.n,
        entry,
        first_kept=next((i for i, turn in enumerate(history, 1) if turn.opened == entry.cut), 0),
        turns=history,
        plans=[plan for plan in timeline.plans.values() if not (plan.current and plan.is_open())],
        form=timeline.form,
    )
    parts.replace(_with_feedback(timeline, made) if entry.cut else made, "compaction", timeline.newest)


def _reduce_titled(timeline: Timeline, _: Batch, entry: Titled) -> None:
    timeline.title = entry.title or timeline.title


def _reduce_listed(timeline: Timeline, _: Batch, entry: Listed) -> None:
    known = timeline.listed
    timeline.relisted = timeline.relisted or known is None or known.body.sha256 != entry.body.sha256
    timeline.listed = entry


def _reduce_contributed(timeline: Timeline, batch: Batch, entry: Contributed) -> None:
    _keep_plans(timeline, contributed_plans(entry))
    for piece in timeline.writer.contributed(batch.n, entry):
        timeline.parts.add(piece)


def _reduce_feedback(timeline: Timeline, _: Batch, entry: Feedback) -> None:
    key = feedback_key(entry)
    timeline.feedback[key] = entry
    timeline.fresh[:] = [*(old for old in timeline.fresh if old != key), key]


def _reduce_forked(timeline: Timeline, batch: Batch, entry: Forked) -> None:
    timeline.kept_effects = (*timeline.kept_effects, *entry.effects)
    if entry.effects:
        timeline.parts.add(timeline.writer.piece("note", batch.n, timeline.form.forked(entry.effects)))
    ended = ((at, turn) for at, turn in enumerate(timeline.history) if turn.closed and not turn.home)
    for at, turn in ended:
        timeline.history[at] = replace(turn, home=entry.origin)


def _usages(batches: Iterable[Batch]) -> Iterator[Usage]:
    for batch in batches:
        for entry in batch.entries:
            if isinstance(entry, Decided):
                yield entry.cost
            elif (
                isinstance(entry, Compacted | Titled | Reopened | Contributed | Resulted)
                and entry.usage is not None
            ):
                yield entry.usage


REDUCERS: Final[Mapping[type[Entry], Callable[[Timeline, Batch, Any], None] | None]] = {
    Owner: None,
    Inbound: _reduce_inbound,
    Opened: _reduce_opened,
    Reopened: None,
    Decided: _reduce_decided,
    Started: None,
    Resulted: _reduce_resulted,
    Deferred: _reduce_deferred,
    Closed: _reduce_closed,
    Dropped: _reduce_dropped,
    SteeredEntry: _reduce_steered,
    TakenOver: _reduce_taken_over,
    Listed: _reduce_listed,
    ApprovalRequested: None,
    ApprovalAnswered: _reduce_answered,
    Queued: None,
    Begun: None,
    Pruned: _reduce_pruned,
    Compacting: _reduce_compacting,
    Compacted: _reduce_compacted,
    Titled: _reduce_titled,
    Contributed: _reduce_contributed,
    Feedback: _reduce_feedback,
    Deleted: None,
    Importing: None,
    Imported: None,
    Forked: _reduce_forked,
}
"""The reducer of each kind of entry; None if the kind changes nothing."""


def _add_event(timeline: Timeline, n: int, event: AdmittedEvent) -> None:
    write = timeline.writer
    place = event_place(write.turn, event.inbound)
    timeline.arrived[event.n] = replace(event, path=place.path)
    timeline.parts.add(write.event(n, event.inbound, place))


def _withdraw(timeline: Timeline, *admitted: int) -> None:
    """Remove the pieces of events that no request has sent yet; they are shown at another position, or not at all."""
    timeline.parts.lift(lambda piece: piece.kind == "event" and piece.n in admitted)


def _with_feedback(timeline: Timeline, pieces: Sequence[Piece], *, since: int = 0) -> Sequence[Piece]:
    """Return the pieces with feedback after its turns, from turn `since` on, which no cache holds.

    Feedback of earlier turns is added later: a change there would invalidate the cache.
    """
    fresh = timeline.fresh
    numbers = {turn.id: number for number, turn in enumerate(timeline.history, 1)} if fresh else {}
    ripe = [key for key in fresh if since <= numbers.get(timeline.feedback[key].turn, since)]
    for key in ripe:
        entry = timeline.feedback[key]
        path = feedback_path(entry.turn)
        text = timeline.form.feedback(entry, path)
        pieces = answer_to(pieces, entry, path, text, numbers.get(entry.turn, 0))
    timeline.incorporated.extend(ripe)
    timeline.fresh[:] = [key for key in fresh if key not in ripe]
    return pieces


def _unseen(timeline: Timeline, rendered: int) -> Sequence[str]:
    """Return the paths of the events after batch `rendered`."""
    arrived = timeline.arrived
    if not arrived or next(reversed(arrived)) <= rendered:  # the newest event is the last one
        return ()
    return [event.path for event in arrived.values() if event.n > rendered]


def _keep_plans(timeline: Timeline, plans: Iterable[Plan]) -> None:
    for plan in plans:
        timeline.plans.pop(plan.plan_id, None)
        timeline.plans[plan.plan_id] = plan
