"""PDFs from outside: read in passes over their bytes, as docs/adr/0010-pictures.md decides, and never parsed.

Names are looked for in the whole file and in its unpacked object streams, wherever they stand: what a parser would
skip there is refused rather than missed. Source: ISO 32000-2, 7.3.5 "Name objects", 12.6.4 "Action types".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from stepline.errors import ToolError
from stepline.model.file.file_verdict import TAKEN, FileVerdict, rejected
from stepline.tools.read.pdf import UNPACKED_BYTES, count_pages, object_streams

UPDATES_MAX: Final = 5
OBJECTS_MAX: Final = 100_000
OBJECT_STREAMS_MAX: Final = 2_000
PAGES_MAX: Final = 500
DECLARED_MAX_BYTES: Final = 100 * 1024 * 1024
TAIL_MAX_BYTES: Final = 1024
"""Bytes behind the last end mark: some programs add ends of lines there."""

_OBJECT: Final = re.compile(rb"[0-9] obj(?![A-Za-z])")
_LENGTH: Final = re.compile(rb"/Length\s{0,8}([0-9]{1,19})(?![0-9]|\s{1,8}[0-9]{1,10}\s{1,8}R)")
_PACKED: Final = re.compile(rb"/Type\s{0,8}/ObjStm(?![A-Za-z])")
_ACTIVE: Final = re.compile(rb"/(?:JavaScript|Launch|RichMedia)(?![A-Za-z])")
_EMBEDDED: Final = re.compile(rb"/EmbeddedFiles?(?![A-Za-z])")
_ESCAPED: Final = re.compile(rb"/(?=[A-Za-z]{0,16}#)[A-Za-z0-9#]{3,64}")
_HEX: Final = re.compile(rb"#([0-9A-Fa-f]{2})")
_JUDGED: Final = frozenset(
    {b"Type", b"Page", b"ObjStm", b"Encrypt", b"JavaScript", b"Launch", b"RichMedia"}
    | {b"EmbeddedFile", b"EmbeddedFiles", b"Length"}
)


def judge_pdf(data: bytes) -> FileVerdict:
    """Judge a PDF. Pure."""
    return next(_objections(data), TAKEN)


def _objections(data: bytes) -> Iterator[FileVerdict]:
    if not data.startswith(b"%PDF-"):
        yield rejected("pdf_unreadable", "it does not begin like a PDF")
    if (end := data.rfind(b"%%EOF")) < 0:
        yield rejected("pdf_unreadable", "it ends before its last line: it is not whole")
    if len(data) - end > TAIL_MAX_BYTES:
        yield rejected("trailing_data", "something stands behind the end of the PDF")
    if data.count(b"startxref") > UPDATES_MAX:
        yield rejected("pdf_too_many_updates", f"it was changed more than {UPDATES_MAX} times")
    if _more_than(OBJECTS_MAX, _OBJECT, data):
        yield rejected("pdf_too_many_objects", f"it has more than {OBJECTS_MAX} objects")
    if data.count(b"/ObjStm") > OBJECT_STREAMS_MAX:
        yield rejected(
            "pdf_too_many_object_streams", f"it has more than {OBJECT_STREAMS_MAX} streams of objects"
        )
    if sum(int(found[1]) for found in _LENGTH.finditer(data)) > DECLARED_MAX_BYTES:
        yield rejected(
            "pdf_too_large", f"its streams say that they have more than {DECLARED_MAX_BYTES} bytes"
        )
    yield from _judge_contents(data)


def _judge_contents(data: bytes) -> Iterator[FileVerdict]:
    packed = list(object_streams(data))
    if sum(map(len, packed)) >= UNPACKED_BYTES:
        yield rejected("pdf_too_large", "its objects take more room than is unpacked")
    if not all(packed) or len(packed) < sum(1 for _ in _PACKED.finditer(data)):
        yield rejected("pdf_unreadable", "some of its objects are packed in a way that cannot be looked into")
    for text in (data, *packed):
        if any(_HEX.sub(_letter, found[0])[1:] in _JUDGED for found in _ESCAPED.finditer(text)):
            yield rejected("pdf_obfuscated", "it spells the names of its parts so that they are not found")
        if _ACTIVE.search(text):
            yield rejected("pdf_active_content", "it has a script, or starts something")
        if _EMBEDDED.search(text):
            yield rejected("pdf_embedded_file", "another file is in it")
    try:
        pages = count_pages(data)
    except ToolError as error:
        yield rejected(error.reason, str(error))
        return
    if pages > PAGES_MAX:
        yield rejected("pdf_too_many_pages", f"it has {pages} pages; {PAGES_MAX} are taken")


def _more_than(most: int, pattern: re.Pattern[bytes], data: bytes) -> bool:
    return next(islice(pattern.finditer(data), most, None), None) is not None


def _letter(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])
