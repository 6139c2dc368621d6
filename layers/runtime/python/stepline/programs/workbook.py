"""Whether an XLSX file opens and shows something: what a program most often gets wrong about one.

Only the parts that say so are read, each up to a limit that is counted on what comes out, and their XML without a
document type: a file of a program is no friend.
"""

from __future__ import annotations

import posixpath
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final
from xml.parsers import expat

from stepline.model.base import Value
from stepline.programs.archive.member import CHUNK_BYTES
from stepline.programs.archive.zip import BROKEN, BoundedFile

PART_BYTES_MAX: Final = 8 * 1024 * 1024
DIRECTORY_BYTES_MAX: Final = 1024 * 1024
"""Of the list of parts, which is read whole: a workbook of a thousand sheets needs a third of it."""
ELEMENTS_MAX: Final = 10_000

OPEN_FAILED: Final = "xlsx_open_failed"
NO_VISIBLE_SHEETS: Final = "xlsx_no_visible_sheets"

_WORKBOOK: Final = "xl/workbook.xml"
_HIDDEN: Final = ("hidden", "veryHidden")


class Flaw(Value):
    """What is wrong with a workbook."""

    code: str
    message: str


class _Unreadable(Exception):  # noqa: N818 - no error: it ends the look into one file and never leaves this module
    pass


def inspect_workbook(path: Path) -> Flaw | None:
    """Return what is wrong with an XLSX file; None if it opens and has a sheet that is not hidden."""
    try:
        states = _sheet_states(path)
    except (_Unreadable, OSError, *BROKEN, RuntimeError) as error:
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
    """Yield a part piece by piece, at most one piece more than it may have."""
    read_bytes = 0
    while read_bytes <= PART_BYTES_MAX and (piece := part.read(CHUNK_BYTES)):
        read_bytes += len(piece)
        yield piece


def _elements(data: bytes, name: str) -> list[dict[str, str]]:
    """Return the attributes of every element of a local name; a document type, and so any entity, is refused."""
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
