"""The intake: what each entry of the log changes in a timeline, and the text it adds to what the model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, assert_never

from msgspec.structs import astuple, replace

from stepline.model.batch import Batch
from stepline.model.entry import (
    Closed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Inbound,
    Opened,
    Owner,
    Reopened,
    Resulted,
    Started,
    TakenOver,
)
from stepline.model.plan import Plan
from stepline.model.usage import Usage
from stepline.ports.model import Part
from stepline.timeline.layout import (
    render_closing,
    render_decision,
    render_deferral,
    render_event,
    render_opening,
    render_prompt,
    render_result,
    render_takeover,
)
from stepline.timeline.quote import inline
from stepline.timeline.turn import Event, Turn, event_path, prompt_path

if TYPE_CHECKING:
    from stepline.timeline.fold import Timeline

TITLE_CHARS: Final = 80
CACHE_DEAD_S: Final = 360.0
"""So long after a decision no provider keeps the prompt any more: five minutes and some slack."""


class Intake:
    """A timeline in the making: its fields, open to change; each entry is taken in once and gives its text."""

    __slots__ = (
        "answer",
        "arrived",
        "attempts",
        "cited",
        "decided_at",
        "fused",
        "history",
        "loose",
        "old",
        "plans",
        "sealed",
        "seen",
        "seen_part",
        "sources",
        "title",
        "turn",
        "turn_part",
        "usages",
        "waiting_results",
    )

    def __init__(self, old: Timeline) -> None:
        self.old = old
        self.title, self.decided_at, self.answer = old.title, old.decided_at, old.answer
        self.history, self.sealed, self.loose = list(old.history), list(old.sealed), list(old.loose)
        self.plans, self.arrived = dict(old.plans), dict(old.arrived)
        self.sources, self.cited = dict(old.sources), dict(old.cited)
        self.turn_part, self.seen_part, self.fused = old.turn_part, old.seen_part, old.fused
        self.seen, self.waiting_results, self.attempts = old.seen, old.waiting_results, old.attempts
        self.usages: list[Usage] = [old.usage]
        self.turn = old.current.id if old.current else ""

    def take(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """Take batches in, in order; return the fields that the timeline now has."""
        for batch in batches:
            n = batch.n
            for entry in batch.entries:
                text = self.take_entry(batch, entry)
                if text:
                    self.loose.append((n, text))
        made = {name: getattr(self, name) for name in self.__slots__ if name not in ("old", "turn", "usages")}
        return {
            **made,
            "n": batches[-1].n,
            "state": batches[-1].state,
            "usage": _total(self.usages),
            "batches": (*self.old.batches, *batches),
            "history": tuple(self.history),
            "sealed": tuple(self.sealed),
            "loose": tuple(self.loose),
        }

    def take_entry(self, batch: Batch, entry: Entry) -> str:  # noqa: C901, PLR0911 - one branch a kind of entry
        """Take one entry in; return its text, empty if it has none."""
        match entry:
            case Resulted():
                self.waiting_results -= 1
                if entry.plans:
                    self.keep_plans(entry.plans)
                self.sources |= {row.sid: row for row in entry.sources}
                return render_result(entry, self.turn, last=self.waiting_results == 0)
            case Decided():
                return self.take_decision(batch, entry)
            case Inbound():
                return self.take_event(batch.n, entry)
            case Opened():
                return self.take_opening(batch.n, entry)
            case Closed():
                return self.take_closing(batch.n, entry)
            case Deferred():
                return render_deferral(entry, attempt=self.attempts, unseen=self.unseen(self.seen))
            case TakenOver():
                return render_takeover()
            case Dropped():
                self.arrived.pop(entry.n, None)
                return ""
            case Owner() | Reopened() | Started():
                return ""
            case _:
                assert_never(entry)

    def take_event(self, n: int, entry: Inbound) -> str:
        path = event_path(self.turn, entry) if self.turn else ""
        self.arrived[n] = Event(n=n, inbound=entry, path=path)
        return render_event(entry, path) if path else ""

    def take_opening(self, n: int, entry: Opened) -> str:
        self.seal(n)
        self.turn, self.turn_part = entry.turn, len(self.sealed)
        if self.decided_at and _seconds(self.decided_at, entry.at) > CACHE_DEAD_S:
            self.fused, self.seen_part = self.turn_part, 0
        self.history.append(Turn(id=entry.turn, started_at=entry.at, opened=n, prompts=entry.prompts))
        self.waiting_results = self.attempts = 0
        self.answer = ""
        text = render_opening(entry)
        for index, prompt in enumerate(entry.prompts):
            event = self.arrived.pop(prompt)
            self.title = self.title or _clip(event.inbound.text)
            path = prompt_path(entry.turn, index, event.inbound.message_id)
            text += render_prompt(event.inbound, path, carried=event.path)
        waited = [event for event in self.arrived.values() if not event.path]
        self.arrived = {}  # the end of the turn before settled every other event
        for event in waited:
            path = event_path(entry.turn, event.inbound)
            self.arrived[event.n] = replace(event, path=path)
            text += render_event(event.inbound, path)
        return text

    def take_decision(self, batch: Batch, entry: Decided) -> str:
        rendered = batch.state.rendered
        self.seal(rendered)
        self.seen_part, self.seen, self.decided_at = len(self.sealed), rendered, batch.at
        if entry.usage is not None:
            self.usages.append(entry.usage)
        if entry.plan is not None:
            self.keep_plans((entry.plan,))
        self.cited |= {cited.sid: batch.n for cited in entry.citations}
        self.waiting_results = len(entry.actions) if entry.accepted else 0
        if entry.accepted and entry.answer:
            self.attempts, self.answer = self.attempts + 1, entry.answer
        return render_decision(
            entry,
            self.turn,
            attempt=self.attempts,
            unseen=self.unseen(rendered),
        )

    def take_closing(self, n: int, entry: Closed) -> str:
        turn = self.history[-1]
        self.history[-1] = replace(turn, closed=n, outcome=entry.outcome, reason=entry.reason)
        text = render_closing(entry, answer=self.answer, frame=self.waiting_results > 0)
        self.turn, self.waiting_results = "", 0
        return text

    def seal(self, upto: int) -> None:
        """End a part of the request with the text of batch `upto`."""
        loose = self.loose
        if not loose or loose[0][0] > upto:
            return
        settled, self.loose = loose, []
        if loose[-1][0] > upto:
            settled, self.loose = [at for at in loose if at[0] <= upto], [at for at in loose if at[0] > upto]
        self.sealed.append(Part(text="".join([text for _, text in settled])))

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


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
