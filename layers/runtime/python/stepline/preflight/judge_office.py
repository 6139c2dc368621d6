"""Office documents from outside, by their structure: parts, the types that they state, and their relations.

The archive is first inflated and counted as every archive is: of what is read here sizes and checksums hold, each
byte belongs to one member, and nothing stands beside them.
Source: ECMA-376-2, "Open Packaging Conventions".
"""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final
from xml.parsers import expat

from stepline.model.file.file_verdict import REJECTED, TAKEN, FileVerdict, rejected
from stepline.model.file.mime import DOCX, PPTX, XLSX
from stepline.programs.archive.contents import PROBLEMS_MAX
from stepline.programs.archive.member import CHUNK_BYTES, ArchiveLimits, ArchiveProblem, Budget, Unfit
from stepline.programs.archive.zip import BROKEN, BoundedFile, inspect_zip

MIB: Final = 1024 * 1024
LIMITS: Final = ArchiveLimits(
    max_entries=2_000, max_inflated_bytes=120 * MIB, max_ratio=200, ratio_from_bytes=0
)
TYPES_PART: Final = "[Content_Types].xml"
STRUCTURE_MAX_BYTES: Final = 4 * MIB
"""The largest part that says what others are."""

_MAIN: Final = {
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml": DOCX,
    "application/vnd.openxmlformats-officedocument.presentationml.presentation.main+xml": PPTX,
    "application/vnd.openxmlformats-officedocument.presentationml.slideshow.main+xml": PPTX,
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml": XLSX,
}
_MACRO_TYPE: Final = re.compile(r"macroenabled|vbaproject|vbadata|macrosheet|keymapcustomizations")
_MACRO_PART: Final = re.compile(r"(?:^|/)(?:vbaproject|vbadata|macrosheets|dialogsheets)")
_OBJECT_TYPE: Final = re.compile(r"oleobject|activex|officedocument\.package$|msdownload|-dosexec")
_OBJECT_PART: Final = re.compile(r"(?:^|/)(?:embeddings|activex)/|oleobject[0-9]*\.bin$")
_LINK_PART: Final = re.compile(r"(?:^|/)externallinks/")
_NESTED_PART: Final = re.compile(r"\.(?:zip|jar|war|apk|7z|rar|tar|gz|tgz|bz2|xz|docm|xlsm|pptm)$")
_NESTED_HEAD: Final = re.compile(rb"PK\x03\x04|\x1f\x8b\x08|7z\xbc\xaf|Rar!\x1a\x07|BZh[1-9]|\xfd7zXZ\x00")
_PROGRAM_HEAD: Final = re.compile(rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|MZ|\x7fELF|%PDF-")
_FOLLOWED: Final = re.compile(r"(?:https?|mailto):|#", re.IGNORECASE)
"""Targets outside that a reader of the document may follow by hand: those of its hyperlinks."""


class _Unfit(Exception):  # noqa: N818 - no error: it ends one look and never leaves this module
    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.verdict = rejected(reason, message)


def judge_office(path: Path | int, mime: str) -> FileVerdict:
    """Judge a document of the type `mime` at a path, or behind an open descriptor. Pure but for reading it."""
    if problems := _inspect(path):
        codes = tuple(dict.fromkeys(problem.code for problem in problems))
        first = problems[0]
        where = f" ({first.member})" if first.member else ""
        return FileVerdict(code=REJECTED, reasons=codes, message=f"{first.message}{where}")
    try:
        with BoundedFile(path, STRUCTURE_MAX_BYTES) as file, zipfile.ZipFile(file) as book:
            _judge_members(book)
            kind = _judge_types(book)
            for info in book.infolist():
                _judge_part(book, info)
    except _Unfit as unfit:
        return unfit.verdict
    except (*BROKEN, expat.ExpatError, RuntimeError) as error:
        return rejected("ooxml_unreadable", f"it cannot be read as a document: {type(error).__name__}")
    if kind != mime:
        return rejected("content_type_mismatch", f"its type is {mime}, and it is a document of another one")
    return TAKEN


def _inspect(path: Path | int) -> list[ArchiveProblem]:
    """Return the problems of the document as an archive, the first of them."""
    budget = Budget(LIMITS, os.stat(path).st_size)  # noqa: PTH116 - it may be a descriptor
    try:
        return list(islice(inspect_zip(path, budget, LIMITS), PROBLEMS_MAX))
    except Unfit as unfit:
        return [unfit.problem]


def _judge_members(book: zipfile.ZipFile) -> None:
    if book.comment:
        raise _Unfit("trailing_data", "something stands behind the end of the document")
    for info in book.infolist():
        name = info.filename.lower()
        if info.file_size > info.compress_size * LIMITS.max_ratio:
            raise _Unfit(
                "archive_ratio_too_high", f"a part grows to more than {LIMITS.max_ratio} times its size"
            )
        if _MACRO_PART.search(name):
            raise _Unfit("ooxml_macros", "it has macros")
        if _OBJECT_PART.search(name):
            raise _Unfit("ooxml_embedded_object", "another file or a control is in it")
        if _LINK_PART.search(name):
            raise _Unfit("ooxml_external", "it takes values from another document")
        if _NESTED_PART.search(name):
            raise _Unfit("archive_nested", "another archive is in it")


def _judge_types(book: zipfile.ZipFile) -> str:
    """Return the type of the document that its list of types states."""
    if TYPES_PART not in book.namelist():
        raise _Unfit("archive_not_allowed", "archives are not taken, only documents of Office")
    found = {item.get("ContentType", "").strip().lower() for item in _elements(_read(book, TYPES_PART))}
    for stated in found:
        if _MACRO_TYPE.search(stated):
            raise _Unfit("ooxml_macros", "it has macros")
        if _OBJECT_TYPE.search(stated):
            raise _Unfit("ooxml_embedded_object", "another file or a control is in it")
    kinds = {kind for stated, kind in _MAIN.items() if stated in found}
    if len(kinds) != 1:
        raise _Unfit("ooxml_unreadable", "it states no type of a document, or several")
    return kinds.pop()


def _judge_part(book: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    name = info.filename.lower()
    with book.open(info) as part:
        head = part.read(CHUNK_BYTES)
        if _NESTED_HEAD.match(head):
            raise _Unfit("archive_nested", "another archive is in it")
        if _PROGRAM_HEAD.match(head):
            raise _Unfit("ooxml_embedded_object", "another file or a control is in it")
        if name.endswith((".xml", ".rels", ".vml")) and _declares(head, part):
            raise _Unfit("ooxml_document_type", "its XML declares a document type")
    if name.endswith(".rels"):
        for relation in _elements(_read(book, info.filename)):
            _judge_relation(relation)


def _declares(head: bytes, part: IO[bytes]) -> bool:
    """Return True if a part declares a document type, in whatever encoding; what it is read in overlaps."""
    kept = b""
    while head:
        kept += head.replace(b"\0", b"")
        if b"<!DOCTYPE" in kept or b"<!ENTITY" in kept:
            return True
        kept, head = kept[-16:], part.read(CHUNK_BYTES)
    return False


def _judge_relation(relation: dict[str, str]) -> None:
    kind = relation.get("Type", "").rpartition("/")[2].lower()
    target = relation.get("Target", "").strip()
    if kind in ("vbaproject", "wordvbadata", "xlmacrosheet", "keymapcustomizations"):
        raise _Unfit("ooxml_macros", "it has macros")
    if kind in ("oleobject", "package", "control", "activexcontrolbinary"):
        raise _Unfit("ooxml_embedded_object", "another file or a control is in it")
    outside = relation.get("TargetMode", "").lower() == "external" or "://" in target
    if outside and not (kind == "hyperlink" and _FOLLOWED.match(target)):
        raise _Unfit("ooxml_external", "it fetches something from outside when it is opened")


def _read(book: zipfile.ZipFile, name: str) -> bytes:
    with book.open(name) as part:
        data = part.read(STRUCTURE_MAX_BYTES + 1)
    if len(data) > STRUCTURE_MAX_BYTES:
        raise _Unfit("ooxml_unreadable", "a part that says what others are is too large")
    return data


def _elements(data: bytes) -> Iterator[dict[str, str]]:
    """Return the attributes of every element."""
    found: list[dict[str, str]] = []

    def refuse(*_: Any) -> None:
        raise _Unfit("ooxml_document_type", "its XML declares a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda _tag, attributes: found.append(attributes)
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)
    return iter(found)
