"""The intake: what each entry of the log changes in a timeline, and the text it adds to what the model reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, assert_never

from msgspec.structs import replace

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
from stepline.model.ids import call_id
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
        "decided_at",
        "fused",
        "history",
        "loose",
        "old",
        "plans",
        "sealed",
        "seen",
        "seen_part",
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
        self.turn_part, self.seen_part, self.fused = old.turn_part, old.seen_part, old.fused
        self.seen, self.waiting_results, self.attempts = old.seen, old.waiting_results, old.attempts
        self.usages: list[Usage] = [old.usage]
        self.turn = old.current.id if old.current else ""

    def take(self, batches: Sequence[Batch]) -> dict[str, Any]:
        """Take batches in, in order; return the fields that the timeline now has."""
        for batch in batches:
            for entry in batch.entries:
                text = self.take_entry(batch.n, entry)
                if text:
                    self.loose.append((batch.n, text))
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

    def take_entry(self, n: int, entry: Entry) -> str:  # noqa: C901, PLR0911 - one branch a kind of entry
        """Take one entry in; return its text, empty if it has none."""
        match entry:
            case Resulted():
                self.waiting_results -= 1
                if entry.plans:
                    self.keep_plans(entry.plans)
                return render_result(entry, last=self.waiting_results == 0)
            case Decided():
                return self.take_decision(n, entry)
            case Inbound():
                return self.take_event(n, entry)
            case Opened():
                return self.take_opening(n, entry)
            case Closed():
                return self.take_closing(n, entry)
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

    def take_decision(self, n: int, entry: Decided) -> str:
        self.seal(entry.rendered)
        self.seen_part, self.seen, self.decided_at = len(self.sealed), entry.rendered, entry.at
        if entry.usage is not None:
            self.usages.append(entry.usage)
        if entry.plan is not None:
            self.keep_plans((entry.plan,))
        self.waiting_results = len(entry.actions) if entry.accepted else 0
        if entry.accepted and entry.answer:
            self.attempts, self.answer = self.attempts + 1, entry.answer
        return render_decision(
            entry,
            call=call_id(entry.turn, entry.iteration, 0) if entry.notices else "",
            attempt=self.attempts,
            unseen=self.unseen(entry.rendered),
        )

    def take_closing(self, n: int, entry: Closed) -> str:
        turn = self.history[-1]
        self.history[-1] = replace(turn, closed=n, outcome=entry.outcome, reason=entry.reason)
        text = render_closing(entry, answer=self.answer, frame=self.waiting_results > 0)
        self.turn, self.waiting_results = "", 0
        return text

    def seal(self, upto: int) -> None:
        """End a part of the request with the text of batch `upto`."""
        settled = [text for n, text in self.loose if n <= upto]
        if settled:
            self.sealed.append(Part(text="".join(settled)))
            self.loose = self.loose[len(settled) :]

    def unseen(self, rendered: int) -> list[str]:
        """Return the paths of the events after what was rendered."""
        return [event.path for event in self.arrived.values() if event.n > rendered] if self.arrived else []

    def keep_plans(self, plans: Iterable[Plan]) -> None:
        for plan in plans:
            self.plans.pop(plan.plan_id, None)
            self.plans[plan.plan_id] = plan


def _total(usages: list[Usage]) -> Usage:
    counts = [
        (
            u.input_tokens,
            u.cache_read_tokens,
            u.cache_write_5m_tokens,
            u.cache_write_1h_tokens,
            u.output_tokens,
        )
        for u in usages
    ]
    plain, read, write_5m, write_1h, output = (sum(column) for column in zip(*counts, strict=True))
    return Usage(
        input_tokens=plain,
        cache_read_tokens=read,
        cache_write_5m_tokens=write_5m,
        cache_write_1h_tokens=write_1h,
        output_tokens=output,
        estimated=any(u.estimated for u in usages),
    )


def _clip(text: str) -> str:
    line = inline(text)
    return line if len(line) <= TITLE_CHARS else line[: TITLE_CHARS - 1] + "…"


def _seconds(start: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
