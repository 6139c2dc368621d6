"""A file from outside: the type that is stated, the one of its name and the one of its bytes agree, and its parser's rules hold.

    picture, PDF, document of Office, text      taken, if nothing speaks against it
    anything else                               refused

Bytes after the end of a picture are of another file, except of a JPEG: cameras put previews and films there.
Source: docs/how-to/uploads.md#what-is-taken; www.w3.org/TR/png-3, "Datastream structure";
developers.google.com/speed/webp/docs/riff_container.
"""

from __future__ import annotations

import os
import re
import struct
import zipfile
from pathlib import Path
from typing import Final

from stepline.errors import ToolError
from stepline.model.file.charset import UTF_8, marked_codec, read_as
from stepline.model.file.file_verdict import EMPTY, SIZE, TAKEN, FileLimits, FileVerdict, rejected
from stepline.model.file.magic_bytes import HEAD_BYTES, MISMATCH, find_mismatch
from stepline.model.file.mime import (
    DOCX,
    PDF,
    PICTURES,
    PLAIN,
    PPTX,
    UNKNOWN,
    XLSX,
    ends_acting,
    guess_mime,
    is_binary,
    is_text,
)
from stepline.preflight.detect_charset import detect_charset
from stepline.preflight.judge_office import judge_office
from stepline.programs.archive.zip import BoundedFile
from stepline.tools.read.picture import fit_picture

TRAILING: Final = "trailing_data"
_PAGE: Final = re.compile(
    rb"<(?:html|head|body|script|iframe|svg|\?php|!doctype\s+html|hta:application)[\s>/]", re.IGNORECASE
)
"""What a browser or a server runs if it takes the file for a page; in bytes of pixels it occurs once in a million pictures."""
_PNG_HEAD: Final = 8
_PNG_CHUNK: Final = 12
_GIF_HEAD: Final = 13
_GIF_IMAGE: Final = 10


def judge_picture(data: bytes, mime: str, *, max_bytes: int) -> FileVerdict:
    """Judge a picture of one of the four types. Pure."""
    try:
        fit_picture(data, mime, max_bytes=max_bytes)
    except ToolError as error:
        return rejected(error.reason, str(error))
    end = _end_of(data, mime)
    if not 0 <= end <= len(data):
        return rejected("image_unreadable", "it does not end like a picture of this type")
    if end < len(data):
        return rejected(TRAILING, "something follows the end of the picture")
    if _PAGE.search(data):
        return rejected(POLYGLOT, "it is a page as well: it has parts of HTML or a script")
    return TAKEN


def _end_of(data: bytes, mime: str) -> int:
    """Return where a picture ends; -1 if nowhere. A JPEG ends with the file."""
    try:
        match mime:
            case "image/png":
                return _png_end(data)
            case "image/gif":
                return _gif_end(data)
            case "image/webp":
                (size_bytes,) = struct.unpack_from("<I", data, 4)
                return 8 + int(size_bytes) + int(size_bytes) % 2
            case _:
                return len(data)
    except (struct.error, IndexError):
        return -1


def _png_end(data: bytes) -> int:
    at, kind = _PNG_HEAD, b""
    while kind != b"IEND":
        length = int.from_bytes(data[at : at + 4])
        if not (kind := data[at + 4 : at + 8]):
            return -1
        at += length + _PNG_CHUNK
    return at


def _gif_end(data: bytes) -> int:
    at = _GIF_HEAD + _colours(data[10])
    while True:
        match data[at]:
            case 0x3B:
                return at + 1
            case 0x21:
                at = _gif_blocks(data, at + 2)
            case 0x2C:
                at = _gif_blocks(data, at + _GIF_IMAGE + _colours(data[at + 9]) + 1)
            case _:
                return -1


def _colours(flags: int) -> int:
    """Return the bytes of a table of colours; 0 if there is none."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _gif_blocks(data: bytes, at: int) -> int:
    while length := data[at]:
        at += length + 1
    return at + 1


TEXT_MAX_BYTES: Final = 10 * 1024 * 1024
_CONTROL: Final = re.compile(r"[\x00-\x07\x0e-\x1a\x1c-\x1f\x7f]")
"""Control characters but tabs, ends of lines and pages, and the escape of a terminal's colours."""
_BINARY: Final = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")


def judge_text(data: bytes) -> FileVerdict:
    """Judge bytes of any type of text; a verdict that takes them records their encoding. Pure."""
    if len(data) > TEXT_MAX_BYTES:
        return rejected("text_too_large", f"a text has at most {TEXT_MAX_BYTES} bytes")
    charset = detect_charset(data)
    if charset is None:
        if found := _BINARY.search(data):
            return rejected(
                "text_binary", f"it has the control character U+{found[0][0]:04X}, which no text has"
            )
        return rejected(
            "text_undecodable",
            "its encoding cannot be determined: UTF-8, UTF-16 and UTF-32 are read always, Windows, ISO 8859, KOI8, Shift_JIS, "
            "EUC, GB 18030 and Big5 where there is enough text; save it as UTF-8",
        )
    text = data.decode(marked_codec(data) or read_as(charset or UTF_8))
    if control := _CONTROL.search(text):
        return rejected(
            "text_binary", f"it has the control character U+{ord(control[0]):04X}, which no text has"
        )
    return FileVerdict(charset=charset)


OFFICE: Final = frozenset({DOCX, PPTX, XLSX})
POLYGLOT: Final = "polyglot"
_PDF_READERS_LOOK_BYTES: Final = 1024
_ARCHIVE_END_BYTES: Final = 128 * 1024
"""The end of an archive with the longest comment that one may have."""
_PDF_HEAD: Final = re.compile(rb"%PDF-[0-9]")


def agreed_mime(filename: str, mime: str) -> str:
    """Return the type of a file: as it is stated, in lower case and without parameters, if files of that type are taken.

    Otherwise the name says it, since browsers and systems call TypeScript a film and a CSV a spreadsheet; a name that
    says nothing, and an unknown type, are a text's, if the bytes are.
    """
    kind, named = mime.partition(";")[0].strip().lower(), guess_mime(filename)
    if _is_taken(kind):
        return kind
    if named != UNKNOWN:
        return named
    return kind if is_binary(kind) else PLAIN


def judge_claim(filename: str, mime: str, size_bytes: int, limits: FileLimits) -> FileVerdict:
    """Judge what is said about a file, before there are bytes. Pure."""
    if ending := ends_acting(filename):
        return rejected(
            "type_not_allowed",
            f"a desktop would act on a file named .{ending}; rename it to .txt to send its text",
        )
    if not _is_taken(mime):
        return rejected("type_not_allowed", f"files of the type {mime[:80]} are not taken")
    named = guess_mime(filename)
    if named not in (UNKNOWN, mime) and not (is_text(named) and is_text(mime)):
        return rejected(MISMATCH, f"its type is {mime}, and its name is one of {named}")
    if not size_bytes:
        return FileVerdict(code=EMPTY, message="it is empty")
    if size_bytes > (most := _max_bytes(mime, limits)):
        return FileVerdict(code=SIZE, message=f"it has {size_bytes} bytes; {most} are taken")
    return TAKEN


def judge_file(file: Path | int, *, filename: str, mime: str, limits: FileLimits) -> FileVerdict:
    """Judge a file at a path, or behind an open descriptor; any bytes get a verdict. Raises OSError.

    `mime` is as `agreed_mime` returns it.
    """
    verdict = judge_claim(filename, mime, os.stat(file).st_size, limits)  # noqa: PTH116 - it may be a descriptor
    if not verdict.accepted:
        return verdict
    with BoundedFile(file, limits.file_max_bytes) as opened:
        opened.seek(0)
        data = opened.read()
    if mismatch := find_mismatch(data[:HEAD_BYTES], mime):
        return rejected(MISMATCH, mismatch)
    if mime in OFFICE:
        return judge_office(file, mime)
    if mime != PDF and _PDF_HEAD.search(data[:_PDF_READERS_LOOK_BYTES]) and b"startxref" in data:
        return rejected(POLYGLOT, "it is a PDF as well")
    if mime == PDF:
        from stepline.preflight.judge_pdf import judge_pdf  # noqa: PLC0415 - heavy, and claims are judged without it

        verdict = judge_pdf(data)
    elif mime in PICTURES:
        verdict = judge_picture(data, mime, max_bytes=limits.picture_max_bytes)
    else:
        verdict = judge_text(data)
    if verdict.accepted and _is_archive(file):
        return rejected(POLYGLOT, "it is an archive as well")
    return verdict


def _is_taken(mime: str) -> bool:
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
