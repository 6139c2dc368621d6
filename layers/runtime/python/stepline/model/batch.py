"""A batch: the one thing a conversation's log is made of, and its bytes."""

from __future__ import annotations

from typing import Literal

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Row, Value
from stepline.model.entry import Entry
from stepline.model.usage import Tally

FORMAT = 1
"""The version of what batches and their states mean; a batch that does not say has the first one."""

STATE_MAX_BYTES = 1024
BATCH_MAX_BYTES = 32 * 1024


class Cursor(Row):
    """Where the turn stands: which round, which of its phases, which of its actions."""

    iteration: int = 0
    phase: Literal["decide", "act", "close"] = "decide"
    action: int = 0


class State(Row):
    """The small state after a batch: numbers and names only, never lists.

    `epoch` and `claim` are the n of a batch: the one that gave the turn its execution, and the one that opened
    the running attempt's stream. `rendered` is the newest batch that the model saw. `prev` is the newest batch before this one that has client events. `executes` is the number, from 1, of the
    decided action that runs a program; 0 if none does. `tally` counts the open turn. `ends`: the decided actions stand
    beside an answer, so that the turn closes after the last of them. `segment` is the newest batch up to which the
    conversation is sealed in a segment, and `titled` the one that gave it a title of its own; 0 if there is none.
    `steered` is the newest steer that the open turn has heeded, and `finalize` how many rounds that one left it,
    counting the next; 0 if it goes on as it likes.
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

    def route(self) -> str:
        """Return where the state machine goes from here."""
        if self.status != "open":
            return "stop"
        if self.cursor.phase == "act" and self.executes > self.cursor.action:
            return "prepare"
        return self.cursor.phase


class Spill(Value):
    """A string of a batch that lives in the artifact store, or a list if `json`: `at` is its JSON pointer below `entries`."""

    at: str
    key: str
    sha256: str
    size_bytes: int
    json: bool = False


class Batch(Value):
    """Entries appended together, and the state after them.

    `n` is dense from 1; it is the order, the fence and the client's event number in one. `by` is the nonce of
    the invocation that wrote it, `step` what it did (`admit`, `close`, …), with the epoch of its execution where
    that must be the turn's own (`decide/<epoch>`, `act/<epoch>`). `v` is the format's version.
    Source: docs/concepts/log.md#versions.
    """

    n: int
    by: str
    at: str
    entries: tuple[Entry, ...]
    state: State
    step: str = ""
    spilled: tuple[Spill, ...] = ()
    v: int = 1


EMPTY = Batch(n=0, by="", at="", entries=(), state=State())
"""What stands before the first batch."""

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Batch)


def encode_batch(batch: Batch) -> bytes:
    """Return the batch as JSON, without its defaults."""
    return _ENCODER.encode(batch)


def decode_batch(body: bytes | memoryview) -> Batch:
    """Read a batch.

    Raises:
        DependencyError: `format_newer`, a release after this one wrote it; its functions will read it.
        msgspec.ValidationError: no release of ours wrote these bytes.

    """
    try:
        batch = _DECODER.decode(body)
    except msgspec.ValidationError:
        _refuse_newer(_VERSION.decode(body).v)
        raise
    _refuse_newer(batch.v)
    return batch


class _Version(Value):
    v: int = 1


_VERSION = msgspec.json.Decoder(_Version)


def _refuse_newer(version: int) -> None:
    if version > FORMAT:
        raise DependencyError(
            f"a batch has format {version}, and this release reads up to {FORMAT}", code="format_newer"
        )
