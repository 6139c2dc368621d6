"""Where Markdown is no running text: code, tags, programs; and where it expects an address.

Pieces may be cut before any bracket.
"""

from __future__ import annotations

import re
from typing import Final

from stepline.protocol.link import Place
from stepline.protocol.span import MarkdownScanner

LOOK_BACK_CHARS: Final = 1_000
"""So much of its paragraph is looked at to tell what a citation stands in."""

_TEXT: Final = Place()
_NO_TEXT: Final = Place(is_text=False)
_EDGES: Final = frozenset("!\\<(: \t\r\n")
"""Characters behind which a citation may be something else than text; most come behind a blank."""

_SPAN: Final = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_IN_ATTRIBUTE: Final = re.compile(
    r"<[A-Za-z][A-Za-z0-9-]*\s(?:[^\"'<>]|\"[^\"]*\"|'[^']*')*=\s*(?:\"[^\"]*|'[^']*|[^\s\"'<>]*)\Z"
)
# A line that begins so begins HTML that nobody checks, up to a blank line: there a tag need not be a sound one.
# The line is the last of those between which there are only such signs, so that no line is looked at for another.
_LINE_START: Final = r"^(?:[^\S\n]|[>*+0-9.)-])*"
_BLOCK: Final = re.compile(f"{_LINE_START}<", re.MULTILINE)
# Behind `=` a quote begins a value and nothing else: there is one way to read a text.
_IN_TAG: Final = re.compile(
    r"</?[A-Za-z!?][^\"'>=]*"
    r"(?:(?:=\s*(?:\"[^\"]*(?:\"|\Z)|'[^']*(?:'|\Z)|(?![\s\"']))|[\"'])[^\"'>=]*)*\Z"
)
_PROGRAM: Final = re.compile(
    rf"(?:(?P<end></)|{_LINE_START}<)(?:script|style)\b", re.IGNORECASE | re.MULTILINE
)
# Behind the text of a link, or in the definition of one, which may stand in a list or in a quote.
_BEFORE_ADDRESS: Final = re.compile(rf"(?:\]\(|{_LINE_START}\[[^\[\]\n]+\]:)\s*<?\Z", re.MULTILINE)


class ProseScanner:
    """Follows one body of Markdown."""

    __slots__ = ("_block", "_code", "_program", "_skipped", "_tail")

    def __init__(self) -> None:
        self._code = MarkdownScanner(tildes=True)
        self._block = False  # the paragraph is HTML
        self._program = False  # within <script> or <style>
        self._skipped = ""  # stands for citations that were shown since
        self._tail = ""  # the paragraph so far, or the end of it

    def read(self, text: str) -> Place:
        """Read on and return where `text` ends."""
        if self._skipped:
            text, self._skipped = self._skipped + text, ""
        span = self._code.read(text)
        self._look(text, fenced=span == "fence" or "```" in text or "~~~" in text)
        if span or self._program or self._in_tag():
            return _NO_TEXT
        tail = self._tail
        edge = tail[-1:]
        if edge not in _EDGES:
            return _TEXT
        waits = tail.rstrip()[-1:] in ("(", ":", "<") and _BEFORE_ADDRESS.search(tail) is not None
        return Place(address=waits, picture=waits and _is_picture(tail), edge=edge)

    def _look(self, text: str, *, fenced: bool) -> None:
        """Take in what there is of the paragraph now."""
        tail = self._tail + text
        paragraph = tail.rfind("\n\n")
        if paragraph > 0:
            tail, self._block = tail[paragraph:], False
        if "<" in text:
            self._block = self._block or _BLOCK.search(tail) is not None
            for tag in _PROGRAM.finditer(text):
                self._program = not (tag["end"] or fenced)
        # What is cut must not look like the begin of a line.
        self._tail = tail if len(tail) <= LOOK_BACK_CHARS else f"x{tail[-LOOK_BACK_CHARS:]}"

    def _in_tag(self) -> bool:
        tail = self._tail
        if "<" not in tail:
            return False
        if self._block:
            return _IN_TAG.search(tail) is not None
        return "=" in tail and _IN_ATTRIBUTE.search(_SPAN.sub("", tail)) is not None

    def skip(self, shown: str) -> None:
        """Pass over a citation that is shown so: it is text and no markup, or nothing."""
        if shown:
            self._skipped = "x"


def _is_picture(tail: str) -> bool:
    """Tell whether the address that a text ends before is that of an image; so it is where its begin is out of sight."""
    at, depth = tail.rfind("]("), 1
    if at < 0:
        return False
    while depth and at > 0:
        at -= 1
        depth += {"]": 1, "[": -1}.get(tail[at], 0)
    return depth > 0 or tail[:at].endswith("!")
