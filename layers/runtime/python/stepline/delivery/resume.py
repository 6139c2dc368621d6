"""Resume: a client gets exactly the events that it missed, and switches to live events without a gap.

Subscribe first, then read strongly, then send: batches appended meanwhile arrive live as well, and the
client merges both by event number and character offset.
Source: docs/concepts/streaming.md#resume.
"""

from __future__ import annotations

from collections.abc import Mapping

from stepline.delivery.effect import deliver, event_frames
from stepline.delivery.stage_queue import begin_queued, queue_position
from stepline.errors import InputError
from stepline.events.derive import newest_event
from stepline.log.bindings import Ports
from stepline.log.journal import Journal
from stepline.log.owned_tail import owned_tail
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.wire.event import (
    PongFrame,
    SyncFrame,
    delta_frames,
    encode_frame,
    is_report_lane,
    newest_report_lane,
)


def resume(
    ports: Ports,
    lane: Lane,
    *,
    user: str,
    connection: str,
    until_s: int,
    after: int,
    have: Mapping[str, int],
    claim: int,
) -> None:
    """Send a connection every event after `after`, and the text of stream `claim` beyond `have`.

    It is subscribed until `until_s`; `have` counts characters by lane name.

    Raises:
        NotFoundError: the conversation is absent, foreign, or deleted (`conversation_deleted`).
        InputError: `resume_beyond_end`, the conversation has no event `after`.
    """
    journal = Journal(ports, lane, "resume")
    end = owned_tail(journal, user)
    if after > end.n:
        raise InputError(
            f"the conversation ends at {end.n} and has no event {after}; begin again at 0",
            code="resume_beyond_end",
        )
    ports.subscriptions.subscribe(lane, connection, until_s, user)
    missed = journal.since(after, consistent=True)
    tail = missed[-1] if missed else journal.tail(consistent=True)
    frames = [frame for batch in missed for frame in event_frames(ports, lane, batch)]
    opened = open_claim(ports, lane, tail)
    frames += running_text(ports, lane, tail, opened, have if claim == opened else {})
    state = tail.state
    sync = SyncFrame(
        conversation=lane.conversation,
        n=newest_event(tail),
        claim=state.claim,
        open=state.status == "open",
        turn_id=state.turn,
        approval=state.parked,
        place=queue_position(ports, lane, state),
    )
    deliver(ports, lane, connection, [*frames, encode_frame(sync)])


def pong(ports: Ports, lane: Lane, *, user: str, connection: str) -> None:
    """Send a connection the newest event number of its conversation, and its turn's position in the queue."""
    tail = owned_tail(Journal(ports, lane, "ping"), user)
    place = queue_position(ports, lane, tail.state)
    if place == 1:
        begin_queued(ports)  # a process that freed a slot may have died before it began the next turn
    frame = PongFrame(conversation=lane.conversation, n=newest_event(tail), place=place)
    deliver(ports, lane, connection, [encode_frame(frame)])


def newest(ports: Ports, lane: Lane) -> int:
    """Return the newest event number of a conversation."""
    return newest_event(Journal(ports, lane, "ack").tail(consistent=True))


def open_claim(ports: Ports, lane: Lane, tail: Batch) -> int:
    """Return the claim of the stream that may be open after `tail`: of a generation, or of a running call."""
    if tail.state.cursor.phase != "act" or tail.state.running:
        return tail.state.claim
    from stepline.delivery.call_reports import reports_claim  # noqa: PLC0415 - most resumes are in no call

    return reports_claim(tail.state, lambda n: ports.log.since(lane, n, upto=tail.n, consistent=True))


def running_text(ports: Ports, lane: Lane, tail: Batch, claim: int, have: Mapping[str, int]) -> list[bytes]:
    """Return the text of the open stream `claim` beyond what the client has, in frames.

    It is that of a generation, the log of a program, or the reports of a call.
    """
    if tail.state.status != "open" or tail.state.cursor.phase == "close":
        return []
    frames: list[bytes] = []
    if tail.state.running:
        from stepline.delivery.program_log import load_log, log_frames  # noqa: PLC0415 - most resumes need no program log

        log = load_log(ports, lane, tail)
        frames += log_frames(ports, lane, tail, log, have) if log else []
    return frames + _stored_text(ports, lane, claim, have)


def _stored_text(ports: Ports, lane: Lane, claim: int, have: Mapping[str, int]) -> list[bytes]:
    """Return the stored text of a stream beyond `have`, in frames, without the reports of earlier attempts."""
    text: dict[str, str] = {}
    for delta in ports.deltas.since(lane, claim):
        so_far = text.get(delta.name, "")
        if delta.off <= len(so_far):
            text[delta.name] = so_far + delta.text[len(so_far) - delta.off :]
    newest = newest_report_lane(text)
    return [
        frame
        for name, whole in text.items()
        if name == newest or not is_report_lane(name)
        for frame in delta_frames(lane.conversation, claim, name, whole, have=have.get(name, 0))
    ]
