"""Effects of a frame on the client's state, for display or output."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value
from stepline.model.wire.event import AckFrame, ClientEvent, ErrorFrame, SyncFrame
from stepline.protocol.stream.lane import AbortReason, LaneFacts


class EventsApplied(Value):
    """The durable events of batch `n`, which is now the client's cursor. Each batch is applied once, in order."""

    n: int
    prev: int
    events: tuple[ClientEvent, ...]


class TextAppended(Value):
    """`text` continues lane `lane` at character `off`, without repetition.

    Nothing before it is missing, except in the log of a program, of which only the end is kept.
    """

    claim: int
    lane: str
    off: int
    text: str


class Reported(Value):
    """New reports of the running call, on lane `lane` of stream `claim`, in order and without repetition.

    With another lane, another attempt at the call begins: its reports replace those of the one before.
    """

    claim: int
    lane: str
    events: tuple[ClientEvent, ...]


class LaneKnown(Value):
    """The facts about a lane of stream `claim`. If `facts.replaces` is set, that lane is void."""

    claim: int
    lane: str
    facts: LaneFacts


class LaneEnded(Value):
    """A lane of stream `claim` is complete. `aborted` says why its text stops early, `at` when its program ended."""

    claim: int
    lane: str
    chars: int
    aborted: AbortReason = ""
    at: str = ""


class StreamReset(Value):
    """The displayed text of stream `claim` is void: another attempt begins, or the round ended without it."""

    claim: int


class StreamSettled(Value):
    """The decision is in the log: the displayed text of stream `claim` stays and grows no further."""

    claim: int


class Steered(Value):
    """The turn was interrupted by event `n`; `text` is empty for a stop.

    `phase` is the phase that was cancelled: `decision`, `tools` or empty. The turn may use `finalize_rounds` more
    rounds to finish, 0 for a stop.
    """

    n: int
    turn_id: str
    message_id: str
    text: str
    phase: str
    finalize_rounds: int


class HandedBack(Value):
    """A message was handed back: the model never saw it, and it may be sent again.

    `text` is empty if this client does not know it.
    """

    n: int
    message_id: str
    kind: str
    text: str
    reason: str


class TurnEnded(Value):
    """The end of the turn, in batch `n`. `answer` is the recorded one and replaces the streamed text.

    A `retryable` failed turn may succeed if its message is sent again under a new id, after `retry_after_s` seconds at
    the earliest. The user decides, since the turn's tools may have had effects.
    """

    n: int
    turn_id: str
    outcome: Literal["completed", "error"]
    answer: str
    reason: str = ""
    code: str = ""
    message: str = ""
    retryable: bool = False
    retry_after_s: int = 0

    @property
    def answered(self) -> bool:
        """True if the turn ended with an answer of the model."""
        return self.outcome == "completed" and self.reason not in ("violations", "token_limit")


class Waiting(Value):
    """The turn is queued at this position: 1 is the next. At position 0 it is no longer queued."""

    turn_id: str
    place: int


class Acknowledged(Value):
    """One of our messages is in the log."""

    frame: AckFrame


class Refused(Value):
    """The server refused a request; the connection remains usable."""

    frame: ErrorFrame


class PutOff(Value):
    """The server asks for a pause: the message is sent again, under its id, in `frame.retry_after_s` seconds."""

    frame: ErrorFrame


class Synced(Value):
    """A replay is complete."""

    frame: SyncFrame


Effect: TypeAlias = (
    EventsApplied
    | TextAppended
    | Reported
    | LaneKnown
    | LaneEnded
    | StreamReset
    | StreamSettled
    | Steered
    | HandedBack
    | TurnEnded
    | Waiting
    | Acknowledged
    | Refused
    | PutOff
    | Synced
)
