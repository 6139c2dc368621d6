"""Feedback of a user or a machine on a turn's answer: it enters the log, once for each statement.

It opens no turn and changes no state; clients see it at the turn that it rates, and the next request shows it. The
current feedback is in an index by time, which the batch updates in its own transaction.
Source: docs/concepts/log.md#feedback.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.errors import InputError, LimitError, NotFoundError, UnknownOutcome
from stepline.events.derive import newest_event
from stepline.log.bindings import Ports
from stepline.log.fence import check_alive
from stepline.log.journal import Draft, Journal
from stepline.log.owned_tail import owned_tail
from stepline.log.timeline_cache import History
from stepline.model.batch import Batch
from stepline.model.decision import FEEDBACK_CHARS
from stepline.model.entry import Feedback
from stepline.model.ids import Lane, read_utc, utc
from stepline.rendering.turn_facts import Turn, feedback_key
from stepline.timeline.fold import Timeline

CONFIDENCE_MIN: Final = 0.7
"""The least confidence of a machine's feedback."""


@dataclass(frozen=True, kw_only=True)
class Stated:
    """The current feedback, and the number of its event; for a `duplicate` it may be the number of the newest event."""

    feedback: Feedback
    n: int
    duplicate: bool = False


def submit_feedback(
    ports: Ports,
    history: History,
    lane: Lane,
    said: Feedback,
    *,
    user: str | None,
    message_id: str = "",
    connection: str = "",
    until_s: int = 0,
) -> Stated:
    """Put feedback on a turn that has ended, unless it repeats its origin's newest or `message_id` has put it before.

    Without a turn it is on the newest one, and its time is set here. A user's feedback without a reaction withdraws the
    earlier one, and so does a machine's without reaction and text.
    `user` is the conversation's owner; None for a machine that may rate every conversation of the project. Its sender's
    `connection` is subscribed until `until_s`.

    Raises:
        NotFoundError: `not_found`, the conversation is not this user's; `turn_not_found`, it has no such
            turn.
        InputError: `turn_open`, the turn has no answer yet; `bad_feedback`, a machine's confidence is too low, or its
            feedback has no words; `message_id_taken`.
        LimitError: the text is longer than FEEDBACK_CHARS.
        BusyError: the lane is contended.
    """
    check_feedback(said)
    journal = Journal(ports, lane, "feedback")
    begun = _find_tail(journal, user)
    timeline = history.load(journal, segment=begun.state.segment, consistent=True)

    def plan(tail: Batch) -> Draft | Stated:
        nonlocal timeline
        if timeline.n < tail.n:
            timeline = history.load(journal, consistent=True)
        entry = make_entry(said, rated_turn(timeline, said.turn), utc(ports.clock.now()))
        current = timeline.feedback.get(feedback_key(entry))
        if is_said(current, entry):
            return Stated(feedback=current or entry, n=newest_event(tail), duplicate=True)
        return Draft(entries=(entry,), state=tail.state, message_id=message_id)

    put = journal.commit(plan, tail=begun, on_duplicate=lambda n: _find_stated(journal, said, n))
    ports.ledger.works_for(lane)
    if connection and user is not None:
        ports.subscriptions.subscribe(lane, connection, until_s, user)
    if isinstance(put, Stated):
        return put
    publish(ports, lane, put)
    (entry,) = (entry for entry in put.entries if isinstance(entry, Feedback))
    return Stated(feedback=entry, n=put.n)


def _find_tail(journal: Journal, user: str | None) -> Batch:
    """Return the newest batch of a conversation; if `user` is given, it must be theirs."""
    if user is not None:
        return owned_tail(journal, user)
    tail = journal.tail(consistent=True)
    if not tail.n:
        raise NotFoundError("no such conversation")
    check_alive(tail.state)
    return tail


def _find_stated(journal: Journal, asked: Feedback, n: int) -> Stated:
    """Return the feedback that an earlier try of this message put as batch n."""
    found = journal.get(n)
    if found is None:
        raise UnknownOutcome("a message row names a batch that does not exist", n=n)
    said = next((entry for entry in found.entries if isinstance(entry, Feedback)), None)
    if said is None or asked.turn not in ("", said.turn) or said.origin != asked.origin:
        raise InputError("this id belongs to another message", code="message_id_taken")
    return Stated(feedback=said, n=n, duplicate=True)


def check_feedback(said: Feedback) -> None:
    """Refuse feedback that is invalid on any turn. Raises LimitError, InputError `bad_feedback`."""
    if len(said.text) > FEEDBACK_CHARS:
        raise LimitError(f"feedback has at most {FEEDBACK_CHARS} characters", limit=FEEDBACK_CHARS)
    if said.origin == "user" or not (said.reaction or said.text):
        return
    if not said.text.strip() or not CONFIDENCE_MIN <= (said.confidence or 0.0) <= 1:
        raise InputError(
            f"a machine's feedback has words, and a confidence of {CONFIDENCE_MIN} to 1", code="bad_feedback"
        )


def rated_turn(timeline: Timeline, turn: str) -> Turn:
    """Return a turn that has ended; the newest one for "".

    Raises NotFoundError `turn_not_found`, InputError `turn_open`.
    """
    ended = [one for one in timeline.history if one.closed]
    found = next((one for one in timeline.history if one.id == turn), None) if turn else None
    if not turn and ended:
        return ended[-1]
    if found is None:
        raise NotFoundError("no such turn", code="turn_not_found")
    if not found.closed:
        raise InputError("the turn has not ended", code="turn_open")
    return found


def make_entry(said: Feedback, turn: Turn, at: str) -> Feedback:
    """Return the entry of a feedback; a withdrawal keeps only its origin."""
    placed = Feedback(turn=turn.id, at=at, origin=said.origin, turn_at=turn.started_at)
    if said.reaction is None and (said.origin == "user" or not said.text):
        return placed
    return replace(
        placed,
        given_at=read_utc(said.given_at, "ts") if said.given_at else "",
        reaction=said.reaction,
        text=said.text,
        confidence=said.confidence if said.origin == "machine" else None,
    )


def is_said(current: Feedback | None, entry: Feedback) -> bool:
    """Return True if the current feedback of this turn and origin says the same, regardless of its time."""
    if current is None:
        return entry.withdrawn
    return (current.reaction, current.text, current.confidence) == (
        entry.reaction,
        entry.text,
        entry.confidence,
    )
