"""Validate a run's files: promised files by fixed rules, all others kept for the agent within limits.

Only files that the collector took over are judged; their bytes are read from the spool. The first rule that
fails decides. A file that fails is not taken over: the file at its path stays unchanged.

A workbook must open and have a visible sheet; these are the most common mistakes of programs. Only the parts that show
this are read, each up to a limit on the inflated bytes, and their XML must not have a document type: a program's file
is not trusted.
Source: docs/reference/execution.md#outputs.
"""

from __future__ import annotations

import posixpath
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final
from xml.parsers import expat

import msgspec

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.file.magic_bytes import HEAD_BYTES, MISMATCH, find_mismatch
from stepline.model.file.mime import DOCX, PDF, PPTX, XLSX, guess_mime, is_text
from stepline.model.path import from_physical
from stepline.model.program.execution import (
    CollectedFile,
    ContractFile,
    ExecRequest,
    RefusedFile,
    Run,
    WorkFile,
)
from stepline.programs.archive.contents import inspect_archive
from stepline.programs.archive.member import ARCHIVE_CHUNK_BYTES
from stepline.programs.archive.zip import ZIP_ERRORS, BoundedFile
from stepline.programs.outcome import (
    PREVIEW_CHARS_MIN,
    PREVIEWS_CHARS,
    OutputVerdict,
    Verdicts,
    read_head,
    render_preview,
)

PART_BYTES_MAX: Final = 8 * 1024 * 1024
DIRECTORY_BYTES_MAX: Final = 1024 * 1024
"""Maximum bytes of the list of parts, which is read whole; a thousand sheets need a third of it."""
ELEMENTS_MAX: Final = 10_000

OPEN_FAILED: Final = "xlsx_open_failed"
NO_VISIBLE_SHEETS: Final = "xlsx_no_visible_sheets"

_WORKBOOK: Final = "xl/workbook.xml"
_HIDDEN: Final = ("hidden", "veryHidden")


class Flaw(Value):
    """A defect of a workbook."""

    code: str
    message: str


class _Unreadable(Exception):  # noqa: N818 - not an error: it ends one inspection and never leaves this module
    pass


def inspect_workbook(path: Path) -> Flaw | None:
    """Return the defect of an XLSX file; None if it opens and has a sheet that is not hidden."""
    try:
        states = _sheet_states(path)
    except (_Unreadable, OSError, *ZIP_ERRORS, RuntimeError) as error:
        return Flaw(code=OPEN_FAILED, message=f"the file does not open as a workbook: {str(error)[:200]}")
    if all(state in _HIDDEN for state in states):
        return Flaw(code=NO_VISIBLE_SHEETS, message="the workbook has no sheet that is not hidden")
    return None


def _sheet_states(path: Path) -> list[str]:
    with BoundedFile(path, DIRECTORY_BYTES_MAX) as file, zipfile.ZipFile(file) as book:
        relations = _elements(_read(book, "_rels/.rels"), "Relationship")
        targets = [
            found.get("Target", "")
            for found in relations
            if found.get("Type", "").endswith("/officeDocument")
        ]
        name = posixpath.normpath((targets[0] if targets else _WORKBOOK).lstrip("/"))
        return [found.get("state", "visible") for found in _elements(_read(book, name), "sheet")]


def _read(book: zipfile.ZipFile, name: str) -> bytes:
    try:
        info = book.getinfo(name)
    except KeyError:
        raise _Unreadable(f"it has no part {name[:80]}") from None
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _Unreadable("it is compressed in a way that no workbook is")
    try:
        with book.open(info) as part:
            data = b"".join(_pieces(part))
    except EOFError:
        raise _Unreadable(f"its part {name[:80]} is cut") from None
    if len(data) > PART_BYTES_MAX:
        raise _Unreadable(f"its part {name[:80]} is too large")
    return data


def _pieces(part: IO[bytes]) -> Iterator[bytes]:
    """Yield a part in pieces, at most one piece more than its limit."""
    read_bytes = 0
    while read_bytes <= PART_BYTES_MAX and (piece := part.read(ARCHIVE_CHUNK_BYTES)):
        read_bytes += len(piece)
        yield piece


def _elements(data: bytes, name: str) -> list[dict[str, str]]:
    """Return the attributes of every element with a local name; refuse a document type, and so any entity."""
    found: list[dict[str, str]] = []

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag.rpartition(":")[2] == name:
            found.append(attributes)
        if len(found) > ELEMENTS_MAX:
            raise _Unreadable(f"it has more than {ELEMENTS_MAX} sheets")

    def refuse(*_: Any) -> None:
        raise _Unreadable("its XML declares a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise _Unreadable(f"its XML is broken: {error}") from error
    return found


OUTPUTS_KEPT_MAX: Final = 50
PROJECT_KEPT_MAX: Final = 500
"""Maximum files kept outside the contract, below `outputs/` and below `files/`.

`files/` is the project, and normally kept whole.
"""

PROBLEMS_NAMED: Final = 3

BLOCKED: Final = "artifact_internal_path_blocked"

_BYTES_MIN: Final = {PDF: 500, DOCX: 1000, PPTX: 2000, XLSX: 1000}
"""No application writes a smaller file that has any content."""


def validate_outputs(request: ExecRequest, run: Run, spool: Path) -> Verdicts:
    """Judge a run's files; `spool` holds the bytes of `run.files`, named by their sha256. Raises OSError."""
    collected = {file.path: file for file in run.files}
    inputs = {file.path: file for file in request.files}
    unchanged = {path: inputs[path] for path in run.unchanged if path in inputs}
    room, files = PREVIEWS_CHARS, []
    for promised in request.contract:
        verdict = _judge(promised, collected, unchanged, run.refused, spool)
        verdict, room = _with_text(verdict, spool, room, most=request.preview_chars)
        files.append(verdict)
    promises = {promised.filename for promised in request.contract}
    others = [file for path, file in sorted(collected.items()) if path not in promises]
    kept, left = _keep(others, spool, request.turn)
    refused = [file for file in run.refused if _canonical(file.path) not in promises]
    return Verdicts(files=tuple(files), kept=tuple(kept), left=(*refused, *left))


def _judge(
    promised: ContractFile,
    collected: Mapping[str, CollectedFile],
    unchanged: Mapping[str, WorkFile],
    refused: Iterable[RefusedFile],
    spool: Path,
) -> OutputVerdict:
    path = promised.filename
    found = collected.get(path) or unchanged.get(path)
    verdict = OutputVerdict(
        path=path,
        logical=str(from_physical(path)),
        mime=promised.mime,
        name=promised.name,
        description=promised.description,
        visibility=promised.visibility,
        contracted=True,
        sha256=found.sha256 if found else "",
        size_bytes=found.size_bytes if found else 0,
        key=found.key if isinstance(found, WorkFile) else "",
    )
    if found is None:
        blocked = next((one for one in refused if _covers(one.path, path)), None)
        if blocked:
            return _failed(verdict, blocked.code, blocked.message)
        return _failed(verdict, "missing_file", "the program did not write it")
    if not found.size_bytes:
        return _failed(verdict, "empty_file", "it has no bytes")
    return _inspect(verdict, None if verdict.key else spool / found.sha256)


def _inspect(verdict: OutputVerdict, path: Path | None) -> OutputVerdict:
    """Judge a file's content. One without new bytes was inspected when it was written."""
    if path is not None and (blocked := _blocked_archive(path, verdict)):
        return _failed(verdict, BLOCKED, blocked.message, detail=blocked.detail)
    least = _BYTES_MIN.get(verdict.mime, 0)
    if verdict.size_bytes < least:
        return _failed(
            verdict,
            "file_unusually_small",
            f"it has {verdict.size_bytes} bytes; a file of its type with anything in it has {least} at least",
        )
    if path is not None and verdict.mime == XLSX and (flaw := inspect_workbook(path)):
        return _failed(verdict, "artifact_invalid", flaw.message, detail=flaw.code)
    if path is not None and (mismatch := _mismatch(path, verdict.mime)):
        return _failed(verdict, MISMATCH, mismatch)
    return verdict


def _mismatch(path: Path, mime: str) -> str:
    with path.open("rb") as file:
        return find_mismatch(file.read(HEAD_BYTES), mime)


class _Blocked(Value):
    detail: str
    message: str


def _blocked_archive(path: Path, verdict: OutputVerdict) -> _Blocked | None:
    """Return the reason why an archive must not be passed on; None for a valid one and for other files."""
    problems = inspect_archive(path, mime=verdict.mime)
    if not problems:
        return None
    message = "; ".join(f"{problem.code}: {problem.message}" for problem in problems[:PROBLEMS_NAMED])
    return _Blocked(detail=problems[0].code, message=message)


def _with_text(verdict: OutputVerdict, spool: Path, room: int, *, most: int) -> tuple[OutputVerdict, int]:
    """Return the verdict with the facts of a text, and the characters left for previews."""
    if verdict.code or verdict.key or not is_text(verdict.mime):
        return verdict, room
    beginning = read_head(spool / verdict.sha256, keep_chars=most)
    if beginning is None:
        return verdict, room
    chars, symbols = min(room, most), beginning.size.offset
    preview = None
    if chars >= min(PREVIEW_CHARS_MIN, symbols):
        preview = render_preview(beginning, verdict.logical, max_chars=chars)
        room -= min(chars, symbols)
    known = {"text_symbols": symbols, "line_count": beginning.line_count, "preview": preview}
    return msgspec.structs.replace(verdict, **known), room


def _keep(
    others: Iterable[CollectedFile], spool: Path, turn: str
) -> tuple[list[OutputVerdict], list[RefusedFile]]:
    """Return the unpromised files that are kept, and those that are not."""
    room = {"files": PROJECT_KEPT_MAX, "outputs": OUTPUTS_KEPT_MAX}
    kept: list[OutputVerdict] = []
    left: list[RefusedFile] = []
    for file in others:
        verdict = _unpromised(file)
        space = file.path.removeprefix(f"{turn}/").partition("/")[0]
        if verdict is None or space not in room:
            left.append(_left(file, "path_not_writable", "only files/ and outputs/ of the turn are kept"))
        elif blocked := _blocked_archive(spool / file.sha256, verdict):
            left.append(_left(file, BLOCKED, blocked.message))
        elif mismatch := _mismatch(spool / file.sha256, verdict.mime):
            left.append(_left(file, MISMATCH, mismatch))
        elif not room[space]:
            left.append(_left(file, "artifact_not_in_contract", "too many files that no contract names"))
        else:
            room[space] -= 1
            kept.append(verdict)
    return kept, left


def _unpromised(file: CollectedFile) -> OutputVerdict | None:
    try:
        logical = str(from_physical(file.path))
    except PathError:
        return None
    return OutputVerdict(
        path=file.path,
        logical=logical,
        mime=guess_mime(file.path),
        sha256=file.sha256,
        size_bytes=file.size_bytes,
    )


def _left(file: CollectedFile, code: str, message: str) -> RefusedFile:
    return RefusedFile(path=file.path, code=code, message=message)


def _failed(verdict: OutputVerdict, code: str, message: str, *, detail: str = "") -> OutputVerdict:
    return msgspec.structs.replace(verdict, code=code, message=message, detail=detail)


def _covers(refused: str, path: str) -> bool:
    """Return True if the refused path is the file at `path`, or a folder above it."""
    refused = _canonical(refused)
    return path == refused or path.startswith(f"{refused}/")


def _canonical(path: str) -> str:
    return unicodedata.normalize("NFC", path)
