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
from stepline.model.wire.event import PongFrame, SyncFrame, delta_frames, encode_frame


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
    frames += running_text(ports, lane, tail, have if claim == tail.state.claim else {})
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


def running_text(ports: Ports, lane: Lane, tail: Batch, have: Mapping[str, int]) -> list[bytes]:
    """Return the stored text of the open stream beyond what the client has, in frames."""
    if tail.state.status != "open":
        return []
    if tail.state.running:
        from stepline.delivery.program_log import load_log, log_frames  # noqa: PLC0415 - most resumes need no program log

        log = load_log(ports, lane, tail)
        return log_frames(ports, lane, tail, log, have) if log else []
    if tail.state.cursor.phase != "decide":
        return []
    text: dict[str, str] = {}
    for delta in ports.deltas.since(lane, tail.state.claim):
        so_far = text.get(delta.name, "")
        if delta.off <= len(so_far):
            text[delta.name] = so_far + delta.text[len(so_far) - delta.off :]
    return [
        frame
        for name, whole in text.items()
        for frame in delta_frames(lane.conversation, tail.state.claim, name, whole, have=have.get(name, 0))
    ]
