r"""Windows: a part of a text by lines or characters, within a size limit, and without added text.

A line ends after `\n`; everything else (`\r`, form feeds) is part of it. Line numbers are 1-based, offsets
are 0-based characters. A text is read once and in pieces, and only the part is kept, so that a text of any
length costs no more memory than its window.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.file.charset import MARK_BYTES, marked_codec, read_as

LineNumbers: TypeAlias = Literal["lines", "sparsed", "disabled"]

_SPARSE_LINES: Final = 6
_GUTTER_MAX_BYTES: Final = 12


def count_lines(text: str) -> int:
    """Return the number of lines of a text; an unfinished last line counts, an empty text has none."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


class TextPosition(Value):
    """A position between two characters: characters and line breaks before it, and if it begins a line."""

    offset: int = 0
    breaks: int = 0
    begins_line: bool = True

    @property
    def line(self) -> int:
        """The number of the line that continues or begins here."""
        return self.breaks + 1

    @property
    def line_before(self) -> int:
        """The number of the line of the character before this position."""
        return self.breaks + (not self.begins_line)


class TextRange(Value):
    """A part of a text: `line_count` lines from `line`, or `chars` characters from `offset`; else all."""

    line: int = 1
    line_count: int | None = None
    offset: int | None = None
    chars: int | None = None

    def find_start(self, piece: str, at: TextPosition) -> TextPosition | None:
        """Return where the part begins, if that is in or at the end of a piece that begins at `at`."""
        if self.offset is None:
            return _find_line(piece, at, self.line)
        return _find_offset(piece, at, self.offset)

    def find_end(self, piece: str, at: TextPosition) -> TextPosition | None:
        """Return where the part ends, if that is in or at the end of a piece that begins at `at`."""
        if self.offset is not None:
            return None if self.chars is None else _find_offset(piece, at, self.offset + self.chars)
        return None if self.line_count is None else _find_line(piece, at, self.line + self.line_count)


class TextWindow(Value):
    """The part of a text that begins at `start`; `size` is the end of the whole text."""

    text: str
    start: TextPosition
    size: TextPosition
    line_numbers: LineNumbers = "disabled"

    @property
    def end(self) -> TextPosition:
        """The position after the part."""
        return _pass(self.start, self.text)

    @property
    def line_count(self) -> int:
        """Lines of the whole text."""
        return self.size.line_before

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number and shown text of every line that the window touches."""
        at, line = 0, self.start.line
        while at < len(self.text):
            end = self.text.find("\n", at) + 1 or len(self.text)
            yield line, self.text[at:end]
            at, line = end, line + 1

    def whole_lines(self) -> tuple[int, int] | None:
        """Return the first and last line that is shown whole, or None."""
        if not self.text:
            return None
        first = self.start.line + (not self.start.begins_line)
        last = self.end.line_before - self._ends_within()
        return (first, last) if first <= last else None

    def partial_lines(self) -> list[int]:
        """Return the lines that are shown in part: at most the first and the last."""
        if not self.text:
            return []
        cut = set() if self.start.begins_line else {self.start.line}
        return sorted(cut | ({self.end.line_before} if self._ends_within() else set()))

    def notation(self) -> str:
        """Return the range of whole lines: `[3-8]/40`, or `[none]/40`."""
        whole = self.whole_lines()
        shown = f"{whole[0]}-{whole[1]}" if whole else "none"
        return f"[{shown}]/{self.line_count}"

    def render(self) -> str:
        """Return the part with its line numbers in a gutter, which is not part of the text."""
        if self.line_numbers == "disabled":
            return self.text
        pieces = list(self.lines())
        numbered = set(range(len(pieces)))
        if self.line_numbers == "sparsed" and len(pieces) > _SPARSE_LINES:
            middle = len(pieces) // 2
            numbered = {0, 1, middle - 1, middle, len(pieces) - 2, len(pieces) - 1}
        return "".join(
            gutter(line) + piece if i in numbered else piece for i, (line, piece) in enumerate(pieces)
        )

    def _ends_within(self) -> bool:
        """Return True if the last line touched continues after the window."""
        return not self.end.begins_line and self.end.offset < self.size.offset


class FoundPart(Value):
    """The result of a search for a part: the part, its end, and the end of the text.

    `part` is None if the text ends before the part begins.
    """

    part: TextWindow | None
    end: TextPosition
    size: TextPosition


def find_part(pieces: Iterable[str], span: TextRange, *, max_chars: int) -> FoundPart:
    """Read a text in pieces, once and to its end, and keep up to `max_chars` characters of one part."""
    at, room = TextPosition(), max_chars
    kept: list[str] = []
    begin, end = span.find_start("", at), None
    for piece in pieces:
        begin = begin or span.find_start(piece, at)
        end = end or span.find_end(piece, at)
        if begin and room:
            cut = piece[max(0, begin.offset - at.offset) : end.offset - at.offset if end else None][:room]
            kept.append(cut)
            room = 0 if end else room - len(cut)
        at = _pass(at, piece)
    if begin is None or 0 < at.offset == begin.offset:
        return FoundPart(part=None, end=at, size=at)
    return FoundPart(part=TextWindow(text="".join(kept), start=begin, size=at), end=end or at, size=at)


def decode_pieces(pieces: Iterable[bytes], encoding: str = "utf-8") -> Iterator[str]:
    """Decode bytes that arrive in pieces; a mark of UTF-16 or UTF-32 overrides `encoding`.

    Raises UnicodeDecodeError if they are not text in the encoding.
    """
    rest = iter(pieces)
    head = next(rest, b"")
    while len(head) < MARK_BYTES and (more := next(rest, b"")):
        head += more
    decode = codecs.getincrementaldecoder(marked_codec(head) or read_as(encoding))().decode
    yield decode(head)
    for piece in rest:
        yield decode(piece)
    yield decode(b"", True)


def gutter(line: int) -> str:
    """Return the line number as shown before the line: right-aligned in six columns, and a tab."""
    return f"{line:>6}\t"


def fit_window(part: TextWindow, *, max_bytes: int, line_numbers: LineNumbers) -> TextWindow:
    """Return the longest beginning of a part that fits with its line numbers.

    `max_bytes` counts UTF-8 with the gutter, because the gutter costs the reader as much as the text does.
    """
    if line_numbers == "sparsed":
        max_bytes -= _SPARSE_LINES * _GUTTER_MAX_BYTES
    if line_numbers != "lines":
        kept = _prefix_chars(part.text, max_bytes)
        return replace(part, text=part.text[:kept], line_numbers=line_numbers)
    at = 0
    for line, piece in part.lines():
        max_bytes -= len(gutter(line))
        kept = _prefix_chars(piece, max_bytes)
        max_bytes -= len(piece[:kept].encode())
        at += kept
        if kept < len(piece):
            break
    return replace(part, text=part.text[:at], line_numbers=line_numbers)


def _pass(at: TextPosition, piece: str) -> TextPosition:
    """Return the position after a piece that begins at `at`."""
    if not piece:
        return at
    return TextPosition(
        offset=at.offset + len(piece), breaks=at.breaks + piece.count("\n"), begins_line=piece[-1] == "\n"
    )


def _find_offset(piece: str, at: TextPosition, offset: int) -> TextPosition | None:
    if offset > at.offset + len(piece):
        return None
    return _pass(at, piece[: offset - at.offset])


def _find_line(piece: str, at: TextPosition, line: int) -> TextPosition | None:
    """Return where a line begins, if not before `at`; None if that is after the piece."""
    breaks = line - at.line
    if breaks > piece.count("\n"):
        return None
    offset = 0
    for _ in range(breaks):
        offset = piece.find("\n", offset) + 1
    return TextPosition(offset=at.offset + offset, breaks=line - 1)


def _prefix_chars(text: str, max_bytes: int) -> int:
    """Return how many leading characters of a text fit into `max_bytes` of UTF-8."""
    if max_bytes <= 0:
        return 0
    head = text[:max_bytes].encode()
    return len(head[:max_bytes].decode(errors="ignore"))
