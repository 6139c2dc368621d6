"""The intake: what each entry of the log changes in a timeline, and the pieces it adds to what the model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, assert_never

from msgspec.structs import astuple, replace

from stepline.model.batch import Batch
from stepline.model.entry import (
    BustReason,
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
    TakenOver,
    Titled,
)
from stepline.model.plan import Plan
from stepline.model.usage import Usage
from stepline.ports.model import Part
from stepline.timeline.piece import Piece, byte_length, text_bytes
from stepline.timeline.reduce import answer_to, compact, hide, prune
from stepline.timeline.render.quote import inline
from stepline.timeline.turn import Event, Turn, event_path, prompt_path
from stepline.timeline.writer import Writer

if TYPE_CHECKING:
    from stepline.timeline.fold import Timeline

TITLE_CHARS: Final = 80
CACHE_DEAD_S: Final = 360.0
"""So long after a decision no provider keeps the prompt any more: five minutes and some slack."""


class Intake:
    """A timeline in the making: its fields, open to change; each entry is taken in once and adds its pieces."""

    __slots__ = (
        "answer",
        "arrived",
        "asked",
        "attempts",
        "cited",
        "compacted",
        "ends",
        "feedback",
        "fresh",
        "fused",
        "history",
        "old",
        "pieces",
        "plans",
        "pruned",
        "rewritten",
        "sealed",
        "seen",
        "seen_part",
        "size",
        "sources",
        "title",
        "turn",
        "turn_part",
        "usages",
        "waiting_results",
        "writer",
    )

    def __init__(self, old: Timeline) -> None:
        self.old = old
        self.title, self.asked, self.answer = old.title, old.asked, old.answer
        self.history, self.sealed, self.pieces = list(old.history), list(old.sealed), list(old.pieces)
        self.ends, self.size, self.rewritten = list(old.ends), old.size, old.rewritten
        self.plans, self.arrived, self.feedback = dict(old.plans), dict(old.arrived), dict(old.feedback)
        self.sources, self.cited = dict(old.sources), dict(old.cited)
        self.turn_part, self.seen_part, self.fused = old.turn_part, old.seen_part, old.fused
        self.seen, self.waiting_results, self.attempts = old.seen, old.waiting_results, old.attempts
        self.compacted, self.pruned, self.fresh = list(old.compacted), old.pruned, list(old.fresh)
        self.usages: list[Usage] = [old.usage]
        self.turn = old.current.id if old.current else ""
        self.writer = Writer(old.layout, self.turn, len(self.history))

    def take(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """Take batches in, in order; return the fields that the timeline now has."""
        for batch in batches:
            for entry in batch.entries:
                self.take_entry(batch, entry)
        kept = ("old", "turn", "usages", "writer")
        made = {name: getattr(self, name) for name in self.__slots__ if name not in kept}
        return {
            **made,
            "n": batches[-1].n,
            "state": batches[-1].state,
            "usage": _total(self.usages),
            "batches": (*self.old.batches, *batches),
            **{
                name: tuple(made[name])
                for name in ("history", "sealed", "pieces", "ends", "compacted", "fresh")
            },
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
            case Pruned():
                self.take_pruning(n, entry)
            case Compacted():
                self.take_compaction(n, entry)
            case Titled():
                self.title = entry.title or self.title
                self.count(entry.usage)
            case Contributed():
                for piece in self.writer.contributed(n, entry):
                    self.add(piece)
            case Feedback():
                self.feedback[f"{entry.turn}/{entry.origin}"] = entry
                self.fresh = [*self.fresh, f"{entry.turn}/{entry.origin}"]
            case Owner() | Reopened() | Started() | Compacting():
                pass
            case _:
                assert_never(entry)

    def add(self, piece: Piece) -> None:
        self.pieces.append(piece)
        self.size += byte_length(piece.text)

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
        path = event_path(self.turn, entry) if self.turn else ""
        self.arrived[n] = Event(n=n, inbound=entry, path=path)
        if path:
            self.add_event(n, entry, path)

    def add_event(self, n: int, entry: Inbound, path: str) -> None:
        self.add(self.writer.piece("event", n, self.writer.layout.event(entry, path), entry.text, path=path))

    def take_opening(self, n: int, entry: Opened) -> None:
        self.seal(n)
        self.turn, self.turn_part = entry.turn, len(self.sealed)
        self.history.append(Turn(id=entry.turn, started_at=entry.at, opened=n, prompts=entry.prompts))
        self.writer = Writer(self.writer.layout, entry.turn, len(self.history))
        if self.asked.at and seconds_between(self.asked.at, entry.at) > CACHE_DEAD_S:
            self.fused, self.seen_part = self.turn_part, 0
            self.incorporate()
        self.waiting_results = self.attempts = 0
        self.answer = ""
        layout = self.writer.layout
        self.add(self.writer.piece("header", n, layout.opening(entry)))
        for index, prompt in enumerate(entry.prompts):
            event = self.arrived.pop(prompt)
            self.title = self.title or _clip(event.inbound.text)
            path = prompt_path(entry.turn, index, event.inbound.message_id)
            text = layout.prompt(event.inbound, path, event.path)
            self.add(self.writer.piece("prompt", n, text, event.inbound.text, path=path))
        waited = [event for event in self.arrived.values() if not event.path]
        self.arrived = {}  # the end of the turn before settled every other event
        for event in waited:
            path = event_path(entry.turn, event.inbound)
            self.arrived[event.n] = replace(event, path=path)
            self.add_event(n, event.inbound, path)

    def take_decision(self, batch: Batch, entry: Decided) -> None:
        rendered = batch.state.rendered
        self.seal(rendered)
        later = 0
        for piece in reversed(self.pieces):
            if piece.n <= rendered:
                break
            later += byte_length(piece.text)
        self.asked = self.asked.after(entry, batch.at, size=self.size - later)
        self.seen_part, self.seen, self.rewritten = len(self.sealed), rendered, ""
        self.count(entry.usage)
        if entry.plan is not None:
            self.keep_plans((entry.plan,))
        self.cited |= {cited.sid: batch.n for cited in entry.citations}
        self.waiting_results = len(entry.actions) if entry.accepted else 0
        if entry.accepted and entry.answer:
            self.attempts, self.answer = self.attempts + 1, entry.answer
        for piece in self.writer.decision(batch.n, entry, self.attempts, self.unseen(rendered)):
            self.add(piece)

    def take_closing(self, n: int, entry: Closed) -> None:
        turn = self.history[-1]
        self.history[-1] = replace(turn, closed=n, outcome=entry.outcome, reason=entry.reason)
        if self.waiting_results > 0:
            self.add(self.writer.piece("end", n, self.writer.layout.end()))
        if entry.answer and entry.answer != self.answer:
            path = f"ar:{entry.turn}.assistant.completion"
            self.add(
                self.writer.piece(
                    "answer", n, self.writer.layout.answer(entry.answer, path), entry.answer, path=path
                )
            )
        plans = [plan for plan in self.plans.values() if plan.is_open() and plan.last_turn_id == entry.turn]
        path = f"ar:{entry.turn}.react.turn.finalize"
        self.add(self.writer.piece("closing", n, self.writer.layout.closing(entry, plans), path=path))
        self.turn, self.waiting_results = "", 0

    def take_hide(self, overlay: Hide) -> None:
        pieces, first = hide(self.pieces, overlay, self.writer.layout)
        if first == len(pieces):
            return
        self.size += text_bytes(pieces) - text_bytes(self.pieces)
        self.pieces = pieces
        whole = sum(end <= first for end in self.ends)
        if whole < len(self.ends):
            # The part before the change was a request's tail once, so a cache finds it where it ends.
            self.ends, self.sealed = self.ends[:whole], self.sealed[:whole]
            self.turn_part, self.fused = min(self.turn_part, whole), min(self.fused, whole)
            self.seen_part, self.rewritten = whole, "hide"

    def take_pruning(self, n: int, entry: Pruned) -> None:
        self.incorporate()
        self.rewrite(prune(self.pieces, entry, len(self.history), self.writer.layout), "prune")
        if self.pruned != entry.turn:
            self.pruned = entry.turn
            path = f"ar:{entry.turn}.system.message.cache_pruned"
            self.add(self.writer.piece("message", n, self.writer.layout.pruned(entry), path=path))

    def take_compaction(self, n: int, entry: Compacted) -> None:
        self.count(entry.usage)
        self.compacted.append(n)
        if entry.status != "completed":
            return
        self.incorporate()
        first_kept = next((i for i, turn in enumerate(self.history, 1) if turn.opened == entry.cut), 0)
        ids = [turn.id for turn in self.history]
        old = [plan for plan in self.plans.values() if not (plan.current and plan.is_open())]
        layout = self.writer.layout
        made = compact(self.pieces, n, entry, first_kept=first_kept, turns=ids, plans=old, layout=layout)
        self.rewrite(made, "compaction")

    def incorporate(self) -> None:
        """Put what users think of earlier turns behind those turns: no cache of them lives any more."""
        if not self.fresh:
            return
        numbers = {turn.id: number for number, turn in enumerate(self.history, 1)}
        pieces = self.pieces
        for key in dict.fromkeys(self.fresh):
            entry = self.feedback[key]
            path = f"ar:{entry.turn}.feedback.latest"
            text = self.writer.layout.feedback(entry, path)
            pieces = answer_to(pieces, entry, path, text, numbers.get(entry.turn, 0))
        self.fresh = []
        self.rewrite(pieces, "feedback")

    def rewrite(self, pieces: Sequence[Piece], reason: BustReason) -> None:
        """Take other pieces for those there are. The open turn begins a part of its own."""
        self.pieces, self.size = list(pieces), text_bytes(pieces)
        newest = len(self.history) if self.turn else len(self.history) + 1
        before = sum(piece.turn < newest for piece in pieces)
        text = "".join([piece.text for piece in pieces[:before]])
        self.sealed, self.ends = ([Part(text=text)], [before]) if text else ([], [])
        self.turn_part = self.seen_part = len(self.sealed)
        self.fused, self.rewritten = 0, reason

    def seal(self, upto: int) -> None:
        """End a part of the request with the text of batch `upto`."""
        pieces, start = self.pieces, self.ends[-1] if self.ends else 0
        end = len(pieces)
        while end > start and pieces[end - 1].n > upto:
            end -= 1
        text = "".join([piece.text for piece in pieces[start:end]])
        if text:
            self.sealed.append(Part(text=text))
            self.ends.append(end)

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


def _total(usages: list[Usage]) -> Usage:
    # A long log has thousands: adding up columns costs a third of adding up values.
    columns = zip(*map(astuple, usages), strict=True)
    totals: dict[str, Any] = {
        name: sum(column) for name, column in zip(Usage.__struct_fields__, columns, strict=True)
    }
    return Usage(**{**totals, "estimated": totals["estimated"] > 0})


def _clip(text: str) -> str:
    line = inline(text)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def seconds_between(start: str, end: str) -> float:
    """Return the seconds between two times of the log."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
