"""Feedback: a user's or a machine's opinion of a turn's answer enters the log, once for each statement.

It belongs to no turn of its own: it changes no state, and the next request shows it.
Source: docs/concepts/log.md#feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.log.bindings import Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.timeline_cache import History
from stepline.model.batch import Batch
from stepline.model.entry import Feedback
from stepline.model.ids import Lane, utc
from stepline.rendering.turn_facts import feedback_key
from stepline.timeline.fold import Timeline

TEXT_MAX_CHARS = 4_000


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """An opinion of turn `turn` and its origin; an empty one withdraws the origin's earlier one."""

    turn: str
    reaction: Literal["ok", "not_ok", "neutral"] | None = None
    text: str = ""
    origin: Literal["user", "machine"] = "user"
    confidence: float | None = None


def submit_feedback(
    ports: Ports, history: History, lane: Lane, opinion: Opinion, *, user: str
) -> Batch | None:
    """Put an opinion of a turn that has ended; return its batch, or None if it repeats its origin's newest.

    Raises:
        NotFoundError: `not_found`, the conversation is not this user's; `turn_not_found`, it has no such
            turn.
        InputError: `turn_open`, the turn has no answer yet.
        LimitError: the text is longer than TEXT_MAX_CHARS.
        BusyError: the lane is contended.
    """
    if len(opinion.text) > TEXT_MAX_CHARS:
        raise LimitError(f"feedback has at most {TEXT_MAX_CHARS} characters", limit=TEXT_MAX_CHARS)
    entry = Feedback(
        turn=opinion.turn,
        at=utc(ports.clock.now()),
        reaction=opinion.reaction,
        text=opinion.text,
        origin=opinion.origin,
        confidence=opinion.confidence,
    )
    journal = Journal(ports, lane, "feedback")
    timeline = history.load(journal, segment=journal.tail(consistent=False).state.segment)

    def plan(tail: Batch) -> Draft | None:
        nonlocal timeline
        if not tail.n:
            raise NotFoundError("no such conversation")
        check_owner(tail, user)
        if timeline.n < tail.n:
            timeline = history.load(journal, consistent=True)
        check_turn(timeline, entry.turn)
        return None if is_said(timeline, entry) else Draft(entries=(entry,), state=tail.state)

    batch = journal.commit(plan, tail=timeline.tail)
    if batch is not None:
        publish(ports, lane, batch)
    return batch


def check_turn(timeline: Timeline, turn: str) -> None:
    """Refuse feedback on an unknown or running turn.

    Raises NotFoundError `turn_not_found`, InputError `turn_open`.
    """
    if turn not in timeline.turns:
        raise NotFoundError("no such turn", code="turn_not_found")
    if timeline.current is not None and timeline.current.id == turn:
        raise InputError("the turn has not ended", code="turn_open")


def is_said(timeline: Timeline, entry: Feedback) -> bool:
    """Return True if the newest feedback of this turn and origin says the same, regardless of its time."""
    newest = timeline.feedback.get(feedback_key(entry))
    if newest is None:
        return entry.withdrawn
    return replace(newest, at=entry.at) == entry
