"""A file from outside: its stated type, the type of its name and that of its bytes agree, and its parser's rules hold.

    picture, PDF, document of Office, text      accepted, unless a rule refuses it
    anything else                               refused

Source: docs/how-to/uploads.md#accepted-files.
"""

from __future__ import annotations

import os
import re
import zipfile
from pathlib import Path
from typing import Final

from stepline.model.file.file_verdict import EMPTY_FILE, SIZE, TAKEN, FileLimits, FileVerdict, reject_file
from stepline.model.file.magic_bytes import HEAD_BYTES, MISMATCH, find_mismatch
from stepline.model.file.mime import (
    DOCX,
    OCTET_STREAM,
    PDF,
    PICTURES,
    PLAIN,
    PPTX,
    XLSX,
    ends_acting,
    guess_mime,
    is_binary,
    is_text,
)
from stepline.preflight.judge_office import judge_office
from stepline.preflight.judge_picture import judge_picture
from stepline.preflight.judge_text import judge_text
from stepline.programs.archive.zip import BoundedFile

OFFICE: Final = frozenset({DOCX, PPTX, XLSX})
POLYGLOT: Final = "polyglot"
_PDF_READERS_LOOK_BYTES: Final = 1024
_ARCHIVE_END_BYTES: Final = 128 * 1024
"""The end of an archive with the longest comment that an archive may have."""
_PDF_HEAD: Final = re.compile(rb"%PDF-[0-9]")


def agreed_mime(filename: str, mime: str) -> str:
    """Return the type of a file: the stated one, in lower case and without parameters, if that type is accepted.

    Otherwise the name decides, since browsers and systems call TypeScript a film and a CSV a spreadsheet. If the name
    has no type, or an unknown one, the file is a text if its bytes are.
    """
    kind, named = mime.partition(";")[0].strip().lower(), guess_mime(filename)
    if _is_accepted(kind):
        return kind
    if named != OCTET_STREAM:
        return named
    return kind if is_binary(kind) else PLAIN


def judge_claim(filename: str, mime: str, size_bytes: int, limits: FileLimits) -> FileVerdict:
    """Judge the claims about a file, before there are bytes. Pure."""
    if ending := ends_acting(filename):
        return reject_file(
            "type_not_allowed",
            f"a desktop would act on a file named .{ending}; rename it to .txt to send its text",
        )
    if not _is_accepted(mime):
        return reject_file("type_not_allowed", f"files of the type {mime[:80]} are not accepted")
    named = guess_mime(filename)
    if named not in (OCTET_STREAM, mime) and not (is_text(named) and is_text(mime)):
        return reject_file(MISMATCH, f"its type is {mime}, and its name is one of {named}")
    if not size_bytes:
        return FileVerdict(code=EMPTY_FILE, message="it is empty")
    if size_bytes > (most := _max_bytes(mime, limits)):
        return FileVerdict(code=SIZE, message=f"it has {size_bytes} bytes; {most} are accepted")
    return TAKEN


def judge_file(file: Path | int, *, filename: str, mime: str, limits: FileLimits) -> FileVerdict:
    """Judge a file at a path, or an open descriptor; any bytes get a verdict. Raises OSError.

    `mime` is a result of `agreed_mime`.
    """
    verdict = judge_claim(filename, mime, os.stat(file).st_size, limits)  # noqa: PTH116 - it may be a descriptor
    if not verdict.accepted:
        return verdict
    with BoundedFile(file, limits.file_max_bytes) as opened:
        opened.seek(0)
        data = opened.read()
    if mismatch := find_mismatch(data[:HEAD_BYTES], mime):
        return reject_file(MISMATCH, mismatch)
    if mime in OFFICE:
        return judge_office(file, mime)
    if mime != PDF and _PDF_HEAD.search(data[:_PDF_READERS_LOOK_BYTES]) and b"startxref" in data:
        return reject_file(POLYGLOT, "it is a PDF as well")
    if mime == PDF:
        from stepline.preflight.judge_pdf import judge_pdf  # noqa: PLC0415 - heavy, and claims are judged without it

        verdict = judge_pdf(data)
    elif mime in PICTURES:
        verdict = judge_picture(data, mime, max_bytes=limits.picture_max_bytes)
    else:
        verdict = judge_text(data)
    if verdict.accepted and _is_archive(file):
        return reject_file(POLYGLOT, "it is an archive as well")
    return verdict


def _is_accepted(mime: str) -> bool:
    return (
        mime in PICTURES or mime == PDF or mime in OFFICE or (is_text(mime) and not mime.startswith("image/"))
    )


def _max_bytes(mime: str, limits: FileLimits) -> int:
    if mime in PICTURES:
        return limits.picture_max_bytes
    return limits.document_max_bytes if mime == PDF else limits.file_max_bytes


def _is_archive(file: Path | int) -> bool:
    """Return True if a reader of archives, which begins at the end, would find one in the file."""
    with BoundedFile(file, _ARCHIVE_END_BYTES) as opened:
        return zipfile.is_zipfile(opened)
