"""Documents of Office from outside, by their structure: parts, their stated types, and their relations.

The archive is first inflated and counted like every archive: sizes and checksums of the parts read here are correct, each
byte belongs to one member, and there are no other bytes. Then every part that is XML is read
(`judge_markup`), whatever its name. Source: ECMA-376-2, "Open Packaging Conventions".
"""

from __future__ import annotations

import os
import posixpath
import re
import zipfile
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any, Final
from xml.parsers import expat

from stepline.model.file.file_verdict import REJECTED, TAKEN, FileVerdict, reject_file
from stepline.model.file.mime import DOCX, PPTX, XLSX
from stepline.preflight.judge_markup import judge_markup
from stepline.preflight.link_target import is_remote, leads_outside
from stepline.preflight.objection import ACTIVE, DOCTYPE, EXTERNAL, MACROS, OBJECT, Objection
from stepline.programs.archive.contents import PROBLEMS_MAX
from stepline.programs.archive.member import ARCHIVE_CHUNK_BYTES, ArchiveLimits, ArchiveProblem, Budget, Unfit
from stepline.programs.archive.zip import ZIP_ERRORS, inspect_zip, open_bounded

MIB: Final = 1024 * 1024
LIMITS: Final = ArchiveLimits(
    max_entries=2_000, max_inflated_bytes=120 * MIB, max_ratio=200, ratio_from_bytes=16 * MIB
)
PART_RATIO_FROM_BYTES: Final = MIB
"""A smaller part may have any ratio: a blank picture packs very well."""
TYPES_PART: Final = "[Content_Types].xml"
STRUCTURE_MAX_BYTES: Final = 4 * MIB
"""The maximum size of a part that describes others."""

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
_ACTIVE_PART: Final = re.compile(r"(?:^|/)webextensions/")
_ACTIVE_TYPE: Final = re.compile(r"webextension")
_CHART_TYPE: Final = re.compile(r"drawingml\.chart\+xml$|ms-office\.chartex\+xml$")
_MARKUP_HEAD: Final = re.compile(rb"(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)?[\s\0]*<")
_MARKUP_PART: Final = re.compile(r"\.(?:xml|rels|vml)$")
_MARKUP_TYPE: Final = re.compile(r"[+/]xml$|vmldrawing$")
_DRAWING: Final = re.compile(r"\.svgz?$")
"""Pictures that are XML: readers of a document use nothing else for them."""
_OWN_DATA: Final = re.compile(r"customxml/item[0-9]*\.xml$")
_KINDS: Final = {
    **dict.fromkeys(("vbaproject", "wordvbadata", "xlmacrosheet", "xlintlmacrosheet"), MACROS),
    **dict.fromkeys(("keymapcustomizations", "attachedtoolbars", "dialogsheet"), MACROS),
    **dict.fromkeys(("oleobject", "package", "control", "activexcontrolbinary", "afchunk"), OBJECT),
    **dict.fromkeys(("externallink", "externallinkpath", "xlpathmissing", "subdocument"), EXTERNAL),
    **dict.fromkeys(("webextension", "webextensiontaskpanes"), ACTIVE),
}
"""Relations that are refused wherever they lead, by the last word of their type."""


class _Types:
    """The types of a document's parts, as its list states them."""

    def __init__(self, elements: list[dict[str, str]]) -> None:
        self._by_name: dict[str, str] = {}
        self._by_ending: dict[str, str] = {}
        self.stated = set[str]()
        for element in elements:
            stated = element.get("ContentType", "").strip().lower()
            self.stated.add(stated)
            self._by_name[element.get("PartName", "").strip().lower().lstrip("/")] = stated
            self._by_ending[element.get("Extension", "").strip().lower()] = stated

    def of(self, name: str) -> str:
        return self._by_name.get(name) or self._by_ending.get(name.rpartition(".")[2], "")


class _Relations:
    """The links of each part, and the workbooks of charts, as the relations of a document name them."""

    def __init__(self) -> None:
        self.links: defaultdict[str, set[str]] = defaultdict(set)
        """Ids of relations that a reader follows by hand, by the name of the part that has them."""
        self.workbooks = set[str]()


def judge_office(source: Path | int | bytes, mime: str, *, is_within: bool = False) -> FileVerdict:
    """Judge a document of the type `mime`: a path, an open descriptor, or bytes. Pure but for reading it.

    `is_within`: it is part of another document, and its own charts must not have workbooks.
    """
    if problems := _inspect(source):
        codes = tuple(dict.fromkeys(problem.code for problem in problems))
        first = problems[0]
        where = f" ({first.member})" if first.member else ""
        return FileVerdict(code=REJECTED, reasons=codes, message=f"{first.message}{where}")
    try:
        with open_bounded(source, STRUCTURE_MAX_BYTES) as file, zipfile.ZipFile(file) as book:
            kind = _judge_document(book, is_within=is_within)
    except Objection as objection:
        return objection.verdict
    except (*ZIP_ERRORS, expat.ExpatError, RuntimeError, LookupError, MemoryError) as error:
        return reject_file("ooxml_unreadable", f"it cannot be read as a document: {type(error).__name__}")
    if kind != mime:
        return reject_file(
            "content_type_mismatch", f"its type is {mime}, and it is a document of another one"
        )
    return TAKEN


def _inspect(source: Path | int | bytes) -> list[ArchiveProblem]:
    """Return the first problem of the document as an archive, if any."""
    size_bytes = len(source) if isinstance(source, bytes) else os.stat(source).st_size  # noqa: PTH116 - or a descriptor
    budget = Budget(LIMITS, size_bytes)
    try:
        return list(islice(inspect_zip(source, budget, LIMITS), PROBLEMS_MAX))
    except Unfit as unfit:
        return [unfit.problem]


def _judge_document(book: zipfile.ZipFile, *, is_within: bool) -> str:
    """Return the type of a document. Raises Objection."""
    if book.comment:
        raise Objection("trailing_data", "something follows the end of the document")
    types, kind = _judge_types(book)
    relations = _judge_relations(book, types)
    workbooks = set[str]() if is_within else relations.workbooks
    for info in book.infolist():
        _judge_member(info, workbooks)
    for info in book.infolist():
        name = info.filename.lower()
        if name in workbooks:
            _judge_workbook(_read(book, info.filename))
        else:
            _judge_part(book, info, types.of(name), relations.links[name])
    return kind


def _judge_member(info: zipfile.ZipInfo, workbooks: set[str]) -> None:
    name = info.filename.lower()
    if info.file_size > max(PART_RATIO_FROM_BYTES, info.compress_size * LIMITS.max_ratio):
        raise Objection(
            "archive_ratio_too_high", f"a part grows to more than {LIMITS.max_ratio} times its size"
        )
    if _MACRO_PART.search(name):
        raise Objection(*MACROS)
    if _OBJECT_PART.search(name) and name not in workbooks:
        raise Objection(*OBJECT)
    if _LINK_PART.search(name):
        raise Objection(EXTERNAL[0], "it takes values from another document")
    if _ACTIVE_PART.search(name):
        raise Objection(*ACTIVE)
    if _NESTED_PART.search(name):
        raise Objection("archive_nested", "another archive is in it")


def _judge_types(book: zipfile.ZipFile) -> tuple[_Types, str]:
    """Return the types that a document states for its parts, and its own."""
    if TYPES_PART not in book.namelist():
        raise Objection("archive_not_allowed", "archives are not accepted, only documents of Office")
    types = _Types(_elements(_read(book, TYPES_PART)))
    for stated in types.stated:
        if _MACRO_TYPE.search(stated):
            raise Objection(*MACROS)
        if _OBJECT_TYPE.search(stated):
            raise Objection(*OBJECT)
        if _ACTIVE_TYPE.search(stated):
            raise Objection(*ACTIVE)
    kinds = {kind for stated, kind in _MAIN.items() if stated in types.stated}
    if len(kinds) != 1:
        raise Objection("ooxml_unreadable", "it states no type of a document, or several")
    return types, kinds.pop()


def _judge_relations(book: zipfile.ZipFile, types: _Types) -> _Relations:
    found = _Relations()
    for name in book.namelist():
        if not name.lower().endswith(".rels"):
            continue
        folder, _, own = name.lower().rpartition("/")
        part = posixpath.join(posixpath.dirname(folder), own.removesuffix(".rels"))
        for relation in _elements(_read(book, name)):
            kind = relation.get("Type", "").strip().rstrip("/").rpartition("/")[2].lower()
            target = relation.get("Target", "").strip()
            outside = relation.get("TargetMode", "").strip().lower() == "external" or leads_outside(target)
            if outside and kind == "hyperlink":
                found.links[part].add(relation.get("Id", ""))
            elif not outside and kind == "package" and _CHART_TYPE.search(types.of(part)):
                found.workbooks.add(posixpath.normpath(posixpath.join("/", folder, "..", target.lower()))[1:])
            else:
                _judge_relation(kind, target, is_outside=outside)
    return found


def _judge_relation(kind: str, target: str, *, is_outside: bool) -> None:
    if refused := _KINDS.get(kind):
        raise Objection(*refused)
    if is_outside and (kind != "attachedtemplate" or is_remote(target)):
        raise Objection(*EXTERNAL)


def _judge_workbook(data: bytes) -> None:
    """Judge the workbook with the numbers of a chart, like a separate file."""
    verdict = judge_office(data, XLSX, is_within=True)
    if not verdict.accepted:
        raise Objection(verdict.reasons[0], f"the workbook of a chart in it is refused: {verdict.message}")


def _judge_part(book: zipfile.ZipFile, info: zipfile.ZipInfo, stated: str, links: set[str]) -> None:
    name = info.filename.lower()
    with book.open(info) as part:
        head = part.read(ARCHIVE_CHUNK_BYTES)
    if _NESTED_HEAD.match(head):
        raise Objection("archive_nested", "another archive is in it")
    if _PROGRAM_HEAD.match(head):
        raise Objection(*OBJECT)
    if _DRAWING.search(name) or not head:
        return
    if _MARKUP_PART.search(name) or _MARKUP_TYPE.search(stated) or _MARKUP_HEAD.match(head):
        is_data = _OWN_DATA.fullmatch(name) is not None and stated == "application/xml"
        with book.open(info) as part:
            judge_markup(part, links, is_data=is_data)


def _read(book: zipfile.ZipFile, name: str) -> bytes:
    with book.open(name) as part:
        data = part.read(STRUCTURE_MAX_BYTES + 1)
    if len(data) > STRUCTURE_MAX_BYTES:
        raise Objection("ooxml_unreadable", "a part that says what others are is too large")
    return data


def _elements(data: bytes) -> list[dict[str, str]]:
    """Return the attributes of every element."""
    found: list[dict[str, str]] = []

    def refuse(*_: Any) -> None:
        raise Objection(*DOCTYPE)

    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda _tag, attributes: found.append(attributes)
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)
    return found
