"""A batch, the unit of a conversation's log, its encoding, and the rows that it writes next to the log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec.structs import astuple, replace

from stepline.errors import DependencyError
from stepline.model.base import Row, Value
from stepline.model.decision import Origin, Reaction
from stepline.model.entry import Begun, Deleted, Entry, Feedback, Forked, Queued
from stepline.model.ids import Lane, person, utc
from stepline.model.usage import ModelCall, Tally

READ_BY: Final = {1: "0.1.0", 2: "0.2.0"}
"""The first release that reads each format of batches and their states; a batch without a version has the first one."""
FORMAT = max(READ_BY)
"""The newest format that this release reads."""
FORK_FORMAT: Final = 2
"""The format of the batches of forks: an earlier release would not read the batches before them."""

BATCH_DEPTH_MAX = 100
"""The maximum depth of a batch that is read."""
UNREADABLE = "[unreadable: nested too deep]"
STATE_MAX_BYTES = 1_220
BATCH_MAX_BYTES = 32 * 1024

IMPORT: Final = "import"
"""The step of batches that are made of documents; their times are those of the documents."""


class Cursor(Row):
    """The position of the turn: round, phase and action."""

    iteration: int = 0
    phase: Literal["decide", "act", "close"] = "decide"
    action: int = 0


class State(Row):
    """The state after a batch: numbers and names only, never lists.

    `epoch` and `claim` are batch numbers: of the batch that gave the turn its execution, and of the one that opened the
    stream of the running attempt. `rendered` is the newest batch that the model saw. `prev` is the newest batch before
    this one that has client events. `executes` is the number, from 1, of the last decided action that runs a program; 0
    if none does. `tally` counts the open turn. `ends`: the decided actions accompany an answer, so the turn closes
    after the last of them. `segment` is the newest batch up to which the conversation is sealed in a segment, and
    `titled` the one that gave it a title; 0 if there is none. `steered` is the newest steer that the open turn has
    applied, and `finalize` the rounds left to it by that steer, counting the next; 0 without a limit. `waits` is how
    often the provider made this round wait, and `until_ms` the end of the newest such wait, in milliseconds since the
    Unix epoch. `declined` counts the turn's rounds in which the model declined. `prepared` is the batch in which the
    turn's `pre_run_hook` ended, and `primed` the number, from 1, of the newest round whose `before_round` did; 0 if
    none did. `running` names a running hook, too. `bundle` is the name of the conversation's bundle, "" for the stage's
    default; like `owner` it never changes. `parked` is the batch that requested an approval, until it is answered; 0 if
    none is awaited. `turns` are those of the conversation, the open one included, and `begun_ms` is when it began, in
    milliseconds since the Unix epoch; both are 0 in a log that began before they were recorded. `spent_nanos` is the
    cost of the conversation's model calls, in billionths of a US dollar, and `stored_bytes` the size of the files that
    it keeps. `deleted` is the batch that deleted it, after which there is none; 0 while it exists. `unremembered` is
    the oldest batch that ended a turn whose rows may be missing in an index that reads no logs; 0 if it has all.
    `importing` is the batch that began an unfinished import, during which no other batch is put; 0 otherwise. `queued`
    is the batch since which the open turn waits for an execution of the stage; 0 if it does not. `forked` is the first
    batch of a fork, which has those before it from its origin; 0 for a conversation that is no fork. `branch_of` is the
    root of a branch, "" for a conversation that is none.

    Source: docs/concepts/log.md.
    """

    status: Literal["idle", "open"] = "idle"
    owner: str = ""
    turn: str = ""
    opened: int = 0
    epoch: int = 0
    claim: int = 0
    attempt: int = 0
    cursor: Cursor = Cursor()
    running: str = ""
    rendered: int = 0
    decided: int = 0
    actions: int = 0
    takeovers: int = 0
    round_retries: int = 0
    turn_retries: int = 0
    credits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prev: int = 0
    executes: int = 0
    tally: Tally = Tally()
    ends: bool = False
    segment: int = 0
    titled: int = 0
    steered: int = 0
    finalize: int = 0
    waits: int = 0
    until_ms: int = 0
    declined: int = 0
    prepared: int = 0
    primed: int = 0
    bundle: str = ""
    parked: int = 0
    turns: int = 0
    begun_ms: int = 0
    spent_nanos: int = 0
    stored_bytes: int = 0
    deleted: int = 0
    unremembered: int = 0
    importing: int = 0
    queued: int = 0
    forked: int = 0
    branch_of: str = ""

    @property
    def waits_outside(self) -> bool:
        """True if the open turn has no execution and needs none: it waits for a person, or in the queue of the stage."""
        return bool(self.parked or self.queued)

    def route(self) -> str:
        """Return the state machine's next state."""
        if self.status != "open" or self.waits_outside:
            return "stop"
        if self.cursor.phase == "act" and self.executes > self.cursor.action:
            return "prepare"
        return self.cursor.phase


class Spill(Value):
    """A string of a batch, or a list if `json`, in the artifact store.

    `at` is its JSON pointer below `entries`.
    """

    at: str
    key: str
    sha256: str
    size_bytes: int
    json: bool = False


class Batch(Value):
    """Entries appended together, and the state after them.

    `n` is dense from 1; it is the order, the fence and the client's event number in one. `by` is the nonce of
    the invocation that wrote it, `step` the kind of step (`admit`, `close`, …), with the epoch of its
    execution if that must be the turn's own (`decide/<epoch>`, `act/<epoch>`). `calls` are the model calls that its writer
    has made since its previous batch. `v` is the format's version.

    Source: docs/concepts/log.md#versions.
    """

    n: int
    by: str
    at: str
    entries: tuple[Entry, ...]
    state: State
    step: str = ""
    spilled: tuple[Spill, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    v: int = 1

    @property
    def queues(self) -> bool:
        """True if it is this batch that queued its turn."""
        return self.state.queued == self.n


EMPTY = Batch(n=0, by="", at="", entries=(), state=State())
"""The predecessor of the first batch."""

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Batch)
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)
_TOKEN = re.compile(_STRING.pattern + rb"|[\[\]{}]", re.DOTALL)
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def encode_batch(batch: Batch) -> bytes:
    """Return the batch as JSON, without its defaults, and without those at the end of its rows."""
    fields = {
        "n": batch.n,
        "by": batch.by,
        "at": batch.at,
        "entries": batch.entries,
        "state": _short(batch.state),
        **({"step": batch.step} if batch.step else {}),
        **({"spilled": batch.spilled} if batch.spilled else {}),
        **({"calls": [_short(call) for call in batch.calls]} if batch.calls else {}),
        **(stamp_format(batch.v) if batch.v > 1 else {}),
    }
    return _ENCODER.encode(fields)


def stamp_format(version: int) -> dict[str, object]:
    """Return the fields of a batch that name its format, and to a release that cannot read it one that can."""
    return {"v": version, "read_by": READ_BY[version]}


def _short(row: Row) -> list[object]:
    """Return the fields of a row up to the last one that is not its default; a reader adds the others."""
    values = [_short(value) if isinstance(value, Row) else value for value in astuple(row)]
    for default in reversed(type(row).__struct_defaults__):
        if values[-1] != (_short(default) if isinstance(default, Row) else default):
            break
        values.pop()
    return values


def without_depths(body: bytes | memoryview) -> bytes:
    """Return JSON with values nested deeper than DEPTH_MAX replaced by the text UNREADABLE.

    The depth that Python can decode varies with its version and its current stack: one process may write JSON that
    another cannot read.
    """
    body = bytes(body)
    if body.count(b"[") + body.count(b"{") <= BATCH_DEPTH_MAX or _depth(body) <= BATCH_DEPTH_MAX:
        return body
    parts, depth, done, begin = [], 0, 0, 0
    for token in _TOKEN.finditer(body):
        mark = token[0][:1]
        if mark in b"[{":
            depth += 1
            begin = token.start() if depth == BATCH_DEPTH_MAX + 1 else begin
        elif mark in b"]}":
            if depth == BATCH_DEPTH_MAX + 1:
                parts += [body[done:begin], msgspec.json.encode(UNREADABLE)]
                done = token.end()
            depth -= 1
    return b"".join([*parts, body[done:]])


def _depth(body: bytes) -> int:
    """Return the nesting depth of JSON, counted up to DEPTH_MAX + 1."""
    brackets = _STRING.sub(b"", body).translate(_ALIKE, _NO_BRACKETS)
    for depth in range(BATCH_DEPTH_MAX + 1):
        inner = brackets.replace(b"[]", b"")
        if len(inner) == len(brackets):
            return depth
        brackets = inner
    return BATCH_DEPTH_MAX + 1


def decode_batch(body: bytes | memoryview) -> Batch:
    """Decode a batch; values nested deeper than DEPTH_MAX become `UNREADABLE`, the rest is unchanged.

    Raises:
        DependencyError: `format_newer`, a later release wrote it, whose functions can read it.
        msgspec.ValidationError: the bytes are not a batch.
    """
    body = without_depths(body)
    try:
        batch = _DECODER.decode(body)
    except msgspec.ValidationError:
        _refuse_newer(body)
        raise
    if batch.v > FORMAT:
        _refuse_newer(body)
    return batch


class _Version(Value):
    v: int = 1
    read_by: str = ""


_VERSION = msgspec.json.Decoder(_Version)


def _refuse_newer(body: bytes) -> None:
    found = _VERSION.decode(body)
    if found.v > FORMAT:
        reader = f"release {found.read_by}" if found.read_by else "a later release"
        raise DependencyError(
            f"a batch has format {found.v}, and this release reads up to {FORMAT}: {reader} reads it",
            code="format_newer",
            format=found.v,
            read_by=found.read_by,
        )


class QueuedTurn(Value):
    """A turn in the stage's queue: batch `n` of its lane queued it, at the time `at`."""

    lane: Lane
    n: int
    at: str

    @property
    def place(self) -> str:
        """The position among other rows."""
        return f"{self.at}#{self.lane.key()}#{self.n:012d}"


FeedbackPlace: TypeAlias = tuple[str, str, str, str]
"""The position of feedback among others: its time, conversation, turn and origin."""


class FeedbackRow(Value):
    """Current feedback: the newest of its turn and origin, unless that was withdrawn. `n` is its batch.

    `started_at` is when the conversation began, `turn_at` when the turn did; times are ISO-8601 in UTC.
    """

    lane: Lane
    owner: str
    turn: str
    origin: Origin
    at: str
    n: int
    turn_at: str
    started_at: str = ""
    reaction: Reaction | None = None
    text: str = ""
    confidence: float | None = None
    given_at: str = ""

    @property
    def place(self) -> FeedbackPlace:
        """The position among other rows."""
        return (self.at, self.lane.conversation, self.turn, self.origin)


class ForkRow(Value):
    """A fork, as the conversation that counts it names it: its batches up to `n` are in the log of `origin`.

    A branch names the root of its tree, `branch_of`.
    """

    conversation: str
    origin: str
    n: int
    branch_of: str = ""


class Tombstone(Value):
    """A deleted conversation: its names and times, without any of its content.

    `n` is the batch that deleted it, and `whose` the hash of its owner; `owner` is their name while data is left to
    erase. `due` is the time of the next pass. With `done_at` nothing but the tombstone is left.
    """

    lane: Lane
    deleted_at: str
    n: int
    whose: str
    owner: str = ""
    due: str = ""
    done_at: str = ""


def is_founding(batch: Batch) -> bool:
    """Return True for a batch that a tombstone refuses, even if no row exists yet.

    The times of an import are not those of its puts, so an erasure keeps no husks of it.
    """
    return batch.n == 1 or batch.step == IMPORT or forked_from(batch) is not None


def forked_from(batch: Batch) -> Forked | None:
    """Return the entry with which a fork begins; None for any other batch."""
    first = batch.entries[0] if batch.entries else None
    return first if isinstance(first, Forked) else None


def home_lane(lane: Lane, batches: Iterable[Batch], n: int) -> Lane:
    """Return the lane whose log has batch n, by the forks among the batches of a conversation after it."""
    origins = (first.origin for batch in batches if batch.n > n and (first := forked_from(batch)))
    return replace(lane, conversation=next(origins, lane.conversation))


def fork_change(lane: Lane, batch: Batch) -> tuple[Lane, ForkRow | None] | None:
    """Return the conversation whose forks a batch changes, with the row of a new fork; None for most batches."""
    for entry in batch.entries:
        if isinstance(entry, Deleted) and entry.origin:
            return replace(lane, conversation=entry.origin), None
        if isinstance(entry, Forked):
            row = ForkRow(
                conversation=lane.conversation, origin=entry.origin, n=entry.n, branch_of=entry.branch_of
            )
            return replace(lane, conversation=entry.counter), row
    return None


def queue_changes(lane: Lane, batch: Batch) -> list[tuple[QueuedTurn, bool]]:
    """Return the turns that a batch adds to the stage's queue, with True, and those that it removes, with False."""
    changes: list[tuple[QueuedTurn, bool]] = []
    for entry in batch.entries:
        if isinstance(entry, Queued):
            changes.append((QueuedTurn(lane=lane, n=batch.n, at=batch.at), True))
        elif isinstance(entry, Begun | Deleted) and entry.n:
            changes.append((QueuedTurn(lane=lane, n=entry.n, at=entry.queued_at), False))
    return changes


def feedback_rows(lane: Lane, batch: Batch) -> list[tuple[Feedback, FeedbackRow | None]]:
    """Return each feedback of a batch with its row; None for withdrawn feedback."""
    return [
        (entry, None if entry.withdrawn else _feedback_row(lane, batch, entry))
        for entry in batch.entries
        if isinstance(entry, Feedback)
    ]


def _feedback_row(lane: Lane, batch: Batch, entry: Feedback) -> FeedbackRow:
    begun_ms = batch.state.begun_ms
    return FeedbackRow(
        lane=lane,
        owner=batch.state.owner,
        turn=entry.turn,
        origin=entry.origin,
        at=entry.at,
        n=batch.n,
        turn_at=entry.turn_at,
        started_at=utc(datetime.fromtimestamp(begun_ms / 1000, UTC)) if begun_ms else "",
        reaction=entry.reaction,
        text=entry.text,
        confidence=entry.confidence,
        given_at=entry.given_at,
    )


def bury_batch(lane: Lane, batch: Batch) -> Tombstone | None:
    """Return the tombstone that a batch needs; None if it does not delete its conversation."""
    ending = next((entry for entry in batch.entries if isinstance(entry, Deleted)), None)
    if ending is None:
        return None
    owner = batch.state.owner
    return Tombstone(
        lane=lane,
        deleted_at=ending.at,
        n=batch.n,
        whose=person(lane.tenant, lane.project, owner),
        owner=owner,
        due=ending.at,
    )
