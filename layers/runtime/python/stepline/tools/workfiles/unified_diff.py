r"""A unified diff: parse it, apply it to a text, and name the first line that does not fit.

A hunk applies where its header says, or at the only other position that has exactly its old lines. Otherwise it
applies ignoring white space, again at its stated position or at the only one. Context is never dropped, so that no hunk
changes unrelated text. Counts in a header are recomputed: a model often gets them wrong. A line ends after
`\n`; everything else, `\r` too, is part of it.

The work is linear in the text for each hunk, for any input: positions are found by `str.find`.
Source: https://www.gnu.org/software/diffutils/manual/html_node/Detailed-Unified.html.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Final, NamedTuple

from stepline.errors import ToolError

HUNKS_MAX: Final = 500
PLACES_SHOWN: Final = 5

_HEADER: Final = re.compile(
    r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@", re.ASCII
)
_CONTEXT, _OLD, _NEW, _NO_NEWLINE = " ", "-", "+", "\\"


class DiffLine(NamedTuple):
    """A line of a hunk: its sign, its text with its line break, and its number in the patch, from 1."""

    sign: str
    text: str
    at: int


class Hunk(NamedTuple):
    """A hunk: its number from 1, the stated index of its first old line, and its lines."""

    number: int
    start: int
    lines: tuple[DiffLine, ...]

    @property
    def old(self) -> list[DiffLine]:
        """The lines that the text must have."""
        return [line for line in self.lines if line.sign != _NEW]


class AppliedHunk(NamedTuple):
    """A hunk as it was applied: the indexes of its first line in the old text and in the new one.

    `moved`: at another position than stated. `loose`: ignoring white space. `lines` are those of the text.
    """

    number: int
    old_start: int
    new_start: int
    lines: tuple[DiffLine, ...]
    moved: bool
    loose: bool

    @property
    def span(self) -> tuple[int, int]:
        """The first changed line in the new text, from 1, and the number of lines now there."""
        kept = [at for at, line in enumerate(self.lines) if line.sign != _CONTEXT]
        if not kept:
            return self.new_start + 1, 0
        before = sum(line.sign != _OLD for line in self.lines[: kept[0]])
        count = sum(line.sign != _OLD for line in self.lines[kept[0] : kept[-1] + 1])
        return self.new_start + before + 1, count


class Applied(NamedTuple):
    """A diff that fits: the new text, and each of its hunks."""

    text: str
    changes: tuple[AppliedHunk, ...]


class Mismatch(NamedTuple):
    """A hunk that does not fit: the first of its lines that the text does not have, and the text's own line.

    `places` are the lines where an ambiguous hunk would fit; then there is no such line. Lines count from 1.
    """

    hunk: int
    stated: int
    line_count: int
    patch_line: int = 0
    target_line: int = 1
    expected: str = ""
    actual: str | None = None
    places: tuple[int, ...] = ()


def is_diff(patch: str) -> bool:
    """Return True if a text begins like a diff: Markdown's front matter and rules do not."""
    first, _, rest = patch.lstrip("\n").partition("\n")
    if first.startswith(("@@", "diff --git ")):
        return True
    return first.startswith(("--- ", "+++ ", "Index: ")) and (
        rest.startswith("+++ ") or "\n@@" in f"\n{rest}"
    )


def unfence(patch: str) -> str:
    """Return the diff in a code fence; a text that is no fenced diff is returned unchanged."""
    first, _, rest = patch.strip().partition("\n")
    if first.startswith("```") and rest.endswith("```") and is_diff(rest):
        return rest.removesuffix("```")
    return patch


def parse_diff(patch: str) -> tuple[Hunk, ...]:
    """Parse the diff of one file.

    Raises ToolError `invalid_hunk_header`, `invalid_hunk_line`, `hunk_out_of_order`, `patch_several_files`,
    `patch_too_large`.
    """
    lines = patch.removesuffix("\n").split("\n")
    if lines[0].endswith("\r"):  # the whole patch uses these line ends, including its headers
        lines = [line.removesuffix("\r") for line in lines]
    end = len(lines)
    while end and not lines[end - 1]:
        end -= 1
    at = next((i for i, line in enumerate(lines) if line.startswith("@@")), end)
    if sum(line.startswith("+++ ") for line in lines[:at]) > 1:
        raise _several(at)
    hunks: list[Hunk] = []
    while at < end:
        if not lines[at].startswith("@@"):
            raise _several(at)
        hunk, at = _parse_hunk(lines, at, end, len(hunks) + 1)
        if hunks and hunk.start < hunks[-1].start:
            raise ToolError(
                f"hunk {hunk.number} begins before hunk {hunk.number - 1}: write them in the order of the file",
                code="hunk_out_of_order",
            )
        hunks.append(hunk)
        if len(hunks) > HUNKS_MAX:
            raise ToolError(f"a patch has at most {HUNKS_MAX} hunks", code="patch_too_large")
    if not hunks:
        raise ToolError(
            "the diff has no hunk: @@ -<line>,<lines> +<line>,<lines> @@", code="invalid_hunk_header"
        )
    return tuple(hunks)


def _several(at: int) -> ToolError:
    return ToolError(
        f"line {at + 1} of the patch begins another file: patch one file in a call",
        code="patch_several_files",
    )


def _parse_hunk(lines: Sequence[str], at: int, end: int, number: int) -> tuple[Hunk, int]:
    """Return the hunk whose header is at a line, and the index after it."""
    header = _HEADER.match(lines[at])
    if header is None:
        raise ToolError(
            f"line {at + 1} of the patch is no header of a hunk: {lines[at][:80]!r}",
            code="invalid_hunk_header",
        )
    stop = _find_end(lines, at + 1, end, old=int(header[2] or 1), new=int(header[4] or 1))
    found: list[DiffLine] = []
    for i in range(at + 1, stop):
        sign, text = lines[i][:1] or _CONTEXT, lines[i][1:]
        if sign == _NO_NEWLINE:
            if found:
                found[-1] = found[-1]._replace(text=found[-1].text.removesuffix("\n"))
            continue
        if sign not in (_CONTEXT, _OLD, _NEW):
            raise ToolError(
                f"line {i + 1} of the patch begins neither with a blank nor with + or -: {lines[i][:80]!r}",
                code="invalid_hunk_line",
            )
        found.append(DiffLine(sign, f"{text}\n", i + 1))
    has_old = any(line.sign != _NEW for line in found)
    return Hunk(number, max(0, int(header[1]) - has_old), tuple(found)), stop


def _find_end(lines: Sequence[str], first: int, end: int, *, old: int, new: int) -> int:
    """Return the index after a hunk's lines: as its header counts them or, if that is wrong, up to the next header."""
    at = first
    while (
        at < len(lines) and (old > 0 or new > 0) and lines[at][:1] in ("", _CONTEXT, _OLD, _NEW, _NO_NEWLINE)
    ):
        sign = lines[at][:1]
        old -= sign not in (_NEW, _NO_NEWLINE)
        new -= sign not in (_OLD, _NO_NEWLINE)
        at += 1
    while at < end and lines[at].startswith(_NO_NEWLINE):
        at += 1
    if old == new == 0 and _is_end(lines, at, end):
        return at
    at = first
    while not _is_end(lines, at, end):
        at += 1
    return at


def _is_end(lines: Sequence[str], at: int, end: int) -> bool:
    if at >= end or lines[at].startswith(("@@", "diff --git ")):
        return True
    return (
        lines[at].startswith("--- ")
        and at + 2 < end
        and (lines[at + 1].startswith("+++ ") and lines[at + 2].startswith("@@"))
    )


def apply_diff(text: str, hunks: Sequence[Hunk]) -> Applied | Mismatch:
    """Apply every hunk, or none: return the first that does not fit."""
    target = _Target(text)
    out: list[str] = []
    changes: list[AppliedHunk] = []
    done = shift = 0
    for hunk in hunks:
        stated = hunk.start + shift
        position = target.find(hunk, stated, done)
        if isinstance(position, Mismatch):
            return position
        at, loose = position
        out += target.lines[done:at]
        made = tuple(_as_in_text(hunk.lines, target.lines[at:])) if loose else hunk.lines
        changes.append(AppliedHunk(hunk.number, at, len(out), made, at != stated, loose))
        out += [line.text for line in made if line.sign != _OLD]
        done, shift = at + len(hunk.old), at - hunk.start
    out += target.lines[done:]
    broken = [line if line.endswith("\n") else f"{line}\n" for line in out[:-1]]
    return Applied("".join([*broken, *out[-1:]]), tuple(changes))


def _as_in_text(lines: Sequence[DiffLine], found: Sequence[str]) -> list[DiffLine]:
    """Return the lines of a loose hunk with old lines as the text has them, and its line breaks in the new ones."""
    ending = "\r\n" if found and found[0].endswith("\r\n") else "\n"
    made, at = [], 0
    for line in lines:
        if line.sign == _NEW:
            bare = line.text.removesuffix("\n").removesuffix("\r")
            made.append(line._replace(text=bare + ending if line.text.endswith("\n") else bare))
            continue
        made.append(line._replace(text=found[at]))
        at += 1
    return made


def render_diff(path: str, changes: Sequence[AppliedHunk]) -> str:
    """Return the diff as it was applied, with the actual counts and positions."""
    parts = [f"--- {path}\n+++ {path}\n"]
    for change in changes:
        old = sum(line.sign != _NEW for line in change.lines)
        new = sum(line.sign != _OLD for line in change.lines)
        old_start, new_start = change.old_start + bool(old), change.new_start + bool(new)
        parts.append(f"@@ -{old_start},{old} +{new_start},{new} @@\n")
        for line in change.lines:
            whole = line.text.endswith("\n")
            parts.append(f"{line.sign}{line.text}" + ("" if whole else "\n\\ No newline at end of file\n"))
    return "".join(parts)


class _Target:
    """A text by lines, in which blocks of lines are found."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = split_lines(text)

    def find(self, hunk: Hunk, stated: int, since: int) -> tuple[int, bool] | Mismatch:
        """Return the position of a hunk after line `since`, and whether white space was ignored."""
        old = [line.text for line in hunk.old]
        if not old:
            return (
                (stated, False) if since <= stated <= len(self.lines) else self._misfit(hunk, stated, since)
            )
        if stated >= since and self.lines[stated : stated + len(old)] == old:
            return stated, False
        places = self._exact.find("".join(old), since)
        if len(places) == 1:
            return places[0], False
        if not places:
            keys = [_key(line) for line in old]
            if stated >= since and self._keys[stated : stated + len(old)] == keys:
                return stated, True
            places = self._loose.find("".join(f"{key}\n" for key in keys), since)
            if len(places) == 1:
                return places[0], True
        return self._misfit(hunk, stated, since, places)

    def _misfit(self, hunk: Hunk, stated: int, since: int, places: Sequence[int] = ()) -> Mismatch:
        """Return where a hunk fails: at the only position of its first line, else at the stated one."""
        old = hunk.old
        facts = Mismatch(hunk.number, hunk.start + 1, len(old))
        if places:
            found = tuple(index + 1 for index in places[:PLACES_SHOWN])
            return facts._replace(places=found, target_line=found[0])
        at = max(stated, since)
        if old and len(first := self._exact.find(old[0].text, since)) == 1:
            at = first[0]
        for offset, line in enumerate(old):
            here = self.lines[at + offset] if at + offset < len(self.lines) else None
            if here is None or _key(here) != _key(line.text):
                return facts._replace(
                    patch_line=line.at, target_line=at + offset + 1, expected=line.text, actual=here
                )
        return facts._replace(patch_line=hunk.lines[0].at if hunk.lines else 0, target_line=at + 1)

    @cached_property
    def _exact(self) -> _Index:
        return _Index(self.lines)

    @cached_property
    def _keys(self) -> list[str]:
        return [_key(line) for line in self.lines]

    @cached_property
    def _loose(self) -> _Index:
        return _Index([f"{key}\n" for key in self._keys])


class _Index:
    """Lines in which a block of whole lines is found."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._text = "\n" + "".join(lines)
        self._starts = [0, *accumulate(map(len, lines))]

    def find(self, block: str, since: int) -> list[int]:
        """Return the first matches of a block at or after line `since`, by their first lines, a few more than are shown."""
        at = self._starts[min(since, len(self._starts) - 1)]
        if not block.endswith("\n"):  # it can only be at the end of the text
            last = len(self._text) - len(block) - 1
            return (
                [bisect_left(self._starts, last)] if last >= at and self._text.endswith(f"\n{block}") else []
            )
        found: list[int] = []
        while len(found) <= PLACES_SHOWN and (at := self._text.find(f"\n{block}", at)) >= 0:
            found.append(bisect_left(self._starts, at))
            at += 1
        return found


def split_lines(text: str) -> list[str]:
    r"""Return the lines of a text with their `\n`."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _key(line: str) -> str:
    return " ".join(line.split())
