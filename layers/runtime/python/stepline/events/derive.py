"""Derive a batch's client events from the batch and its conversation's name, and nothing else.

Batch n has the same events whenever and wherever they are derived, so they are not stored, and an event is
identified by n and its position. Internal data is never sent: no working summary, raw generation, body of a file,
storage key or exception. This module lists everything that a client may see; the rest is withheld.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from stepline.events.derive_close import closing_events
from stepline.events.derive_round import (
    decision_events,
    linked,
    program_started,
    result_events,
    tool_reported,
)
from stepline.events.types import (
    Accepted,
    AnswerDeferred,
    ApprovalAsked,
    ApprovalSettled,
    AttachedFile,
    CompactionReported,
    ContinuationAccepted,
    ConversationStatus,
    FeedbackGiven,
    MessageDropped,
    RoundRestarted,
    RoundWaiting,
    SteerHeeded,
    TitleGiven,
    TurnBegun,
    TurnQueued,
    TurnStarted,
)
from stepline.model.batch import Batch
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
)
from stepline.model.ids import Lane
from stepline.model.visible_text import shorten_line
from stepline.model.wire.event import ClientEvent, Status, make_event
from stepline.rendering.turn_facts import event_place, prompt_places

_TITLES: Final[dict[Status, str]] = {
    "started": "Context Compaction Started",
    "completed": "Context Compaction Completed",
    "skipped": "Context Compaction Skipped",
    "error": "Context Compaction Failed",
}


_WAITS: Final = {
    "model_overloaded": "The model's provider is overloaded.",
    "model_rate_limited": "The model's provider limits our rate.",
}
_GOES_ON: Final = "The turn goes on by itself when the wait is over."


def compaction_event(entry: Compacting | Compacted) -> ClientEvent:
    """Return the event of a compaction's beginning or end; both have the same id."""
    ended = entry if isinstance(entry, Compacted) else None
    status: Status = ended.status if ended else "started"
    usage = ended.usage if ended else None
    changed = ended is not None and ended.status == "completed"
    data = CompactionReported(
        compaction_id=entry.id,
        title=_TITLES[status],
        kind=entry.scope,
        trigger_reason=entry.trigger,
        before_tokens=entry.before_tokens,
        max_tokens=entry.max_tokens,
        force=entry.trigger == "forced",
        after_tokens=ended.after_tokens if ended else 0,
        compacted_tokens=max(0, entry.before_tokens - ended.after_tokens) if ended and changed else 0,
        input_tokens=usage.prompt_tokens if usage else 0,
        output_tokens=usage.output_tokens if usage else 0,
        reason=ended.reason if ended else "",
        covered_turns=ended.turns if ended and changed else 0,
        covered_turn_ids=list(ended.covered) if ended and changed else [],
        split_turn_id=entry.turn if ended and changed and ended.split else "",
    )
    return make_event(data, entry.at, entry.turn, status)


def derive(batch: Batch, lane: Lane | None = None) -> tuple[ClientEvent, ...]:
    """Return the client events of a batch, in order; a turn's end has exactly one terminal event.

    `lane` is its conversation; without it, files have no resource names.
    """
    events: list[ClientEvent] = []
    for entry in batch.entries:
        events += _derive(batch, entry, lane)
    return tuple(events)


def has_events(batch: Batch) -> bool:
    """Return True if a batch has client events, without deriving them.

    Clients chain batches by this (`prev`), so the result for an entry must never change for existing logs.
    """
    return any(map(_has_event, batch.entries))


def _has_event(entry: Entry) -> bool:
    match entry:
        case Started():
            return bool(entry.deadline)
        case Reopened():
            return entry.usage is None
        case Contributed():
            return bool(entry.emitted)
        case Feedback():
            return bool(entry.turn_at)
        case _:
            return not isinstance(entry, Pruned | Listed | Importing | Imported)


def newest_event(tail: Batch) -> int:
    """Return the number of the newest batch with client events, given the newest batch."""
    return tail.n if has_events(tail) else tail.state.prev


def render_title(text: str) -> str:
    """Return the title of a conversation that begins with this message: its beginning, on one line."""
    return shorten_line(text, TITLE_CHARS)


def _derive(batch: Batch, entry: Entry, lane: Lane | None) -> list[ClientEvent]:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of entry
    turn = batch.state.turn
    match entry:
        case Decided():
            return decision_events(entry, batch)
        case Resulted():
            return result_events(entry, batch, lane)
        case Started():
            return program_started(entry, batch.at, turn)
        case Inbound():
            return _message(batch, entry)
        case Opened():
            return _opening(batch, entry)
        case Closed():
            return closing_events(entry, _next_turn(batch))
        case Reopened() if entry.usage is not None:
            return []
        case Reopened() | TakenOver():
            state = batch.state
            data = RoundRestarted(claim=state.claim, iteration=state.cursor.iteration, attempt=state.attempt)
            return [make_event(data, batch.at, turn, "running"), *_waiting(entry, batch)]
        case Deferred():
            deferred = AnswerDeferred(iteration=entry.iteration, answer=linked(entry.answer, entry))
            return [make_event(deferred, batch.at, entry.turn, "update")]
        case Dropped():
            back = MessageDropped(
                n=entry.n, reason=entry.reason, message_id=entry.message_id, kind=entry.event
            )
            return [make_event(back, batch.at, "", "skipped")]
        case Titled():
            named = TitleGiven(title=render_title(entry.title))
            return [make_event(named, entry.at, entry.turn or turn, "completed")]
        case Compacting() | Compacted():
            return [compaction_event(entry)]
        case SteeredEntry():
            return [make_event(_steer_applied(entry), entry.at, entry.turn, "completed")]
        case Contributed():
            by = entry.hook or ""
            return [one for reported in entry.emitted for one in tool_reported(reported, by, by, entry.turn)]
        case ApprovalRequested() | ApprovalAnswered():
            return [_approval(entry), _waits(entry)]
        case Queued():
            return [make_event(TurnQueued(place=entry.place), entry.at, entry.turn, "running")]
        case Begun():
            return [make_event(TurnBegun(waited_ms=entry.waited_ms), entry.at, entry.turn, "started")]
        case Feedback():
            return _feedback(entry)
        case Pruned() | Listed() | Importing() | Imported():
            return []
        case Owner() | Forked():
            status = ConversationStatus(state="created", updated_at=batch.at)
            return [make_event(status, batch.at, "", "completed")]
        case Deleted():
            deleted = ConversationStatus(state="deleted", updated_at=entry.at, current_turn_id=entry.turn)
            return [make_event(deleted, entry.at, entry.turn, "completed")]
        case _:
            assert_never(entry)


def _feedback(entry: Feedback) -> list[ClientEvent]:
    if not entry.turn_at:
        return []
    given = FeedbackGiven(
        origin=entry.origin,
        reaction=entry.reaction,
        text=entry.text,
        confidence=entry.confidence,
        withdrawn=entry.withdrawn,
    )
    return [make_event(given, entry.at, entry.turn, "completed")]


def _approval(entry: ApprovalRequested | ApprovalAnswered) -> ClientEvent:
    if isinstance(entry, ApprovalRequested):
        asked = ApprovalAsked(
            call_id=entry.action.call_id,
            tool_id=entry.action.tool_id,
            iteration=entry.iteration,
            params=entry.action.params,
            rule=entry.rule,
            editable=entry.action.code is None,
            code=entry.action.code or "",
            until=entry.until,
        )
        return make_event(asked, entry.at, entry.turn, "running")
    settled = ApprovalSettled(
        call_id=entry.call_id,
        tool_id=entry.tool_id,
        verdict=entry.verdict,
        text=entry.text,
        edited_call_id=entry.action.call_id if entry.action else "",
        params=entry.action.params if entry.action else {},
        client=entry.client,
    )
    return make_event(settled, entry.at, entry.turn, "completed")


def _waits(entry: ApprovalRequested | ApprovalAnswered) -> ClientEvent:
    asks = isinstance(entry, ApprovalRequested)
    status = ConversationStatus(
        state="in_progress",
        updated_at=entry.at,
        current_turn_id=entry.turn,
        waits_for="approval" if asks else "",
    )
    return make_event(status, entry.at, entry.turn, "running")


def _message(batch: Batch, entry: Inbound) -> list[ClientEvent]:
    state = batch.state
    events = [make_event(_accepted(entry, _file_paths(batch, entry)), entry.at, state.turn, "completed")]
    if batch.n == 1 and not entry.steers and (title := render_title(entry.text)):
        events.append(make_event(TitleGiven(title=title), entry.at, state.turn, "completed"))
    if state.status == "open" and state.opened != batch.n:
        waits = ContinuationAccepted(
            message_id=entry.message_id, message_kind=entry.event, active_turn_id=state.turn, n=batch.n
        )
        events.append(make_event(waits, entry.at, state.turn, "completed"))
    return events


def _accepted(entry: Inbound, paths: Sequence[str]) -> Accepted:
    """Return the event data of an inbound event in the log; `paths` are the known paths of its files."""
    return Accepted(
        message_id=entry.message_id,
        kind=entry.event,
        text=entry.text,
        chars=len(entry.text),
        source=entry.source,
        attachments=[
            AttachedFile(filename=file.filename, mime=file.mime, size_bytes=file.size_bytes, path=path)
            for file, path in zip(entry.attachments, paths or [""] * len(entry.attachments), strict=True)
        ],
    )


def _file_paths(batch: Batch, entry: Inbound) -> Sequence[str]:
    """Return the paths of an event's files; none while it has no turn, or shares one with events of other batches."""
    state = batch.state
    if not entry.attachments or state.status != "open":
        return ()
    if state.opened != batch.n:
        return event_place(state.turn, entry).files
    heads = next((one.prompts for one in batch.entries if isinstance(one, Opened)), ())
    if heads != (batch.n,):
        return ()
    events = [one for one in batch.entries if isinstance(one, Inbound)]
    return prompt_places(state.turn, events)[events.index(entry)].files


def _opening(batch: Batch, entry: Opened) -> list[ClientEvent]:
    data = TurnStarted(
        turn_id=entry.turn, prompts=list(entry.prompts), rounds=entry.rounds, max_tokens=entry.max_tokens
    )
    begun = make_event(data, entry.at, entry.turn, "started")
    if any(isinstance(other, Closed) for other in batch.entries):
        return [begun]  # the previous turn's event already says that the next one is in progress
    status = ConversationStatus(state="in_progress", updated_at=batch.at, current_turn_id=entry.turn)
    return [make_event(status, batch.at, entry.turn, "running"), begun]


def _steer_applied(entry: SteeredEntry) -> SteerHeeded:
    """Return the event data of an applied steer."""
    return SteerHeeded(
        turn_id=entry.turn,
        sequence=entry.n,
        message_id=entry.message_id,
        text=entry.text,
        checkpoint=entry.iteration,
        cancelled_phase=entry.phase,
        finalize_rounds=entry.finalize,
    )


def _waiting(entry: Reopened | TakenOver, batch: Batch) -> list[ClientEvent]:
    if not (isinstance(entry, Reopened) and entry.until):
        return []
    message = _WAITS.get(entry.code, "The model's provider asks for a wait.")
    waits = RoundWaiting(
        iteration=entry.iteration,
        code=entry.code,
        message=f"{message} {_GOES_ON}",
        until=entry.until,
        attempt=batch.state.waits + 1 if entry.attempts else 0,
        attempts=entry.attempts,
    )
    return [make_event(waits, batch.at, batch.state.turn, "running")]


def _next_turn(batch: Batch) -> str:
    """Return the turn that a closing batch opens; "" if none."""
    return next((entry.turn for entry in batch.entries if isinstance(entry, Opened)), "")
