"""Effects beside the log: each is a function of one batch, idempotent by a name made from it.

The writer performs them after the put; a process that finds the batch again (a retry, a duplicate, the sweeper)
repeats them. A lost effect is therefore only a delay, and a repeated one changes nothing.

The listing row of a conversation is such an effect: it contains the batch's n, so that a late writer loses.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec.structs import replace

from stepline.delivery.posting import GatewayBroadcast
from stepline.errors import DependencyError, SteplineError
from stepline.events.derive import derive, render_title
from stepline.log.bindings import Ports
from stepline.log.journal import Draft, Journal
from stepline.log.spill import LOST_BODY_CODES, hydrate
from stepline.metrics import EVENT_RULE_FAILURES, MEMORY_UNWRITTEN, WORKSPACES_UNSAVED
from stepline.model.batch import EMPTY, Batch
from stepline.model.entry import ApprovalAnswered, Begun, Closed, Inbound, Opened, TakenOver, Titled
from stepline.model.ids import Lane, execution_name, utc
from stepline.model.memory_row import MemoryScope
from stepline.model.step import Step
from stepline.model.wire.event import ClientEvent, EventFrame, FeedFrame, encode_frame, frame_events
from stepline.ports.channel import Feed
from stepline.ports.log import Listing

logger = logging.getLogger(__name__)

ROWS_MAX: Final = 1_000
"""The most rows of one turn sent to an index: each may be a request to a model, and a function's time is limited."""


FED: Final = frozenset({"conv.status", "chat.conversation.title"})
"""Types of the events in a user's feed."""


def redo(ports: Ports, lane: Lane, batch: Batch) -> bool:
    """Start the execution of a turn that this batch opened, took over, unparked or began; return True if it began now.

    A turn that this batch has queued has no execution yet.
    """
    begins = any(isinstance(entry, Opened | TakenOver | ApprovalAnswered | Begun) for entry in batch.entries)
    if not begins or batch.state.queued:
        return False
    return ports.machine.start(execution_name(lane, batch.n), current_step(lane, batch))


def current_step(lane: Lane, batch: Batch) -> Step:
    """Return the current step of this batch's open turn: the input of its epoch's execution."""
    state = batch.state
    return Step(
        tenant=lane.tenant,
        project=lane.project,
        conversation=lane.conversation,
        turn=state.turn,
        epoch=state.epoch,
        iteration=state.cursor.iteration,
        route=state.route(),
        segment=state.segment,
        bundle=state.bundle,
    )


def publish(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Send the batch's events to the current subscribers, looked up after the put.

    If the subscribers cannot be looked up, the events are not sent. That does not fail the step: the batch is stored,
    a retried step would not send it either, and an action that was just started would count as interrupted. The next
    frame shows every client the gap, and a ping reveals the loss of the last one.
    """
    try:
        events = leaving_events(ports, lane, batch)
        if events is not None:
            frames = [encode_frame(frame) for frame in frame_leaving(lane, batch, events)]
            ports.broadcast.send(lane, frames, make_feed(lane, batch, events))
    except DependencyError as error:
        logger.warning("frames not sent", extra={"code": error.reason, "n": batch.n})


def make_feed(lane: Lane, batch: Batch, events: Sequence[ClientEvent]) -> Feed | None:
    """Return the owner's feed of a batch: the events that change a row of the list; None without any."""
    listed = tuple(event for event in events if event.type in FED)
    if not listed:
        return None
    frame = FeedFrame(conversation=lane.conversation, n=batch.n, events=listed)
    return Feed(user=batch.state.owner, frames=(encode_frame(frame),))


def publish_read(ports: Ports, lane: Lane, n: int, *, user: str) -> None:
    """Send the read position `n` of the conversation to the user's feed; a newly read list contains it, too."""
    frame = encode_frame(FeedFrame(conversation=lane.conversation, read_n=n))
    try:
        ports.broadcast.send(lane, (), Feed(user=user, frames=(frame,)))
    except DependencyError as error:
        logger.warning("frames not sent", extra={"code": error.reason, "n": n})


def event_frames(ports: Ports, lane: Lane, batch: Batch) -> list[bytes]:
    """Return the frames of the batch's public events, as JSON; none if it has no events."""
    return [encode_frame(frame) for frame in frame_batch(ports, lane, batch)]


def frame_batch(ports: Ports, lane: Lane, batch: Batch) -> list[EventFrame]:
    """Return the frames of the batch's public events; none if it has no events.

    Every frame, live or replayed, is made here, so a batch is hydrated here: the tail that the sweeper reads has its
    long texts elsewhere. A batch whose events are all withheld is framed nevertheless: it is a link of the chain by
    which a client finds gaps. Raises DependencyError if a long text cannot be read.
    """
    events = leaving_events(ports, lane, batch)
    return [] if events is None else frame_leaving(lane, batch, events)


def leaving_events(ports: Ports, lane: Lane, batch: Batch) -> tuple[ClientEvent, ...] | None:
    """Return the batch's public events; None if it has no events at all. Raises DependencyError as above."""
    events = derive(hydrate(ports.artifacts, batch), lane)
    if not events:
        return None
    sifted = ports.of(batch.state.bundle).outward.sift(events)
    if sifted.failures:
        ports.meter.count(EVENT_RULE_FAILURES, sifted.failures)
    return sifted.events


def frame_leaving(lane: Lane, batch: Batch, events: tuple[ClientEvent, ...]) -> list[EventFrame]:
    """Return the frames of a batch's public events."""
    state = batch.state
    return frame_events(lane.conversation, n=batch.n, prev=state.prev, claim=state.claim, events=events)


def deliver(ports: Ports, lane: Lane, connection: str, frames: list[bytes]) -> None:
    """Post frames to one connection; its resume fetches those that are lost."""
    posting = GatewayBroadcast(
        subscriptions=ports.subscriptions, publisher=ports.publisher, meter=ports.meter, clock=ports.clock
    )
    posting.deliver(lane, connection, frames)


def project(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Update the conversation's listing row to this batch."""
    ports.log.project(make_listing(ports, lane, batch))


def make_listing(ports: Ports, lane: Lane, batch: Batch) -> Listing:
    """Return the listing row of a conversation whose newest batch is this one.

    A title alone is not activity, and the answer to a request for an approval is not something to read.
    """
    state = batch.state
    row = Listing(
        lane=lane,
        owner=state.owner,
        title=_title(ports, lane, batch),
        last_at=batch.at,
        applied_n=batch.n,
        turn=state.turn,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        started_at=utc(datetime.fromtimestamp(state.begun_ms / 1000, UTC)) if state.begun_ms else "",
        turns=state.turns,
        active_n=batch.n,
        waits_for="approval" if state.parked else "",
        branch_of=state.branch_of,
    )
    closing = next((entry for entry in batch.entries if isinstance(entry, Closed)), None)
    if closing:
        return replace(row, turn=closing.turn, outcome=closing.outcome)
    titles = all(isinstance(entry, Titled) for entry in batch.entries)
    answers = any(isinstance(entry, ApprovalAnswered) for entry in batch.entries)
    before = ports.log.listing(lane) if titles or answers else None
    if before is None:
        return row
    if answers:
        return replace(row, active_n=before.active_n)
    return replace(
        row,
        last_at=before.last_at,
        turn=before.turn,
        outcome=before.outcome,
        active_n=before.active_n,
    )


def save_workspace(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Save the project of the turn that this batch closed, if conversations have a git history.

    Earlier turns that are not saved are saved first. A failure that no retry can fix is logged, and every later turn
    tries again. Ingress functions, which may close a lost turn, keep no history and leave saving to later turns, too.
    """
    if ports.policy.workspace != "git" or not any(isinstance(entry, Closed) for entry in batch.entries):
        return
    from stepline.log.timeline_cache import History  # noqa: PLC0415 - only a deployment that keeps histories folds here
    from stepline.log.versions import save_versions  # noqa: PLC0415 - as above

    journal = Journal(ports, lane, "close")
    try:
        timeline = History().load(journal, segment=batch.state.segment, consistent=True)
        save_versions(ports.artifacts, timeline)
    except DependencyError as error:
        if error.reason not in LOST_BODY_CODES:
            raise
        logger.exception("workspace not saved", extra={"code": error.reason, "n": batch.n})
        ports.meter.count(WORKSPACES_UNSAVED)


def feeds_memory(ports: Ports) -> bool:
    """Return True if the end of a turn adds its rows to the index of memory, because the index does not read logs."""
    return ports.memory is not None and not ports.memory.reads_logs


def remember(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Add the rows of the turn that this batch closed, its range summaries among them, to an index that reads no logs.

    Earlier turns that the index may lack are added first: the process that ended one may have died after its closing
    batch, and no sweep looks at turns before an open one. A separate batch records each added turn. Failures that no
    retry can fix are logged and counted, and so are a turn's rows beyond `ROWS_MAX`.
    """
    index = ports.memory
    if index is None or index.reads_logs or not any(isinstance(entry, Closed) for entry in batch.entries):
        return
    from stepline.log.timeline_cache import History  # noqa: PLC0415 - only a deployment with such an index folds here
    from stepline.timeline.memory_rows import turn_rows  # noqa: PLC0415 - as above

    scope = MemoryScope(tenant=lane.tenant, project=lane.project, user=batch.state.owner)
    journal, since = Journal(ports, lane, "memory"), batch.state.unremembered or batch.n
    try:
        timeline = History().load(journal, segment=batch.state.segment, consistent=True)
    except SteplineError as error:
        _count_unwritten(ports, batch, error)
        return
    for turn in (turn for turn in timeline.history if since <= turn.closed <= batch.n):
        try:
            rows = turn_rows(timeline, turn.id)
            index.add(scope, rows[:ROWS_MAX])
        except SteplineError as error:
            _count_unwritten(ports, batch, error)
            rows = ()
        if left_out := rows[ROWS_MAX:]:
            logger.warning("rows of memory left out", extra={"turn_id": turn.id, "rows": len(left_out)})
            ports.meter.count(MEMORY_UNWRITTEN)
        _record_remembered(journal, turn.closed)


def _count_unwritten(ports: Ports, batch: Batch, error: SteplineError) -> None:
    """Log and count an error that no retry can fix. Raises any other DependencyError."""
    if isinstance(error, DependencyError) and error.reason not in LOST_BODY_CODES:
        raise error
    logger.error("memory not written", exc_info=error, extra={"code": error.reason, "n": batch.n})
    ports.meter.count(MEMORY_UNWRITTEN)


def _record_remembered(journal: Journal, closed: int) -> None:
    """Put a batch that records: the index has every turn up to the one that batch `closed` ended."""

    def plan(tail: Batch) -> Draft | None:
        if not 0 < tail.state.unremembered <= closed:
            return None
        later = journal.ports.log.since(journal.lane, closed, upto=tail.n, consistent=True)
        ends = (one.n for one in later if any(isinstance(entry, Closed) for entry in one.entries))
        return Draft(entries=(), state=replace(tail.state, unremembered=next(ends, 0)))

    journal.commit(plan)


def _title(ports: Ports, lane: Lane, batch: Batch) -> str:
    """Return the conversation's title, or its first message's beginning, on one line; a steer is ignored."""
    n = (
        batch.state.titled or batch.state.forked or 1
    )  # a branch of an untitled conversation begins with its title
    found = batch if batch.n == n else hydrate(ports.artifacts, ports.log.get(lane, n) or EMPTY)
    named = (entry.title for entry in found.entries if isinstance(entry, Titled))
    said = (entry.text for entry in found.entries if isinstance(entry, Inbound) and not entry.steers)
    return render_title(next(named, "") or next(said, ""))
