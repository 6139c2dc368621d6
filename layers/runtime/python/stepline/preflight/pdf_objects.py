"""The objects of a PDF, each of them, at any position: what they start, what they fetch, which files they embed.

Source: ISO 32000-2, 12.6 "Actions", 7.11 "File specifications"; Factur-X 1.0, 6.2 "Embedding".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from xml.parsers import expat

import pikepdf

from stepline.preflight.link_target import is_remote, scheme_of
from stepline.preflight.objection import Objection

ACTIVE: Final = ("pdf_active_content", "it has a script, or starts something")
OPENED: Final = ("pdf_active_content", "it opens an address or another file by itself")
REMOTE: Final = ("pdf_active_content", "it takes something from another file or machine")
EMBEDDED: Final = ("pdf_embedded_file", "another file is in it")

_STARTED: Final = frozenset(
    {"/JavaScript", "/ECMAScript", "/Launch", "/SubmitForm", "/ImportData", "/GoToE", "/RichMediaExecute"}
)
"""Types of actions that are always refused."""
_OPENED: Final = frozenset({"/URI", "/GoToR", "/Thread"})
"""Types of actions that are refused unless they need a click."""
_CLICKED: Final = frozenset({"/U", "/D"})
"""Triggers of additional actions that are a click: a mouse button goes down, or up."""
_FOLLOWING: Final = frozenset({"/Next", "/Prev", "/NA", "/PA"})
"""Keys of an action, or of a step of a presentation, that hold other actions."""
_AUTOMATIC: Final = ("/OpenAction", "/AA", "/PresSteps")
_ACTIVE_KEYS: Final = ("/XFA", "/OnInstantiate", "/RichMediaContent", "/RichMediaSettings")
_ACTIVE_KINDS: Final = frozenset({"/RichMedia", "/3D"})
_FILE_KINDS: Final = frozenset({"/FileAttachment", "/Sound", "/Movie"})
_PLACES: Final = ("/F", "/UF", "/Unix", "/DOS", "/Mac")
_SCRIPTS: Final = frozenset({"javascript", "vbscript"})

_JUDGED: Final = frozenset(
    (*_AUTOMATIC, *_ACTIVE_KEYS, *_PLACES, "/S", "/JS", "/URI", "/Subtype", "/EF", "/RF", "/Collection")
)
"""Keys without which a dictionary is irrelevant: most have none."""

INVOICE_NAMES: Final = frozenset({"factur-x.xml", "zugferd-invoice.xml", "xrechnung.xml"})
INVOICE_ROOTS: Final = frozenset({"CrossIndustryInvoice", "CrossIndustryDocument"})
INVOICE_MAX_BYTES: Final = 8 * 1024 * 1024


class _Files:
    """The embedded files that were found: streams by their numbers, and the entries that name them."""

    def __init__(self) -> None:
        self.streams: dict[tuple[int, int], pikepdf.Object] = {}
        self.names: set[str] = set()
        self.others = False
        """True if a file is embedded in another way than as a named attachment of the document."""


def judge_objects(pdf: pikepdf.Pdf, *, is_partial: bool = False) -> None:
    """Judge every object of a PDF. Raises Objection, and any error of the parser.

    `is_partial`: it may have others, so no object may name a file.
    """
    files = _Files()
    _judge_all(pdf.trailer, files)
    for found in pdf.objects:
        if isinstance(found, pikepdf.Stream) and found.get("/Type") == "/EmbeddedFile":
            files.streams[found.objgen] = found
        _judge_all(found, files)
    if files.others or files.streams:
        _judge_files(files, is_partial=is_partial)


def _judge_all(root: Any, files: _Files) -> None:
    """Judge an object and everything written within it; the target of a reference is a separate object."""
    if isinstance(root, pikepdf.Stream) and "/F" in root:
        raise Objection(*REMOTE)
    for entries in _dictionaries(root):
        if _JUDGED.isdisjoint(entries):
            continue
        _judge_actions(entries)
        _judge_file_specs(entries)
        _note_files(entries, files)


def _dictionaries(root: Any) -> Iterator[dict[str, Any]]:
    """Yield the dictionaries within an object, itself included."""
    left = [root]
    while left:
        found = left.pop()
        if isinstance(found, pikepdf.Array):
            inner: list[Any] = list(found)
        elif isinstance(found, pikepdf.Dictionary | pikepdf.Stream):
            entries = dict(found.items())
            yield entries
            inner = list(entries.values())
        else:
            continue
        left += (child for child in inner if isinstance(child, pikepdf.Object) and not child.is_indirect)


def _judge_actions(entries: dict[str, Any]) -> None:
    kind = _word(entries.get("/S"))
    if kind in _STARTED or any(key in entries for key in _ACTIVE_KEYS):
        raise Objection(*ACTIVE)
    if _word(entries.get("/Subtype")) in _ACTIVE_KINDS or _is_text(entries.get("/JS")):
        raise Objection(*ACTIVE)
    if "/URI" in entries and scheme_of(_text(entries["/URI"])) in _SCRIPTS:
        raise Objection(*ACTIVE)
    for key in _AUTOMATIC:
        if key in entries:
            _judge_automatic(entries[key], is_trigger=key == "/AA")


def _judge_automatic(root: Any, *, is_trigger: bool) -> None:
    """Judge actions that run without a click: one, several, and those that follow it."""
    left, seen = [root], set[tuple[int, int]]()
    while left:
        found = left.pop()
        if not isinstance(found, pikepdf.Object):
            continue
        if found.is_indirect:
            if found.objgen in seen:
                continue
            seen.add(found.objgen)
        if isinstance(found, pikepdf.Array):
            left += list(found)
        elif isinstance(found, pikepdf.Dictionary):
            if _word(found.get("/S")) in _OPENED:
                raise Objection(*OPENED)
            triggers = is_trigger and found is root
            left += [
                value
                for key, value in found.items()
                if (key not in _CLICKED if triggers else key in _FOLLOWING)
            ]


def _judge_file_specs(entries: dict[str, Any]) -> None:
    """Judge file specifications: by a name or a path they are links, by an address they fetch."""
    for key in _PLACES:
        if key in entries and _is_text(target := entries[key]) and is_remote(_text(target)):
            raise Objection(*REMOTE)


def _note_files(entries: dict[str, Any], files: _Files) -> None:
    if "/Collection" in entries or "/RF" in entries or _word(entries.get("/Subtype")) in _FILE_KINDS:
        files.others = True
    within = entries.get("/EF")
    if not isinstance(within, pikepdf.Dictionary):
        return
    for stream in within.as_dict().values():
        if isinstance(stream, pikepdf.Stream):
            files.streams[stream.objgen] = stream
    files.names |= {_text(entries[key]).lower() for key in _PLACES if _is_text(entries.get(key))}


def _judge_files(files: _Files, *, is_partial: bool) -> None:
    """Accept the one XML of an electronic invoice, and refuse everything else."""
    named = len(files.names) == 1 or (is_partial and not files.names)
    if files.others or len(files.streams) != 1 or not named or files.names - INVOICE_NAMES:
        raise Objection(*EMBEDDED)
    try:
        (stream,) = files.streams.values()
        is_invoice = _root_of(stream.read_bytes()) in INVOICE_ROOTS
    except (pikepdf.PikepdfError, expat.ExpatError) as error:
        raise Objection(*EMBEDDED) from error
    if not is_invoice:
        raise Objection(*EMBEDDED)


def _root_of(data: bytes) -> str:
    """Return the local name of an XML's root. Raises Objection, expat.ExpatError."""
    names: list[str] = []

    def refuse(*_: Any) -> None:
        raise Objection(*EMBEDDED)

    if len(data) > INVOICE_MAX_BYTES:
        refuse()
    parser = expat.ParserCreate()
    parser.StartElementHandler = lambda tag, _attributes: names.append(tag) if not names else None
    parser.StartDoctypeDeclHandler = refuse
    parser.Parse(data, True)
    return names[0].rpartition(":")[2]


def _word(value: Any) -> str:
    return str(value) if isinstance(value, pikepdf.Name) else ""


def _is_text(value: Any) -> bool:
    return isinstance(value, pikepdf.String | pikepdf.Stream)


def _text(value: Any) -> str:
    """Return a string, or the text of a stream that holds one."""
    return str(value) if isinstance(value, pikepdf.String) else ""
