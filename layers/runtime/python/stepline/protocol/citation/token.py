"""The citation token, `[[S:1,3-5]]`: its grammar, its incomplete forms, and the sids it cites.

    token := "[[" "S" ":" [part] (mark [part])* "]]"    S in either case, blanks and line breaks between all of these
    part  := sid | sid "-" sid                          in any direction, "S:" before either sid
    mark  := "," | ";" | "&" | "and" | a line break

Full-width and small forms of brackets, colon, marks, dash and digits equal the plain ones, and zero-width characters
count as blanks. A blank within a number makes no other number: such a part is unreadable, as anything else is.
Unreadable parts cite nothing, and are never shown. The content is bounded, so that the wait for its end is short, and
holds no blank line.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

Range: TypeAlias = tuple[int, int]

SIDS_MAX: Final = 500
"""The maximum number of sids in a range, and in a text without known sources: the model chooses their number."""

UNREADABLE_SID: Final = 0
"""Marks a token that could not be read. No source has this number."""

IDS_CHARS: Final = 400

OPEN: Final = "[\\[\uff3b\ufe47\ufe5d]"
_CLOSE, _COLON = "[\\]\uff3d\ufe48\ufe5e]", "[:\uff1a\ufe55\ufe13]"
_NOTHING = "\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff"
_BLANKS = "\t \u00a0\u2000-\u200a\u202f\u3000" + _NOTHING
_GAP, _BLANK = f"[{_NOTHING}]{{0,8}}", f"[{_BLANKS}\r]{{0,16}}(?:\n[{_BLANKS}\r]{{0,16}})?"
_INSIDE = f"(?:[^\\[\\]\uff3b\uff3d\ufe47\ufe48\ufe5d\ufe5e`<>\n]|\n(?![\t\r ]*\n)){{0,{IDS_CHARS}}}"
_S = "[Ss\uff33\uff53]"
_BODY = (_BLANK, _S, _BLANK, _COLON, f"(?P<ids>{_INSIDE})", _CLOSE)

SHORT: Final = "".join((OPEN, *_BODY))
"""The pattern of `[S:1]`, which is plain text except where markup makes it a citation."""

TOKEN_ATOMS: Final = (OPEN, _GAP, OPEN, *_BODY, _GAP, _CLOSE)
"""The patterns of the parts of a token, in order."""

TOKEN: Final = re.compile("".join(TOKEN_ATOMS))

TOKEN_MARK: Final = f"{OPEN}(?={_GAP}(?:{OPEN}|\\Z))"
"""The pattern of a possible start of a token."""

_DASH = re.compile(
    f"[{_BLANKS}\r\n]{{0,16}}[-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d]+[{_BLANKS}\r\n]{{0,16}}"
)
_SEPARATOR = re.compile("[,;&\r\n\uff0c\uff1b\u3001\ufe50\ufe54]|\\band\\b")
_SID = f"(?:{_S}{_BLANK}{_COLON}?{_BLANK})?([0-9\uff10-\uff19]{{1,9}})"
_PART = re.compile(f"[{_BLANKS}]*{_SID}(?:-{_SID})?[{_BLANKS}]*")
_EMPTY = re.compile(f"[{_BLANKS}]*")


class CitationForm(NamedTuple):
    """One form of a citation: whole, cut off at the end of the text, and the sids of a whole one; None for no citation."""

    whole: re.Pattern[str]
    cut: re.Pattern[str]
    read: Callable[[re.Match[str]], Ids | None]


def make_prefix_pattern(atoms: Sequence[str]) -> str:
    """Return a pattern that matches the sequence of atoms cut off at any point."""
    pattern = ""
    for atom in reversed(atoms):
        pattern = f"(?:{atom}{pattern})?"
    return pattern


def cited_sids(text: str) -> tuple[int, ...]:
    """Return the sids that a text cites, known or not, in order, each once, at most SIDS_MAX."""
    sids: dict[int, None] = {}
    for token in TOKEN.finditer(text):
        for first, last in parse_ids(token["ids"]):
            sids |= dict.fromkeys(range(first, min(last, first + SIDS_MAX) + 1))
            if len(sids) > SIDS_MAX:
                return tuple(sids)[:SIDS_MAX]
    return tuple(sids)


def has_unreadable(text: str) -> bool:
    """Return True if a text has a citation of which a part cannot be read."""
    return any(read_ids(token["ids"]).unreadable for token in TOKEN.finditer(text))


def renumber_citations(text: str, numbers: Mapping[int, int]) -> str:
    """Return a text that cites other numbers; a token loses the sids that have none, and is left out with the last."""

    def renumbered(token: re.Match[str]) -> str:
        found, _ = expand(parse_ids(token["ids"]), sorted(numbers))
        return f"[[S:{','.join(str(numbers[sid]) for sid in found)}]]" if found else ""

    return TOKEN.sub(renumbered, text)


class Ids(NamedTuple):
    """The sids inside a token, and whether it has unreadable parts; a token without any sid is unreadable."""

    ranges: list[Range]
    unreadable: bool


def read_ids(ids: str) -> Ids:
    """Return the ranges inside a token; parts that are no positive number are unreadable."""
    if ids.isdecimal() and ids.isascii() and len(ids) < 10:  # nearly every token
        return Ids([(int(ids), int(ids))], unreadable=False) if int(ids) else Ids([], unreadable=True)
    ranges: list[Range] = []
    parts = [part for part in _SEPARATOR.split(_DASH.sub("-", ids)) if not _EMPTY.fullmatch(part)]
    for part in parts:
        bounds = _PART.fullmatch(part)
        if bounds is not None:
            first, last = sorted((int(bounds[1]), int(bounds[2] or bounds[1])))
            if last:
                ranges.append((max(first, 1), last))
    return Ids(ranges, unreadable=len(ranges) < max(1, len(parts)))


def parse_ids(ids: str) -> list[Range]:
    """Return the ranges inside a token, as far as they can be read."""
    return read_ids(ids).ranges


def expand(ranges: Iterable[Range], known: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the sids of the sorted `known` within the ranges, and the unknown ends of the ranges.

    The smallest SIDS_MAX sids of a range count: no reader uses more links.
    """
    found: dict[int, None] = {}
    unknown: dict[int, None] = {}
    for first, last in ranges:
        if first == last:
            at = bisect_left(known, first)
            there = at < len(known) and known[at] == first
            (found if there else unknown)[first] = None
            continue
        members = known[bisect_left(known, first) : bisect_right(known, last)]
        found |= dict.fromkeys(members[:SIDS_MAX])
        if not members or members[0] != first:
            unknown[first] = None
        if not members or members[-1] != last:
            unknown[last] = None
    return tuple(found), tuple(unknown)
