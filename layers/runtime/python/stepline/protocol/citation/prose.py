"""Markdown: parts that are not running text (code, tags, programs), and positions that expect a URL.

Pieces may be cut before any bracket. Each character is read once: a paragraph is carried from piece to piece
as states and not as its text.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Final, TypeAlias

from stepline.protocol.citation.hyperlink import CitationContext
from stepline.protocol.parser.tags import MarkdownScanner

LOOK_BACK_CHARS: Final = 1_000
"""The characters searched for a label before an expected URL; longer labels are invalid in Markdown."""

_TEXT: Final = CitationContext()
_NO_TEXT: Final = CitationContext(is_text=False)
_EDGES: Final = frozenset("!\\<(: \t\r\n")
"""Characters that may change the meaning of a citation after them; most citations follow a blank."""

# A line that begins with such characters and `<` begins HTML, up to a blank line, in which tags need not be
# well-formed.
_LINE_START: Final = r"(?:[^\S\n]|[>*+0-9.)-])*"
_SIGNS: Final = re.compile(_LINE_START)
_PROGRAM: Final = re.compile(
    rf"(?:(?P<end></)|^{_LINE_START}<)(?:script|style)\b", re.IGNORECASE | re.MULTILINE
)
_DEFINITION: Final = re.compile(rf"{_LINE_START}\[[^\[\]\n]+\]:")
"""A link definition, which may be in a list or a quote."""

_TOKEN: Final = re.compile(
    r"[A-Za-z][A-Za-z0-9-]*|[0-9-]+|[^\S\n]+|`+|[^A-Za-z0-9\s`<>=\"'/!?\[\]-]+|[\n<>=\"'/!?\[\]]"
)
_OUTSIDE: Final = re.compile(r"[\n<\[\]]|`+")
"""The tokens that matter while no tag can be open."""

# The next state of a tag that may be open, by the kind of the next token (see `_kind`); "" is any other kind.
# State "" ends it.
_States: TypeAlias = frozenset[str]
_Table: TypeAlias = Mapping[str, Mapping[str, str]]

_BLOCK: Final[_Table] = {
    "begin": {"/": "slash", "word": "within", "!": "within", "": ""},
    "slash": {"word": "within", "!": "within", "": ""},
    "within": {">": "", "=": "equals", "": "within"},
    "equals": {">": "", "blank": "equals", "=": "equals", '"': "double", "'": "single", "": "within"},
    "double": {'"': "within", "": "double"},
    "single": {"'": "within", "": "single"},
}
_LINE: Final[_Table] = {
    "begin": {"word": "name", "": ""},
    "name": {"word": "name", "number": "name", "blank": "within", "": ""},
    "within": {"<": "", ">": "", "=": "equals", '"': "other double", "'": "other single", "": "within"},
    "equals": {
        "<": "",
        ">": "",
        "blank": "equals",
        "=": "equals",
        '"': "double",
        "'": "single",
        "": "value",
    },
    "value": {
        "<": "",
        ">": "",
        "blank": "within",
        "=": "equals",
        '"': "other double",
        "'": "other single",
        "": "value",
    },
    "double": {'"': "within", "": "double"},
    "single": {"'": "within", "": "single"},
    "other double": {'"': "within", "": "other double"},
    "other single": {"'": "within", "": "other single"},
}
_OPEN_BLOCK: Final = frozenset({"within", "equals", "double", "single"})
_OPEN_LINE: Final = frozenset({"equals", "value", "double", "single"})
"""States within an attribute's value: elsewhere in a tag, a citation would turn the tag into text."""

_NONE: Final[_States] = frozenset()


class ProseScanner:
    """Tracks one Markdown body."""

    __slots__ = ("_code", "_last", "_paragraph", "_program", "_signs", "_skipped", "_tail")

    def __init__(self) -> None:
        self._code = MarkdownScanner()
        self._paragraph = _Paragraph()
        self._program = False  # within <script> or <style>
        self._signs = True  # the line so far holds only characters that may precede its text
        self._skipped = ""  # replaces the citations shown since
        self._last = ""  # last character
        self._tail = ""  # the end of the text

    def read(self, text: str) -> CitationContext:
        """Continue reading, and return the context at the end of `text`."""
        if self._skipped:
            text, self._skipped = self._skipped + text, ""
        span = self._code.read(text)
        fenced = span == "fence" or "```" in text or "~~~" in text
        for tag in _PROGRAM.finditer(text) if "<" in text else ():
            self._program = not (tag["end"] or fenced)
        self._look(text)
        self._tail = tail = (self._tail + text)[-LOOK_BACK_CHARS:]
        if span or self._program or self._paragraph.has_open_tag:
            return _NO_TEXT
        edge, brackets = tail[-1:], len(self._paragraph.brackets)
        if edge not in _EDGES:
            return CitationContext(brackets=brackets) if brackets else _TEXT
        before = tail.removesuffix("<").rstrip()
        if "\n\n" in tail[len(before) :]:
            return CitationContext(edge=edge)
        if before.endswith("]("):
            picture = self._paragraph.is_picture
            closes = "" if picture or edge == "<" else ")"
            return CitationContext(address=True, picture=picture, closes=closes, edge=edge)
        if self._is_definition(before):
            return CitationContext(address=True, closes="" if edge == "<" else "\n", edge=edge)
        return CitationContext(edge=edge, brackets=brackets)

    def _is_definition(self, text: str) -> bool:
        """Return True if the text ends right after a definition's label whose line begins within the look-back."""
        line = text.rfind("\n") + 1
        in_sight = line > 0 or len(self._tail) < LOOK_BACK_CHARS
        return in_sight and text.endswith("]:") and _DEFINITION.fullmatch(text, line) is not None

    def skip(self, shown: str) -> None:
        """Skip a citation as shown: it is text without markup, or nothing."""
        if shown:
            self._skipped = "x"

    def _look(self, text: str) -> None:
        """Read the tokens of the next piece."""
        at = 0
        while at < len(text):
            found = (_TOKEN if self._paragraph.may_be_in_tag else _OUTSIDE).search(text, at)
            start, end = found.span() if found else (len(text), len(text))
            if start > at:
                self._pass(text[at:start])
            if found:
                self._take(found[0])
                self._pass(found[0])
            at = end

    def _take(self, part: str) -> None:
        if self._last == "\\" and part in ("[", "]"):
            return  # escaped, so it opens and closes nothing
        if part == "\n" == self._last:
            self._paragraph = _Paragraph()
        elif part == "<":
            self._paragraph.is_html |= self._signs
        elif part == "[":
            self._paragraph.brackets.append(self._last == "!")
        self._paragraph.take(part)

    def _pass(self, text: str) -> None:
        self._last = text[-1]
        self._signs = text == "\n" or (self._signs and _SIGNS.fullmatch(text) is not None)


class _Paragraph:
    """State of one paragraph: tags that may be open, code spans, brackets."""

    __slots__ = ("_block", "_line", "_spans", "brackets", "is_html", "is_picture")

    def __init__(self) -> None:
        self.is_html = False
        self.brackets: list[bool] = []  # the open ones: True for an image
        self.is_picture = True  # the last closed bracket is that of an image, or unknown
        self._block: _States = _NONE  # states of tags, read as an HTML block
        self._line: _States = _NONE  # states of tags, read as inline HTML
        self._spans: dict[int, _States] = {}  # spans that may be open: backticks, and the line states before

    @property
    def may_be_in_tag(self) -> bool:
        return bool(self._block or self._line)

    @property
    def has_open_tag(self) -> bool:
        """True if a tag is open within which a citation is no text."""
        return not (
            _OPEN_BLOCK.isdisjoint(self._block) if self.is_html else _OPEN_LINE.isdisjoint(self._line)
        )

    def take(self, part: str) -> None:
        """Read the next token."""
        kind = _kind(part)
        self._block = _step_block(self._block, kind)
        if kind == "`":
            self._take_ticks(len(part))
            return
        self._line = _step_line(self._line, kind)
        if part == "\n":
            self._spans.clear()  # no state outlives its line
        elif part == "]":
            self.is_picture = self.brackets.pop() if self.brackets else True

    def _take_ticks(self, count: int) -> None:
        """Open a code span, or close the first of this length and with it all spans opened since."""
        if count not in self._spans:
            self._spans[count] = self._line
            self._line = _step_line(self._line, "`")
            return
        while count in self._spans:
            _, self._line = self._spans.popitem()


def _kind(part: str) -> str:
    first = part[0]
    if first in "<>=\"'/`":
        return first
    if first in "!?":
        return "!"
    if first.isspace():
        return "blank"
    if not first.isascii():
        return ""
    return "word" if first.isalpha() else "number" if first.isdigit() or first == "-" else ""


@functools.cache
def _step_block(states: _States, kind: str) -> _States:
    return _step(_BLOCK, states, kind)


@functools.cache
def _step_line(states: _States, kind: str) -> _States:
    return _step(_LINE, states, kind)


def _step(table: _Table, states: _States, kind: str) -> _States:
    """Return the states of all tags that may be open after the next token."""
    rows = [table[state] for state in states]
    following = {row.get(kind, row[""]) for row in rows} - {""}
    return frozenset(following | {"begin"} if kind == "<" else following)
