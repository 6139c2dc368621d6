"""What a frame changed, for whoever shows or prints it."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value
from stepline.model.wire.event import AckFrame, ClientEvent, ErrorFrame, SyncFrame
from stepline.protocol.stream.lane import AbortReason, LaneFacts


class EventsApplied(Value):
    """The durable events of batch `n`, now the client's cursor. Each batch is applied once, in order."""

    n: int
    prev: int
    events: tuple[ClientEvent, ...]


class TextAppended(Value):
    """`text` goes on at character `off` of lane `lane`; nothing before it is missing or repeated."""

    claim: int
    lane: str
    off: int
    text: str


class LaneKnown(Value):
    """What a lane of stream `claim` holds. Lane `facts.replaces`, if there is one, is void."""

    claim: int
    lane: str
    facts: LaneFacts


class LaneEnded(Value):
    """A lane of stream `claim` is here to its last character; `aborted` says why it will never be complete."""

    claim: int
    lane: str
    chars: int
    aborted: AbortReason = ""


class StreamReset(Value):
    """The text shown of stream `claim` is void: another attempt begins, or the round ended without it."""

    claim: int


class StreamSettled(Value):
    """A decision stands in the log; the text shown of stream `claim` stays, and no more of it comes."""

    claim: int


class Steered(Value):
    """The turn heeds what was said in event `n`; `text` is empty for a stop.

    `phase` is what was under way, `decision`, `tools` or nothing, and it is over. `finalize_rounds` are left to come to
    an end, 0 for a stop.
    """

    n: int
    turn_id: str
    message_id: str
    text: str
    phase: str
    finalize_rounds: int


class HandedBack(Value):
    """A message came to nothing: the model never saw it, and it may be said again. `text` is empty if it is not known here."""

    n: int
    message_id: str
    kind: str
    text: str
    reason: str


class TurnEnded(Value):
    """The turn's one end, in batch `n`. `answer` is the recorded one and replaces what was streamed."""

    n: int
    turn_id: str
    outcome: Literal["completed", "error"]
    answer: str
    code: str = ""
    message: str = ""


class Acknowledged(Value):
    """One of our messages stands in the log."""

    frame: AckFrame


class Refused(Value):
    """The server could not take something; the connection stays usable."""

    frame: ErrorFrame


class Synced(Value):
    """A replay is over."""

    frame: SyncFrame


Effect: TypeAlias = (
    EventsApplied
    | TextAppended
    | LaneKnown
    | LaneEnded
    | StreamReset
    | StreamSettled
    | Steered
    | HandedBack
    | TurnEnded
    | Acknowledged
    | Refused
    | Synced
)
