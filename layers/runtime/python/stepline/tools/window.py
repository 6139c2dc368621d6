r"""Windows: a piece of a text by lines or characters, no larger than what may be shown, and nothing but the text.

A line ends after `\n`; everything else (`\r`, form feeds) is part of it. Line numbers are 1-based, offsets are
0-based characters.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal, TypeAlias

LineNumbers: TypeAlias = Literal["lines", "sparsed", "disabled"]

_SPARSE_LINES: Final = 6
_GUTTER_MAX_BYTES: Final = 12


def count_lines(text: str) -> int:
    """Return how many lines a text has; an unfinished last line is one, an empty text has none."""
    return text.count("\n") + (not text.endswith("\n") and text != "")


@dataclass(frozen=True)
class SourceText:
    """A text and where its lines begin."""

    text: str

    @cached_property
    def starts(self) -> list[int]:
        """Offset of every line."""
        offsets = [0]
        while (at := self.text.find("\n", offsets[-1])) >= 0:
            offsets.append(at + 1)
        if offsets[-1] == len(self.text):
            offsets.pop()
        return offsets

    def line_at(self, offset: int) -> int:
        """Return the number of the line that holds the character at `offset`."""
        return bisect_right(self.starts, offset)

    def line_end(self, line: int) -> int:
        """Return the offset behind a line, its line break included."""
        return self.starts[line] if line < len(self.starts) else len(self.text)


@dataclass(frozen=True, kw_only=True)
class Window:
    """Characters `start` to `end` (exclusive) of a source; never empty unless nothing fits."""

    source: SourceText
    start: int
    end: int
    line_numbers: LineNumbers

    @property
    def text(self) -> str:
        """The piece itself."""
        return self.source.text[self.start : self.end]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number of every line that the window touches, and what it shows of it."""
        at = self.start
        while at < self.end:
            line = self.source.line_at(at)
            end = min(self.source.line_end(line), self.end)
            yield line, self.source.text[at:end]
            at = end

    def whole_lines(self) -> tuple[int, int] | None:
        """Return the first and last line that is shown whole, or None."""
        if self.start >= self.end:
            return None
        first, last = self.source.line_at(self.start), self.source.line_at(self.end - 1)
        first += self.source.starts[first - 1] < self.start
        last -= self.source.line_end(last) > self.end
        return (first, last) if first <= last else None

    def partial_lines(self) -> list[int]:
        """Return the lines of which only a part is shown: at most the first and the last."""
        if self.start >= self.end:
            return []
        first, last = self.source.line_at(self.start), self.source.line_at(self.end - 1)
        cut = {first} if self.source.starts[first - 1] < self.start else set()
        return sorted(cut | ({last} if self.source.line_end(last) > self.end else set()))

    def notation(self) -> str:
        """Return which lines are shown whole: `[3-8]/40`, or `[none]/40`."""
        whole = self.whole_lines()
        shown = f"{whole[0]}-{whole[1]}" if whole else "none"
        return f"[{shown}]/{len(self.source.starts)}"

    def render(self) -> str:
        """Return the piece with its line numbers in a gutter that is no part of the text."""
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


def gutter(line: int) -> str:
    """Return a line's number as it stands before the line: right-aligned in six columns, and a tab."""
    return f"{line:>6}\t"


def fit_window(
    source: SourceText, start: int, end: int, *, max_chars: int, max_bytes: int, line_numbers: LineNumbers
) -> Window:
    """Return the longest beginning of `start` to `end` that fits.

    `max_chars` counts the source's characters; `max_bytes` counts UTF-8 with the gutter, because the gutter
    costs the reader as much as the text does.
    """
    end = min(end, start + max_chars)
    if line_numbers == "sparsed":
        max_bytes -= _SPARSE_LINES * _GUTTER_MAX_BYTES
    fitting = Window(source=source, start=start, end=end, line_numbers=line_numbers)
    if line_numbers != "lines":
        kept = _prefix_chars(fitting.text, max_bytes)
        return Window(source=source, start=start, end=start + kept, line_numbers=line_numbers)
    at = start
    for line, piece in fitting.lines():
        max_bytes -= len(gutter(line))
        kept = _prefix_chars(piece, max_bytes)
        max_bytes -= len(piece[:kept].encode())
        at += kept
        if kept < len(piece):
            break
    return Window(source=source, start=start, end=at, line_numbers=line_numbers)


def _prefix_chars(text: str, max_bytes: int) -> int:
    """Return how many leading characters of a text fit into `max_bytes` of UTF-8."""
    if max_bytes <= 0:
        return 0
    head = text[:max_bytes].encode()
    return len(head[:max_bytes].decode(errors="ignore"))
