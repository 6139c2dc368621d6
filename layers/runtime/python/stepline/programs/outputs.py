"""What of a run's files counts: each promised file judged by fixed rules, every other one kept for the agent.

Only what the collector took over is looked at; the bytes are read from the spool. The first rule that fails decides.
A file that fails is not taken over: what stood at its path before the run stands there still.
Source: docs/reference/execution.md#outputs.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.file.mime import DOCX, PDF, PPTX, XLSX, guess_mime, is_text
from stepline.model.file.signature import HEAD_BYTES, MISMATCH, find_mismatch
from stepline.model.path import from_physical
from stepline.model.program.execution import (
    CollectedFile,
    ContractFile,
    ExecRequest,
    RefusedFile,
    Run,
    WorkFile,
)
from stepline.programs.archive.read import inspect_archive
from stepline.programs.outcome import (
    PREVIEW_CHARS_MIN,
    PREVIEWS_CHARS,
    Verdict,
    Verdicts,
    read_text,
    render_preview,
)
from stepline.programs.workbook import inspect_workbook

OUTPUTS_KEPT_MAX: Final = 50
PROJECT_KEPT_MAX: Final = 500
"""Of files nobody promised: below `outputs/`, and below `files/`, which is the project and normally kept whole."""

PROBLEMS_NAMED: Final = 3

BLOCKED: Final = "artifact_internal_path_blocked"

_BYTES_MIN: Final = {PDF: 500, DOCX: 1000, PPTX: 2000, XLSX: 1000}
"""No application writes a smaller one with anything in it."""


def validate_outputs(request: ExecRequest, run: Run, spool: Path) -> Verdicts:
    """Judge what a run left; `spool` holds the bytes of `run.files`, each named by its sha256. Raises OSError."""
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
) -> Verdict:
    path = promised.filename
    found = collected.get(path) or unchanged.get(path)
    verdict = Verdict(
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


def _inspect(verdict: Verdict, path: Path | None) -> Verdict:
    """Judge what a file holds. One without new bytes was inspected when it was written."""
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


def _blocked_archive(path: Path, verdict: Verdict) -> _Blocked | None:
    """Return why an archive must not be passed on; None for a sound one and for what is no archive."""
    problems = inspect_archive(path, mime=verdict.mime)
    if not problems:
        return None
    message = "; ".join(f"{problem.code}: {problem.message}" for problem in problems[:PROBLEMS_NAMED])
    return _Blocked(detail=problems[0].code, message=message)


def _with_text(verdict: Verdict, spool: Path, room: int, *, most: int) -> tuple[Verdict, int]:
    """Return the verdict with what is known of a text, and how many characters of previews are left."""
    if verdict.code or verdict.key or not is_text(verdict.mime):
        return verdict, room
    beginning = read_text(spool / verdict.sha256, keep_chars=most)
    if beginning is None:
        return verdict, room
    chars, symbols = min(room, most), beginning.size.offset
    preview = None
    if chars >= min(PREVIEW_CHARS_MIN, symbols):
        preview = render_preview(beginning, verdict.logical, max_chars=chars)
        room -= min(chars, symbols)
    known = {"text_symbols": symbols, "line_count": beginning.line_count, "preview": preview}
    return msgspec.structs.replace(verdict, **known), room


def _keep(others: Iterable[CollectedFile], spool: Path, turn: str) -> tuple[list[Verdict], list[RefusedFile]]:
    """Return the files nobody promised that are kept, and those that are not."""
    room = {"files": PROJECT_KEPT_MAX, "outputs": OUTPUTS_KEPT_MAX}
    kept: list[Verdict] = []
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


def _unpromised(file: CollectedFile) -> Verdict | None:
    try:
        logical = str(from_physical(file.path))
    except PathError:
        return None
    return Verdict(
        path=file.path,
        logical=logical,
        mime=guess_mime(file.path),
        sha256=file.sha256,
        size_bytes=file.size_bytes,
    )


def _left(file: CollectedFile, code: str, message: str) -> RefusedFile:
    return RefusedFile(path=file.path, code=code, message=message)


def _failed(verdict: Verdict, code: str, message: str, *, detail: str = "") -> Verdict:
    return msgspec.structs.replace(verdict, code=code, message=message, detail=detail)


def _covers(refused: str, path: str) -> bool:
    """Tell whether what was refused is the file at a path, or a folder on the way to it."""
    refused = _canonical(refused)
    return path == refused or path.startswith(f"{refused}/")


def _canonical(path: str) -> str:
    return unicodedata.normalize("NFC", path)
