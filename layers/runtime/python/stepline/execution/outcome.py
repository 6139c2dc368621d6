"""The values of an envelope: what one run came to, as its result is stored and read by everybody after it.

Every field is always written, whatever failed and wherever the program ran, so that a reader never asks whether a
key is there. Source: docs/reference/execution.md#envelope.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.program.execution import Isolation, RefusedFile, ToolCallRecord, ToolEvent, Visibility
from stepline.model.source import Source


class Output(Value, omit_defaults=False):
    """Where the bytes of a file are: `path` below the artifact root, and by its logical path."""

    path: str
    logical_path: str
    size_bytes: int
    sha256: str


class Artifact(Value, omit_defaults=False):
    """A promised file that is there, as a resource of the conversation."""

    resource_id: str
    output: Output
    mime: str
    description: str
    visibility: Visibility
    type: Literal["file"] = "file"


class Item(Value, omit_defaults=False):
    """The same file by the name that the contract gave it."""

    artifact_id: str
    output: Output
    filename: str
    visibility: Visibility
    artifact_kind: Literal["file"] = "file"


class FileError(Value, omit_defaults=False):
    """A promised file that is not taken over. `detail` is the finding behind a code that has several."""

    artifact_id: str
    filename: str
    code: str
    message: str
    detail: str = ""


class Succeeded(Value, omit_defaults=False):
    """A promised file that is there. `unchanged`: as it was before the run."""

    artifact_id: str
    filename: str
    size_bytes: int
    unchanged: bool = False


class OutputFile(Value, omit_defaults=False):
    """A file of the run that the log will name, promised or not. `preview` is empty for what is no text."""

    path: str
    logical_path: str
    body: Body
    visibility: Visibility
    contracted: bool
    description: str = ""
    text_symbols: int | None = None
    line_count: int | None = None
    preview: str = ""
    whole: bool = False


class RunError(Value, omit_defaults=False):
    """Why a run is no success. `error` repeats the code and `description` says what to do about it."""

    code: str
    message: str
    error: str
    description: str
    details: dict[str, Any]
    where: str = "exec.tool"
    managed: bool = True


class Envelope(Value, omit_defaults=False):
    """One run's outcome. `ok`: it ended with 0 and every promised file is there and sound.

    `user_…` is what the program printed, `runtime_…` what its surroundings did.
    """

    exec_id: str
    ok: bool
    result_filename: str
    artifacts: tuple[Artifact, ...] = ()
    items: tuple[Item, ...] = ()
    error: RunError | None = None
    report_text: str = ""
    errors: tuple[FileError, ...] = ()
    succeeded: tuple[Succeeded, ...] = ()
    user_out_tail: str = ""
    runtime_err_tail: str = ""
    user_error_lines: tuple[str, ...] = ()
    user_tracebacks: tuple[str, ...] = ()
    runtime_error_lines: tuple[str, ...] = ()
    runtime_tracebacks: tuple[str, ...] = ()
    seconds: float = 0.0
    returncode: int | None = None
    backend: str = ""
    isolation: Isolation = Isolation()
    log_bytes: int = 0
    files: tuple[OutputFile, ...] = ()
    left: tuple[RefusedFile, ...] = ()
    deleted: tuple[str, ...] = ()
    calls: tuple[ToolCallRecord, ...] = ()
    events: tuple[ToolEvent, ...] = ()
    sources: tuple[Source, ...] = ()
    v: int = 1

    @property
    def code(self) -> str:
        """Why it is no success; empty if it is one."""
        return self.error.code if self.error else ""

    @property
    def message(self) -> str:
        """The same in words."""
        return self.error.message if self.error else ""

    @property
    def kept(self) -> tuple[OutputFile, ...]:
        """The files that nobody promised."""
        return tuple(file for file in self.files if not file.contracted)


def decode_envelope(data: bytes) -> Envelope:
    """Read a stored envelope. Raises msgspec.DecodeError."""
    return msgspec.json.decode(data, type=Envelope)
