"""Parts of a document of Office, read as XML in one pass: their actions when the document is opened.

Elements and attributes are known by their local names, so no choice of a prefix or of a namespace, transitional or
strict, hides one. Source: ECMA-376-1, 17.16 "Fields", 18.13 "External Data Connections", 18.17 "Formulas".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from typing import IO, Any, Final
from xml.parsers import expat

from stepline.preflight.link_target import is_remote
from stepline.preflight.objection import ACTIVE, DOCTYPE, EXTERNAL, MACROS, OBJECT, Objection
from stepline.programs.archive.member import ARCHIVE_CHUNK_BYTES

Attributes = dict[str, str]

_REFUSED: Final = {
    "altchunk": OBJECT,
    "oleobject": OBJECT,
    "oleobj": OBJECT,
    "ddelink": ACTIVE,
    "olelink": EXTERNAL,
    "externalbook": EXTERNAL,
    "webextension": ACTIVE,
    "webextensionref": ACTIVE,
    "taskpanes": ACTIVE,
    "connectstring": EXTERNAL,
}
"""Elements that have no harmless form, by local name."""
_FIELDS: Final = {
    "DDE": ACTIVE,
    "DDEAUTO": ACTIVE,
    "INCLUDE": EXTERNAL,
    "INCLUDETEXT": EXTERNAL,
    "INCLUDEPICTURE": EXTERNAL,
    "IMPORT": EXTERNAL,
    "LINK": EXTERNAL,
    "DATABASE": EXTERNAL,
    "EMBED": OBJECT,
}
_FORMULAS: Final = frozenset(
    {"f", "formula", "formula1", "formula2", "definedname", "calculatedcolumnformula", "totalsrowformula"}
)
_MATHEMATICS: Final = "/math"
"""The end of the namespaces of mathematics, in which `f` is a fraction."""
_CODES: Final = frozenset({"instrtext", "delinstrtext"})
_TEXTS: Final = frozenset({"t", "deltext"})
"""Text of a run, which is code as well between the beginning of a field and its separator."""
_FOLLOWED: Final = frozenset({"hyperlink", "hlinkclick"})
"""Elements that name a link which a reader follows by hand. One that is followed on hover is not among them."""
_STARTED: Final = ("ppaction://program", "ppaction://macro")
_FETCHED: Final = frozenset({"imagedata", "image", "fill", "stroke", "background"})
"""Elements of VML whose `href` is the location of a picture; that of a shape is a link."""
_AUTO_NAME: Final = re.compile(r"(?:_xlnm\.)?auto_(?:open|close|activate|deactivate)", re.IGNORECASE)
_TRUE: Final = ("1", "true", "on")

_FIELD_NAME: Final = re.compile(r'[\s"]*(\w*)(\0?)')
_ESCAPED: Final = re.compile(r"_x([0-9A-Fa-f]{4})_")
"""A character as texts of a workbook may spell it. Source: ECMA-376-1, 22.9.2.19."""
_QUOTED: Final = re.compile(r"""\[(?:'.?|[^\[\]'])*(\]?)|"(?:[^"]|"")*("?)|'(?:[^']|'')*('?)""", re.DOTALL)
"""The parts of a formula that are not calls: names in brackets, where an apostrophe escapes one character, texts, names of sheets."""
_CALLS: Final = re.compile(
    r"(?<![\w.])(?:_xl[a-z]*\.)*(?:(webservice|image)|dde|rtd|call|register(?:\.id)?|exec|sql\.request)\s*\(",
    re.IGNORECASE,
)


def judge_markup(part: IO[bytes], links: AbstractSet[str], *, is_data: bool = False) -> None:
    """Judge one part; `links` are the ids of its links to outside. Raises Objection, expat.ExpatError.

    `is_data`: it is custom XML, which is only searched for a ribbon.
    """
    walk = _Walk(links, is_data=is_data)
    while data := part.read(ARCHIVE_CHUNK_BYTES):
        walk.parser.Parse(data, False)
    walk.end()


def judge_field(code: str) -> None:
    r"""Judge the code of a field; `\0` is the result of another field within. Raises Objection."""
    found = _FIELD_NAME.match(code)
    if found is None:
        return
    if found[2]:
        raise Objection(ACTIVE[0], "another field makes the name of one of its fields")
    if refused := _FIELDS.get(found[1].upper()):
        raise Objection(refused[0], f"a field of the kind {found[1].upper()} is in it")


def judge_formula(formula: str) -> None:
    """Judge a formula of a sheet. Raises Objection."""
    formula = _ESCAPED.sub(lambda found: chr(int(found[1], 16)), formula)
    bare = _QUOTED.sub(lambda found: "q" if any(found.groups()) else found[0], formula)
    if found := _CALLS.search(bare):
        raise Objection(
            (EXTERNAL if found[1] else ACTIVE)[0], "a formula in it asks another service or program"
        )
    if "|" in bare:
        raise Objection(ACTIVE[0], "a formula in it asks another program")


class _Walk:
    """One part: its open fields, and the text collected so far."""

    def __init__(self, links: AbstractSet[str], *, is_data: bool) -> None:
        self._links = links
        self._is_data = is_data
        self._fields: list[list[str] | None] = []
        """The code of each open field; None once its result began."""
        self._loose: list[str] = []
        """Codes outside of any field."""
        self._texts: list[str] = []
        self._collected = ""
        """The tag whose text is collected."""
        self._is_ribbon = False
        self._refreshes = False
        self._kinds: dict[str, tuple[str, Callable[[Attributes], None] | None]] = {}
        self._handlers: dict[str, Callable[[Attributes], None]] = {
            "fldchar": self._on_field_mark,
            "fldsimple": self._on_field,
            "connection": self._on_connection,
            "querytable": self._on_connection,
            "pivotcachedefinition": self._on_pivot,
            "cachesource": self._on_pivot_source,
            "definedname": self._on_name,
        }
        self.parser = parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.StartDoctypeDeclHandler = self._refuse_doctype

    def end(self) -> None:
        self.parser.Parse(b"", True)
        for code in (self._loose, *self._fields):
            judge_field("".join(code or ()))

    @staticmethod
    def _refuse_doctype(*_: Any) -> None:
        raise Objection(*DOCTYPE)

    def _start(self, tag: str, attributes: Attributes) -> None:
        kind = self._kinds.get(tag)
        if kind is None:
            space, _, local = tag.lower().rpartition(" ")
            local = "" if space.endswith(_MATHEMATICS) else local
            if (refused := _REFUSED.get(local)) and not self._is_data:
                raise Objection(*refused)
            kind = self._kinds[tag] = (local, self._handlers.get(local))
        local, handle = kind
        if local == "customui":
            self._is_ribbon = True
        if self._is_data and not self._is_ribbon:
            return
        if attributes:
            self._judge_attributes(local, attributes)
            if handle is not None:
                handle(attributes)
        if not self._collected and (
            local in _FORMULAS or local in _CODES or (local in _TEXTS and self._code() is not None)
        ):
            self._collect(tag)

    def _judge_attributes(self, local: str, attributes: Attributes) -> None:
        for name, value in attributes.items():
            short = name.rpartition(" ")[2].lower()
            if short == "src" or (short == "href" and local in _FETCHED):
                if is_remote(value):
                    raise Objection(*EXTERNAL)
            elif short == "formula" or short.startswith("fmla") or (short == "val" and local == "cfvo"):
                judge_formula(value)
            elif short == "action" and value.strip().lower().startswith(_STARTED):
                raise Objection(*ACTIVE)
            elif " " in name and value in self._links and local not in _FOLLOWED:
                raise Objection(EXTERNAL[0], "a link in it is followed without a click")
            if self._is_ribbon and (short.startswith(("on", "get")) or short == "loadimage"):
                raise Objection(ACTIVE[0], "its ribbon calls macros")

    def _on_field_mark(self, attributes: Attributes) -> None:
        kind = _local(attributes).get("fldchartype", "").strip().lower()
        code = self._code()
        if kind == "begin":
            if code is not None:
                code.append("\0")
            self._fields.append([])
        elif kind == "separate" and code is not None:
            judge_field("".join(code))
            self._fields[-1] = None
        elif kind == "end" and self._fields:
            judge_field("".join(self._fields.pop() or ()))

    def _on_field(self, attributes: Attributes) -> None:
        judge_field(_local(attributes).get("instr", ""))

    def _on_connection(self, attributes: Attributes) -> None:
        given = _local(attributes)
        if _is_true(given, "refreshonload") or given.get("interval", "0").strip() not in ("", "0"):
            raise Objection(EXTERNAL[0], "a connection in it fetches data when it is opened")

    def _on_pivot(self, attributes: Attributes) -> None:
        self._refreshes = _is_true(_local(attributes), "refreshonload")

    def _on_pivot_source(self, attributes: Attributes) -> None:
        if self._refreshes and _local(attributes).get("type", "").strip().lower() == "external":
            raise Objection(EXTERNAL[0], "a connection in it fetches data when it is opened")

    def _on_name(self, attributes: Attributes) -> None:
        given = _local(attributes)
        named = _AUTO_NAME.match(given.get("name", "").strip())
        if named or any(_is_true(given, name) for name in ("xlm", "vbprocedure", "function")):
            raise Objection(*MACROS)

    def _code(self) -> list[str] | None:
        """Return the code of the field that is open, if its result did not begin."""
        return self._fields[-1] if self._fields else None

    def _collect(self, tag: str) -> None:
        self._collected = tag
        self.parser.CharacterDataHandler = self._texts.append
        self.parser.EndElementHandler = self._stop

    def _stop(self, tag: str) -> None:
        if tag != self._collected:
            return
        text = "".join(self._texts)
        self._texts.clear()
        self._collected = ""
        self.parser.CharacterDataHandler = self.parser.EndElementHandler = None
        if self._kinds[tag][0] in _FORMULAS:
            judge_formula(text)
        elif not self._fields:
            self._loose.append(text)
        elif (code := self._fields[-1]) is not None:
            code.append(text)


def _local(attributes: Attributes) -> Attributes:
    return {name.rpartition(" ")[2].lower(): value for name, value in attributes.items()}


def _is_true(attributes: Attributes, name: str) -> bool:
    return attributes.get(name, "").strip().lower() in _TRUE
