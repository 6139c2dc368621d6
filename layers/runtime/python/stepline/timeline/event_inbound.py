"""What stands in the data of client events: the types of what comes from outside, and of what becomes of it.

An event's payload is not told: it is between its sender and the agent.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from typing import Annotated

from stepline.model.base import Value
from stepline.model.entry import Inbound, Steered
from stepline.timeline.event_data import Doc, EventData


class AttachedFile(Value):
    """A file that came with an event."""

    filename: Annotated[str, Doc(description="its own name")]
    mime: Annotated[str, Doc(description="its type")]
    size_bytes: Annotated[int, Doc(description="its size")]


class Accepted(EventData):
    """A message or another event stands in the log."""

    EVENT = "chat.conversation.accepted"
    ROUTE = "chat_step"

    message_id: Annotated[str, Doc(description="the client's own id of it")]
    kind: Annotated[
        str,
        Doc(
            description="`prompt` for what was said to begin a turn, `followup`, `steer`, or an event's own kind"
        ),
    ]
    text: Annotated[str, Doc(description="what was said; of a steer, nothing for a stop")]
    chars: Annotated[int, Doc(description="its length")]
    source: Annotated[str, Doc(description="the service that sent it for the user")] = ""
    attachments: Annotated[list[AttachedFile], Doc(description="the files that came with it")] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


def accepted(entry: Inbound) -> Accepted:
    """Return what a client hears of an event that stands in the log."""
    return Accepted(
        message_id=entry.message_id,
        kind=entry.event,
        text=entry.text,
        chars=len(entry.text),
        source=entry.source,
        attachments=[
            AttachedFile(filename=file.filename, mime=file.mime, size_bytes=file.size_bytes)
            for file in entry.attachments
        ],
    )


class ContinuationAccepted(EventData):
    """A message came while a turn is open: it waits beside that turn, and no turn begins by it now."""

    EVENT = "queue.continuation.accepted"
    ROUTE = "chat_service"

    message_id: Annotated[str, Doc(description="the client's own id of it")]
    message_kind: Annotated[str, Doc(description="`followup`, `steer`, or an event's own kind")]
    active_turn_id: Annotated[str, Doc(description="the open turn")]
    n: Annotated[int, Doc(description="the message's event number")]


class MessageDropped(EventData):
    """A message comes to nothing: it is handed back, to be said again or not."""

    EVENT = "chat.step"
    ROUTE = "chat_step"
    STEP = "dropped"

    n: Annotated[int, Doc(description="the event number of the message")]
    reason: Annotated[
        str,
        Doc(
            description="`nothing_to_steer`: no turn is open; `turn_closed`: the answer was there before the steer; "
            "`stopped`: the turn was stopped before the model saw it"
        ),
    ]
    message_id: Annotated[str, Doc(description="the client's own id of it")] = ""
    kind: Annotated[str, Doc(description="its kind")] = ""


class SteerHeeded(EventData):
    """The user steered, and the turn heeds it: what was under way is over."""

    EVENT = "timeline.external.steer.interrupted"
    ROUTE = "chat_service"

    turn_id: Annotated[str, Doc(description="the open turn")]
    sequence: Annotated[int, Doc(description="the event number of the steer")]
    message_id: Annotated[str, Doc(description="the client's own id of it")]
    text: Annotated[str, Doc(description="what was said; empty for a stop")]
    checkpoint: Annotated[int, Doc(description="the round, from 0")]
    cancelled_phase: Annotated[str, Doc(description="what was under way: `decision`, `tools`, or nothing")]
    finalize_rounds: Annotated[int, Doc(description="rounds left to come to an end; 0 for a stop")]


def steer_heeded(entry: Steered) -> SteerHeeded:
    """Return what a client hears of a steer that was heeded."""
    return SteerHeeded(
        turn_id=entry.turn,
        sequence=entry.n,
        message_id=entry.message_id,
        text=entry.text,
        checkpoint=entry.iteration,
        cancelled_phase=entry.phase,
        finalize_rounds=entry.finalize,
    )
