"""The envelope's values: the outcome of a run, in the form that is stored and read.

Every field is always written, for every failure and every placement of the program, so that a reader never checks
whether a key exists. Source: docs/reference/execution.md#envelope.

Also the verdicts on a run's files (made by `outputs`, read by the envelope), and the preview of a text file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.block import Body
from stepline.model.program.execution import (
    PREVIEW_CHARS,
    Isolation,
    RefusedFile,
    ToolCallRecord,
    ToolEvent,
    Visibility,
)
from stepline.model.source import Source
from stepline.tools.window import TextRange, TextWindow, decode_pieces, find_part

PREVIEWS_CHARS: Final = 24_000
"""Maximum characters of previews of one run."""
PREVIEW_CHARS_MIN: Final = 500
"""A shorter preview of a longer file is not worth its header."""

TITLE: Final = "[TEXT FILE PREVIEW]"

_CHUNK_BYTES: Final = 1024 * 1024


class Preview(Value):
    """The preview of a text, under its header; `whole` if nothing is left out."""

    text: str
    whole: bool


def read_head(path: Path, *, keep_chars: int = PREVIEW_CHARS) -> TextWindow | None:
    """Read a file as UTF-8, a piece at a time, and keep its beginning; None if it is not text."""
    try:
        with path.open("rb") as file:
            pieces = decode_pieces(iter(lambda: file.read(_CHUNK_BYTES), b""))
            return find_part(pieces, TextRange(), max_chars=keep_chars).part
    except UnicodeDecodeError:
        return None


def render_preview(beginning: TextWindow, path: str, *, max_chars: int = PREVIEW_CHARS) -> Preview:
    """Render a preview of the file at a logical path, up to `max_chars` of its characters."""
    window = replace(beginning, text=beginning.text[:max_chars])
    whole = window.end == window.size
    lines = [TITLE, f"path: {path}", f"lines: {window.notation()}"]
    lines += [f"partial_line: {line}" for line in window.partial_lines()]
    lines += [
        f"line_count: {window.line_count}",
        f"text_symbols: {window.size.offset}",
        f"cap: {max_chars}",
        f"line_numbers: {window.line_numbers}",
        f"text_truncated: {'false' if whole else 'true; react.read shows the rest'}",
        "",
        window.text,
    ]
    return Preview(text="\n".join(lines), whole=whole)


class Output(Value, omit_defaults=False):
    """The location of a file's bytes: `path` below the artifact root, and its logical path."""

    path: str
    logical_path: str
    size_bytes: int
    sha256: str


class Artifact(Value, omit_defaults=False):
    """A promised file that was taken over, as a resource of the conversation."""

    resource_id: str
    output: Output
    mime: str
    description: str
    visibility: Visibility
    type: Literal["file"] = "file"


class ContractItem(Value, omit_defaults=False):
    """The same file under its name in the contract."""

    artifact_id: str
    output: Output
    filename: str
    visibility: Visibility
    artifact_kind: Literal["file"] = "file"


class FileError(Value, omit_defaults=False):
    """A promised file that is not taken over. `detail` is the exact finding, for a code that covers several."""

    artifact_id: str
    filename: str
    code: str
    message: str
    detail: str = ""


class Succeeded(Value, omit_defaults=False):
    """A promised file that was taken over. `unchanged`: the same as before the run."""

    artifact_id: str
    filename: str
    size_bytes: int
    unchanged: bool = False


class OutputFile(Value, omit_defaults=False):
    """A file of the run that the log will name, promised or not. `preview` is empty unless it is a text."""

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
    """The error of a failed run. `error` repeats the code and `description` advises the model."""

    code: str
    message: str
    error: str
    description: str
    details: dict[str, Any]
    where: str = "exec.tool"
    managed: bool = True


class Envelope(Value, omit_defaults=False):
    """One run's outcome. `ok`: it ended with 0 and every promised file exists and is valid.

    `user_…` is the program's output, `runtime_…` that of its environment. `began_at` is as in a `Run`.
    """

    exec_id: str
    ok: bool
    result_filename: str
    artifacts: tuple[Artifact, ...] = ()
    items: tuple[ContractItem, ...] = ()
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
    began_at: str = ""
    v: int = 1

    @property
    def code(self) -> str:
        """The code of the error; empty for a success."""
        return self.error.code if self.error else ""

    @property
    def message(self) -> str:
        """The message of the error; empty for a success."""
        return self.error.message if self.error else ""

    @property
    def kept(self) -> tuple[OutputFile, ...]:
        """The files that the contract does not name."""
        return tuple(file for file in self.files if not file.contracted)


def split_time(began_ms: int, total_ms: int, seconds: float) -> tuple[int, int, int]:
    """Return the times of a program's start, run and collection, together `total_ms`, since its launch.

    `began_ms` is the time from its launch to its beginning. Clocks of two machines may differ: no part is below 0.
    """
    ran_ms = min(round(seconds * 1000), total_ms)
    starting_ms = min(max(0, began_ms), total_ms - ran_ms)
    return starting_ms, ran_ms, total_ms - ran_ms - starting_ms


MISSING: Final = frozenset({"missing_file", "empty_file"})
"""Codes of promised files that are absent or empty; files with other codes exist, but are invalid."""


class OutputVerdict(Value):
    """The verdict on one file. `code` is empty for a file that is taken over.

    `key` is set for a file that the run left unchanged: its bytes are in the store, not in the spool.
    `path` is physical, `logical` the same as a logical path.
    """

    path: str
    logical: str
    mime: str
    name: str = ""
    description: str = ""
    visibility: Visibility = "internal"
    contracted: bool = False
    code: str = ""
    detail: str = ""
    message: str = ""
    sha256: str = ""
    size_bytes: int = 0
    key: str = ""
    text_symbols: int | None = None
    line_count: int | None = None
    preview: Preview | None = None


class Verdicts(Value):
    """The verdicts on a run's files: those of the contract in its order, other files kept, other files not kept."""

    files: tuple[OutputVerdict, ...] = ()
    kept: tuple[OutputVerdict, ...] = ()
    left: tuple[RefusedFile, ...] = ()

    @property
    def taken(self) -> tuple[OutputVerdict, ...]:
        """Every file that is taken over."""
        return (*(file for file in self.files if not file.code), *self.kept)

    @property
    def failed(self) -> tuple[OutputVerdict, ...]:
        """The promised files that are not taken over."""
        return tuple(file for file in self.files if file.code)
