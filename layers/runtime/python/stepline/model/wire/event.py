"""Frames to clients: durable events, framed by batch, and deltas, framed by character offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, Literal, TypeAlias, get_args

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Value

FORMAT: Final = 1
"""The newest version of an `EventFrame` that this release reads. Source: docs/concepts/log.md#versions."""

FRAME_MAX_BYTES = 30 * 1024
"""The whole envelope stays below the 32 KB that one websocket frame may carry."""


Route: TypeAlias = Literal[
    "chat_start",
    "chat_step",
    "chat_service",
    "chat_compaction",
    "chat_complete",
    "chat_error",
    "conv_status",
]
"""The families of events that a client subscribes to."""

Status: TypeAlias = Literal["started", "running", "completed", "error", "skipped", "update"]


class ClientEvent(Value):
    """One durable event. `type` is the event's name, `route` the family a client binds to."""

    type: str
    route: str
    ts: str
    turn_id: str = ""
    step: str = ""
    status: str = "update"
    data: dict[str, Any] = msgspec.field(default_factory=dict)


class EventData(Value, forbid_unknown_fields=True):
    """The data of one type of events. `STEP` distinguishes the kinds of data that one type can have."""

    EVENT: ClassVar[str]
    ROUTE: ClassVar[Route]
    STEP: ClassVar[str] = ""


def make_event(data: EventData, at: str, turn: str, status: Status) -> ClientEvent:
    """Return the client event with this data."""
    return ClientEvent(
        type=data.EVENT,
        route=data.ROUTE,
        ts=at,
        turn_id=turn,
        step=data.STEP,
        status=status,
        data=msgspec.to_builtins(data),
    )


class EventFrame(Value, tag="events", tag_field="frame"):
    """The events of batch `n`. A client applies it only if `prev` is its cursor.

    A batch whose events outgrow one frame is sent in `parts`: `piece` then holds a slice of the JSON array of
    its events, and `events` is empty. `v` is the format's version: a client that does not know it must not apply it.
    """

    conversation: str
    n: int
    prev: int
    claim: int = 0
    part: int = 1
    parts: int = 1
    events: tuple[ClientEvent, ...] = ()
    piece: str = ""
    v: int = 1


CONTROL_LANE: Final = "lanes"
"""The lane that describes the other lanes of its stream: one JSON object per line."""

REPORT_LANE: Final = "report"
"""The first part of the names of lanes with reports of a running tool: one `ClientEvent` per line, in no batch."""

DELTA_CHARS: Final = 4 * 1024
"""The most text of a delta: a character is at most six bytes of the frame."""


class DeltaFrame(Value, tag="delta", tag_field="frame"):
    """Text of the running generation or program, from character `off` of lane `lane` of the stream `claim`.

    Text of the lane before character `start` is no longer stored: a client that lacks it continues from there.
    """

    conversation: str
    claim: int
    lane: str
    off: int
    text: str
    start: int = 0


class SyncFrame(Value, tag="sync", tag_field="frame"):
    """The end of a replay: the client now has every event up to `n`; `open` says whether a turn is running.

    `approval` is the number of the unanswered `approval.requested` of the turn, 0 if there is none: a client that has
    not seen it resumes after the number before it. `place` is the position of the turn in the queue, 1 if it is the
    next; 0 if it is not queued.
    """

    conversation: str
    n: int
    claim: int = 0
    open: bool = False
    turn_id: str = ""
    approval: int = 0
    place: int = 0


class AckFrame(Value, tag="ack", tag_field="frame"):
    """The answer to one message: its position in the log.

    For a duplicate, `newest` is the newest event number: the client lacks events sent before this connection was
    subscribed.
    """

    message_id: str
    conversation: str
    n: int
    kind: str
    duplicate: bool = False
    turn_id: str = ""
    newest: int = 0


class ErrorFrame(Value, tag="error", tag_field="frame"):
    """The answer to a message that was not accepted. `code` is stable; `message` is a sentence for people.

    `message_id` and `conversation` are those of the message if they could be read, even in an invalid one.
    `retryable`: the same message, under the same id, may be accepted later; `retry_after_s` is set if the server
    knows when.
    """

    code: str
    message: str
    message_id: str = ""
    conversation: str = ""
    retry_after_s: int = 0
    retryable: bool = False


class PongFrame(Value, tag="pong", tag_field="frame"):
    """The answer to a ping: the newest event number, so that a client notices a lost last frame.

    `place` is as in a `sync`.
    """

    conversation: str
    n: int
    place: int = 0


class AuthFrame(Value, tag="auth", tag_field="frame"):
    """The answer to a renewal: messages are accepted until `expires_at`, in epoch seconds."""

    expires_at: int


class NoticeFrame(Value, tag="notice", tag_field="frame"):
    """An event about a conversation that is not in its log, so it has no number and is never replayed.

    It is sent once or more; its content can also be requested over HTTP.
    """

    conversation: str
    event: ClientEvent


class WatchingFrame(Value, tag="watching", tag_field="frame"):
    """The answer to `watch`: the feed follows until `expires_at`, in epoch seconds."""

    expires_at: int


class FeedFrame(Value, tag="feed", tag_field="frame"):
    """A change of one of the user's conversations, for a connection that watches all of them.

    `events` are the `conv.status` and `chat.conversation.title` of batch `n`. A frame without events reports that the
    user has read up to `read_n`, on any device.
    """

    conversation: str
    n: int = 0
    events: tuple[ClientEvent, ...] = ()
    read_n: int = 0


Frame = (
    EventFrame
    | DeltaFrame
    | SyncFrame
    | AckFrame
    | ErrorFrame
    | PongFrame
    | AuthFrame
    | NoticeFrame
    | WatchingFrame
    | FeedFrame
)

_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)


def encode_frame(frame: Frame) -> bytes:
    """Return the frame as JSON for the websocket."""
    return _ENCODER.encode(frame)


def cut_delta(text: str, off: int) -> Iterator[tuple[int, str]]:
    """Return the text of a lane from character `off` on in pieces of one delta, each with its offset."""
    for at in range(0, len(text), DELTA_CHARS):
        yield off + at, text[at : at + DELTA_CHARS]


def delta_frames(
    conversation: str, claim: int, lane: str, text: str, *, have: int, start: int = 0
) -> list[bytes]:
    """Return the text of a lane beyond the `have` characters of a client, in frames; `text` begins at `start`."""
    return [
        encode_frame(
            DeltaFrame(conversation=conversation, claim=claim, lane=lane, off=off, text=piece, start=start)
        )
        for off, piece in cut_delta(text[max(have - start, 0) :], max(have, start))
    ]


def report_lane(visit: int, attempt: int) -> str:
    """Return the lane for the reports of one attempt at a call: the later the attempt, the greater its numbers."""
    return f"{REPORT_LANE}.{visit}.{attempt}"


def is_report_lane(name: str) -> bool:
    """Return True for a lane with reports of a running tool."""
    return name.startswith(f"{REPORT_LANE}.")


def newest_report_lane(names: Iterable[str]) -> str:
    """Return the lane of the newest attempt among the lanes of a stream, "" if none has reports."""
    reports = filter(is_report_lane, names)
    return max(
        reports, key=lambda name: [int(part) for part in name.split(".") if part.isdecimal()], default=""
    )


def decode_frame(text: str | bytes) -> Frame:
    """Decode a frame, as a client does.

    Raises:
        msgspec.ValidationError: it is not a Stepline frame.
        DependencyError: `format_newer`, its events are in the format of a later release.
    """
    try:
        frame = _DECODER.decode(text)
    except msgspec.ValidationError:
        _refuse_newer(_VERSION.decode(text).v)
        raise
    if isinstance(frame, EventFrame):
        _refuse_newer(frame.v)
    return frame


def is_unknown_kind(text: str | bytes) -> bool:
    """Return True for a frame of a kind that a later release added, which a client skips."""
    try:
        return _KIND.decode(text).frame not in _KINDS
    except msgspec.DecodeError:
        return False


class _Version(Value, tag="events", tag_field="frame"):
    v: int = 1


class _Kind(Value):
    frame: str


_VERSION: Final = msgspec.json.Decoder(_Version)
_KIND: Final = msgspec.json.Decoder(_Kind)
_KINDS: Final = {kind.__struct_config__.tag for kind in get_args(Frame)}


def _refuse_newer(version: int) -> None:
    if version > FORMAT:
        raise DependencyError(
            f"the server sends events in format {version}, and this client reads up to {FORMAT}: update it",
            code="format_newer",
        )


def frame_events(
    conversation: str, *, n: int, prev: int, claim: int, events: tuple[ClientEvent, ...]
) -> list[EventFrame]:
    """Frame the events of one batch, in as many parts as the frame size requires."""
    whole = EventFrame(conversation=conversation, n=n, prev=prev, claim=claim, events=events)
    if len(encode_frame(whole)) <= FRAME_MAX_BYTES:
        return [whole]
    text = _ENCODER.encode(events).decode()
    pieces = [text[at : at + _PIECE_CHARS] for at in range(0, len(text), _PIECE_CHARS)]
    return [
        EventFrame(
            conversation=conversation, n=n, prev=prev, claim=claim, part=i + 1, parts=len(pieces), piece=piece
        )
        for i, piece in enumerate(pieces)
    ]


_PIECE_CHARS = 4 * 1024
"""A character of a piece is at most six bytes of the frame (an escaped control character, twice escaped: `\\\\u001f`)."""


def join_pieces(pieces: list[str]) -> tuple[ClientEvent, ...]:
    """Decode the events of a batch that arrived in parts."""
    return msgspec.json.decode("".join(pieces), type=tuple[ClientEvent, ...])
