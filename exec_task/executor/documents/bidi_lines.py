"""Lines of right-to-left text for a library that draws from left to right: ordered, mirrored and joined.

Levels come from python-bidi for a whole paragraph, and the forms of letters from arabic-reshaper. Lines are broken
between the two steps, as the algorithm specifies. Isolates are omitted, because the library does not support them.
Source: UAX #9, sections 3.4 (rules L1, L2 and L4) and 6.1; python-bidi, `bidi.algorithm`; arabic-reshaper,
"Configuration".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any, Final, TypeAlias
from unicodedata import bidirectional

from bidi import algorithm
from bidi.mirror import MIRRORED

from .direction import has_right_to_left
from .markdown import Span

_UNDRAWN: Final = ("BN", "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
"""Classes of characters that only control how other characters are ordered or joined."""
_MARKS: Final = "\u200e\u200f\u061c"
_JOINED: Final = re.compile(
    "[\u0620-\u063f\u0641-\u064a\u066e-\u06d3\u06d5\u06fa-\u06fc\u06ff\u0710-\u077f\u07ca-\u07ea\u0840-\u0858\u0860-\u086a"
    "\u08a0-\u08c7\u1807-\u18aa\ua840-\ua872\U00010ac0-\U00010ae4\U00010b80-\U00010bae\U00010d00-\U00010d23"
    "\U00010f30-\U00010f54\U0001e900-\U0001e943]"
)

Letter: TypeAlias = tuple[str, int]
"""A letter, and the index of its span."""


@cache
def _reshaper() -> Any:
    from arabic_reshaper import ArabicReshaper  # noqa: PLC0415 - for texts with such letters only

    return ArabicReshaper({"delete_harakat": False})


def shaped(text: str) -> str:
    """Return a text with its Arabic letters in their joined forms, without characters that only control order."""
    if not has_right_to_left(text):
        return text
    joined: str = _reshaper().reshape(text)
    return "".join(letter for letter in joined if bidirectional(letter) not in _UNDRAWN)


def unjoined(text: str) -> list[str]:
    """Return the letters of a shaped text that should join but have no joined form."""
    return list(dict.fromkeys(_JOINED.findall(text)))


def ordered(
    spans: Sequence[Span], room: float, measure: Callable[[Span], float], *, left: bool
) -> list[list[Span]]:
    """Return the lines of a paragraph, each as spans from left to right and no wider than `room`.

    `left` is true for a paragraph that runs from right to left. Spaces at the end of a line are dropped.
    """
    letters = [
        (letter, at)
        for at, span in enumerate(spans)
        for letter in (f"[{span.note}]" if span.note else shaped(span.text))
    ]
    known = {(letter, at): measure(replace(spans[at], text=letter, note=0)) for letter, at in set(letters)}
    lines: list[list[Span]] = []
    for is_break, group in groupby(letters, lambda one: one[0] == "\n"):
        part = list(group)
        if is_break:
            lines += [[]] * (len(part) - 1)
            continue
        levels = _levels("".join(letter for letter, _ in part), base=int(left))
        widths = [known[one] for one in part]
        for start, end in _broken(part, widths, room):
            lines.append(_spans(_visual(part[start:end], levels[start:end]), spans))
    return lines


def _levels(text: str, *, base: int) -> list[int]:
    storage = algorithm.get_empty_storage()
    storage["base_level"], storage["base_dir"] = base, "LR"[base]
    algorithm.get_embedding_levels(text, storage)
    algorithm.explicit_embed_and_overrides(storage)
    algorithm.resolve_weak_types(storage)
    algorithm.resolve_neutral_types(storage, debug=False)
    algorithm.resolve_implicit_levels(storage, debug=False)
    return [char["level"] for char in storage["chars"]]


def _broken(letters: Sequence[Letter], widths: Sequence[float], room: float) -> Iterator[tuple[int, int]]:
    """Yield each line as (start, end), broken after blanks, or within a word that is wider than a line."""
    start = after_blank = 0
    used = 0.0
    for at, ((letter, _), width) in enumerate(zip(letters, widths, strict=True)):
        if used + width > room and at > start and not letter.isspace():
            cut = after_blank if after_blank > start else at
            yield start, cut
            start, used = cut, sum(widths[cut:at])
        used += width
        if letter.isspace():
            after_blank = at + 1
    yield start, len(letters)


def _visual(letters: Sequence[Letter], levels: Sequence[int]) -> list[Letter]:
    """Return a line in visual order."""
    end = len(letters)
    while end and letters[end - 1][0].isspace():
        end -= 1
    order = list(range(end))
    for level in range(max(levels[:end], default=0), 0, -1):
        at = 0
        for within, group in groupby([levels[one] >= level for one in order]):
            width = len(list(group))
            if within:
                order[at : at + width] = order[at : at + width][::-1]
            at += width
    # A mark stays to the left of its letter: the font positions Hebrew and Arabic marks that way.
    found = [
        (MIRRORED.get(letters[at][0], letters[at][0]) if levels[at] % 2 else letters[at][0], letters[at][1])
        for at in order
    ]
    return [one for one in found if one[0] not in _MARKS]


def _spans(letters: Sequence[Letter], spans: Sequence[Span]) -> list[Span]:
    return [
        spans[at] if spans[at].note else replace(spans[at], text="".join(letter for letter, _ in group))
        for at, group in groupby(letters, lambda one: one[1])
    ]
