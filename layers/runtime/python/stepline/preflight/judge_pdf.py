"""PDFs from outside: opened by qpdf, as readers open them, and judged object by object.

A file whose tables of objects are damaged is scanned for objects, as readers do then. An undamaged one is scanned
as well, for objects that its tables leave out or list twice with different content.
Source: ISO 32000-2, 7.5 "File structure"; docs/adr/0003-dependencies.md.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import pikepdf

from stepline.model.file.file_verdict import TAKEN, FileVerdict, reject_file
from stepline.model.file.magic_bytes import find_mismatch
from stepline.preflight.objection import Objection
from stepline.preflight.pdf_objects import judge_objects

OBJECTS_MAX: Final = 100_000
OBJECT_STREAMS_MAX: Final = 2_000
PAGES_MAX: Final = 500
UNPACKED_MAX_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of the objects that are packed in streams."""
TAIL_MAX_BYTES: Final = 1024
"""The maximum number of bytes after the last end mark: some programs add line ends there."""

HEAD: Final = b"%PDF-1.7\n"
PACKED: Final = 2
"""The kind of an entry of the tables: an object that is in a stream of objects."""
UNREADABLE: Final = "pdf_unreadable"
_OTHER_FILE: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<|#!)|MZ")
"""The beginning of another file, which must not precede the head of a PDF, where readers accept anything."""
_SAID: Final = re.compile(r"stream <[^>]{0,100}>[^:]{0,100}: ")
_DAMAGED: Final = "Attempting to reconstruct cross-reference table"
_TOLERATED: Final = (
    "file is damaged",
    _DAMAGED,
    "can't find startxref",
    "xref not found",
    "xref syntax invalid",
    "invalid xref",
    "expected trailer",
    "expected n n obj",
    "expected end",
    "object has offset 0",
    "reported number of objects",
    "attempting to recover stream length",
    "recovered stream length",
    "stream dictionary lacks /Length",
    "EOF after endobj",
    "extraneous whitespace",
    "stream keyword",
    "Catalog: setting missing",
    "kid ",
)
"""The beginnings of warnings about the positions of objects and streams; any other is about an object's content."""
_TWICE: Final = "duplicated key"


def judge_pdf(data: bytes) -> FileVerdict:
    """Judge a PDF. Pure, and within the time and the memory of its process."""
    try:
        _judge_ends(data)
        _judge_views(data)
    except Objection as objection:
        return objection.verdict
    except pikepdf.PasswordError:
        return reject_file("pdf_encrypted", "it is encrypted, and a model takes no password")
    except MemoryError:
        return reject_file("pdf_too_large", "its objects take more room than is unpacked")
    except Exception as error:  # noqa: BLE001 - any error of a parser about foreign bytes is a verdict
        return reject_file(UNREADABLE, f"it cannot be read as a PDF: {type(error).__name__}")
    return TAKEN


def _judge_ends(data: bytes) -> None:
    head = data.find(b"%PDF-")
    if head and (find_mismatch(data, "text/plain") or _OTHER_FILE.match(data)):
        raise Objection("polyglot", "it begins like another file")
    if (end := data.rfind(b"%%EOF")) < 0:
        raise Objection(UNREADABLE, "it ends before its last line: it is not whole")
    if len(data) - end > TAIL_MAX_BYTES:
        raise Objection("trailing_data", "something follows the end of the PDF")


def _judge_views(data: bytes) -> None:
    """Judge a file as each kind of reader sees it. Raises Objection, and any error of the parser."""
    seen, failure = list[_Seen](), None
    for view in _views(data):
        try:
            seen.append(_judge_by_tables(view))
        except pikepdf.PdfError as error:
            failure = error
    if failure is not None and not any(one.is_whole for one in seen):
        raise failure
    for one in seen:
        with suppress(pikepdf.PdfError):
            _judge_without_tables(data, one)


def _views(data: bytes) -> Iterator[bytes]:
    """Yield a file in its views: some readers count positions from its head, others from its first byte."""
    yield data
    if data.find(b"%PDF-") > 0:
        yield HEAD + data[len(HEAD) :]


class _Seen(NamedTuple):
    """A file as its tables describe it."""

    is_whole: bool
    unpacked: bytes
    trailer: bytes


def _judge_by_tables(data: bytes) -> _Seen:
    """Judge a file as its tables say. Raises Objection, pikepdf.PdfError."""
    with _opened(data) as pdf:
        warnings = pdf.get_warnings()
        unpacked = _unpack(pdf)
        judge_objects(pdf, is_partial=b"XRefStm" in data)
        warnings += pdf.get_warnings()
        _judge_pages(pdf)
        trailer = b"\ntrailer\n<< /Root %d %d R >>\n" % pdf.trailer["/Root"].objgen
    said = [_SAID.sub("", str(warning), count=1) for warning in warnings]
    for warning in said:
        if _TWICE in warning:
            raise Objection("pdf_obfuscated", "a part of it can be read in two ways")
        if not warning.startswith(_TOLERATED):
            raise Objection(UNREADABLE, "an object of it cannot be read for certain")
    return _Seen(_DAMAGED not in said, unpacked, trailer)


def _judge_without_tables(data: bytes, seen: _Seen) -> None:
    """Judge everything in a file that looks like an object, and every packed one: of two with one number, each is judged."""
    loose = data.replace(b"startxref", b"startscan")
    with _opened(loose + seen.unpacked + seen.trailer) as pdf:
        unpacked = _unpack(pdf)
        judge_objects(pdf, is_partial=unpacked != seen.unpacked)
    if unpacked:
        with _opened(HEAD + unpacked + loose + seen.trailer) as pdf:
            judge_objects(pdf)
    if unpacked != seen.unpacked:
        with _opened(loose + unpacked + seen.trailer) as pdf:
            judge_objects(pdf)


@contextmanager
def _opened(data: bytes) -> Iterator[pikepdf.Pdf]:
    """Open a PDF. Raises Objection, pikepdf.PdfError."""
    with pikepdf.open(io.BytesIO(data), suppress_warnings=True, inherit_page_attributes=False) as pdf:
        if pdf.is_encrypted:
            raise Objection("pdf_encrypted", "it is encrypted, and a model takes no password")
        if len(pdf.get_xref_table()) > OBJECTS_MAX:
            raise Objection("pdf_too_many_objects", f"it has more than {OBJECTS_MAX} objects")
        yield pdf


def _unpack(pdf: pikepdf.Pdf) -> bytes:
    """Return the objects in streams of objects, as if they were not packed. Raises Objection.

    Each stream can be unpacked to its end, and its list agrees with the tables.
    """
    out, packed, room = list[bytes](), dict[int, list[int]](), UNPACKED_MAX_BYTES
    for found in pdf.objects:
        if not isinstance(found, pikepdf.Stream) or found.get("/Type") != "/ObjStm":
            continue
        if len(packed) == OBJECT_STREAMS_MAX:
            raise Objection(
                "pdf_too_many_object_streams", f"it has more than {OBJECT_STREAMS_MAX} streams of objects"
            )
        try:
            unpacked = found.read_bytes()
        except pikepdf.PikepdfError as error:
            raise Objection(
                UNREADABLE, "some of its objects are packed in a way that cannot be looked into"
            ) from error
        room -= len(unpacked)
        if room < 0:
            raise Objection("pdf_too_large", "its objects take more room than is unpacked")
        listed = _listed(found, unpacked)
        packed[found.objgen[0]] = [number for number, _ in listed]
        ends = [start for _, start in listed[1:]] + [len(unpacked)]
        out += (
            b"%d 0 obj\n%s\nendobj\n" % (number, unpacked[start:end])
            for (number, start), end in zip(listed, ends, strict=False)
        )
    for (number, _), entry in pdf.get_xref_table().items():
        if entry.type == PACKED:
            numbers, index = packed.get(entry.obj_stream_number or 0, []), entry.obj_stream_index or 0
            if index >= len(numbers) or numbers[index] != number:
                raise Objection(UNREADABLE, "its packed objects are not where its tables say")
    return b"".join(out)


def _listed(stream: pikepdf.Object, unpacked: bytes) -> list[tuple[int, int]]:
    """Return number and position of each object in a stream. Raises Objection."""
    count, first = int(stream["/N"]), int(stream["/First"])
    words = unpacked[: max(first, 0)].split()[: 2 * max(count, 0)]
    if count < 0 or len(words) < 2 * count or not all(word.isdigit() for word in words):
        raise Objection(UNREADABLE, "a stream of its objects has no list of them")
    numbers = [int(word) for word in words[::2]]
    places = [first + int(word) for word in words[1::2]]
    if len(set(numbers)) < count or sorted(set(places)) != places or (places and places[-1] >= len(unpacked)):
        raise Objection(UNREADABLE, "a stream of its objects lists them in two ways")
    return list(zip(numbers, places, strict=True))


def _judge_pages(pdf: pikepdf.Pdf) -> None:
    pages = len(pdf.pages)
    if not pages:
        raise Objection(UNREADABLE, "no page is found in it")
    if pages > PAGES_MAX:
        raise Objection("pdf_too_many_pages", f"it has {pages} pages; {PAGES_MAX} are accepted")
