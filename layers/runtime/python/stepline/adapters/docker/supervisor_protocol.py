"""The protocol between this side and the supervisor's container, over its standard input and output.

    here                        supervisor
    Launch            →
                      ←         Fetch          one for each file it restores
    Blob … | Missing  →
                      ←         Ready          the executor may start
                      ←         Asked          a call of the program that a function makes
    Answered          →
                      ←         Violation      a limit is exceeded: end the executor
    Cancel            →                        combined: end the program
                      ←         Printed        combined: a piece of the program's output
    Collect           →                        (combined: the supervisor sends Ended instead, and continues)
                      ←         Report, Blob … the bytes of each new file, in the order of the report
                      ←         Failed         instead of anything above, and the last message

A message is MessagePack in a frame of `stepline.programs.frame`. The program's output has its own stream, except in a
combined container, and its files are sent as bytes with a hash that the receiver checks.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.program.execution import (
    CollectedFile,
    ContainerStrategy,
    ExecRequest,
    Isolation,
    RefusedFile,
    ToolCallRecord,
    ToolEvent,
)
from stepline.model.program.served_call import ServedAnswer, ServedCall
from stepline.model.source import Source
from stepline.programs.frame import render_frame

MESSAGE_CHUNK_BYTES: Final = 1024 * 1024
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024


class Launch(Value, tag="launch"):
    """The supervisor's inputs.

    `batches` are as in the log, `bundle` the files of the bundle; `environment` is for its tools only.
    """

    request: ExecRequest
    strategy: ContainerStrategy
    token: str
    batches: tuple[bytes, ...] = ()
    bundle: dict[str, bytes] = msgspec.field(default_factory=dict)
    descriptors: dict[str, str] = msgspec.field(default_factory=dict)
    environment: dict[str, str] = msgspec.field(default_factory=dict)


class Fetch(Value, tag="fetch"):
    """Requests the bytes of a key."""

    key: str


class Blob(Value, tag="blob"):
    """A part of the requested bytes; `last` marks the final part."""

    data: bytes
    last: bool = True


class Missing(Value, tag="missing"):
    """The requested bytes do not exist."""

    message: str


class Ready(Value, tag="ready"):
    """The workspace is set up and the socket is open."""


class Violation(Value, tag="violation"):
    """A limit of the workspace is exceeded."""

    code: str


class CancelProgram(Value, tag="cancel"):
    """Cancels the program."""


class Asked(Value, tag="asked"):
    """A call that a function makes; `id` is that of its answer."""

    id: int
    call: ServedCall


class Answered(Value, tag="answered"):
    """The answer of a call; without one the call may be asked again."""

    id: int
    answer: ServedAnswer | None = None


class Collect(Value, tag="collect"):
    """The program has ended: collect and report."""


class Printed(Value, tag="printed"):
    """A piece of the program's output; only a combined container sends this."""

    data: bytes


class Ended(Value, tag="ended"):
    """The end of a program: `error` is the reason for a stop, `timeout` or a limit's code, or empty.

    `returncode` is negative for a signal, None if unknown. `log` is the end of the output; only a combined
    container sends this.
    """

    error: str
    returncode: int | None
    seconds: float
    log: str = ""
    log_bytes: int = 0


class Report(Value, tag="report"):
    """The result of a run's collection. Without isolation, its jail never reported itself.

    `exceeded` is the code of a limit that the workspace currently exceeds; `error` and `message` are the reason if
    nothing was collected.
    """

    isolation: Isolation | None = None
    exceeded: str = ""
    error: str = ""
    message: str = ""
    files: tuple[CollectedFile, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    deleted: tuple[str, ...] = ()
    calls: tuple[ToolCallRecord, ...] = ()
    events: tuple[ToolEvent, ...] = ()
    sources: tuple[Source, ...] = ()


class Failed(Value, tag="failed"):
    """The supervisor cannot continue."""

    code: str
    message: str


SupervisorMessage: TypeAlias = (
    Launch
    | Fetch
    | Blob
    | Missing
    | Ready
    | Asked
    | Answered
    | Violation
    | CancelProgram
    | Printed
    | Collect
    | Ended
    | Report
    | Failed
)

_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(SupervisorMessage)


def encode(message: SupervisorMessage) -> bytes:
    """Return the frame of a message."""
    return render_frame(_ENCODER.encode(message))


def decode(body: bytes) -> SupervisorMessage:
    """Decode the body of a frame. Raises msgspec.MsgspecError for an invalid message."""
    message: SupervisorMessage = _DECODER.decode(body)
    return message


def blob_bytes(files: tuple[CollectedFile, ...]) -> dict[str, int]:
    """Return the hashes whose bytes follow a report, in order, each with its size."""
    return {file.sha256: file.size_bytes for file in files}
