"""Texts that are hard for a regular expression. No tests here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as op  # type: ignore[attr-defined]  # the parsed form has no public name
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any, NamedTuple

PAIR_SIGNS_MAX = 8
VARIANTS_MAX = 6
TEXTS_MAX = 400
PROBES = "a0 \n_-.:/=<>\"'`[]{}()\\,*#\t\0éS\u2028"


class Text(NamedTuple):
    """A text that is hard for an expression: `pump` as often as it takes, between `head` and `end`."""

    head: str
    pump: str
    end: str

    def of(self, chars: int) -> str:
        """Return it with about this many characters."""
        return self.head + self.pump * (max(chars - len(self.head), 0) // len(self.pump)) + self.end


def hard_texts(pattern: str, flags: int = 0) -> list[Text]:
    """Return texts made of everything that the expression can repeat, begin with or look for.

    Each repetition is pumped alone, after its prefix, and together with it, so that every beginning
    has the whole rest to look through; besides them the signs of the expression, alone and in pairs.
    """
    tree = parser.parse(pattern, flags)
    signs = _signs(tree)
    pumps: dict[tuple[str, str], None] = {}
    for head, body in _pumps(tree, [""], signs):
        pumps |= dict.fromkeys([(head, body), ("", head + body), ("", head), ("", body)])
    for whole in _samples(tree, signs):
        pumps |= dict.fromkeys([("", whole), ("", whole[:-1]), ("", whole[1:])])
    pumps |= dict.fromkeys(("", sign) for sign in signs)
    few = signs[:PAIR_SIGNS_MAX]
    pumps |= dict.fromkeys(("", a + b) for a in few for b in few if a != b)
    texts = [Text(head, pump, end) for head, pump in pumps if pump for end in ("", "\0")]
    return texts[:: 1 + len(texts) // TEXTS_MAX]


def _signs(tree: Any) -> list[str]:
    """Return the characters that an expression names, and some of the others."""
    named: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, tuple) and len(value) == 2 and value[0] in (op.LITERAL, op.NOT_LITERAL):
            named[chr(value[1])] = None
        elif isinstance(value, tuple | list | parser.SubPattern):
            for one in value:
                walk(one)

    walk(list(tree))
    odd = [char for char in named if not char.isalnum()]
    return list(dict.fromkeys([*odd[:20], *list(named)[:20], *"a0 \n"]))


def _pumps(items: Iterable[Any], heads: list[str], signs: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each repetition, after every prefix that leads to it."""
    for kind, value in items:
        inner: list[Any] = []
        if kind in (op.MAX_REPEAT, op.MIN_REPEAT):
            inner = [value[2]]
            for body in _samples(value[2], signs):
                yield from ((head, body) for head in heads)
        elif kind is op.SUBPATTERN:
            inner = [value[3]]
        elif kind is op.BRANCH:
            inner = value[1]
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            inner = [value[1]]
        for one in inner:
            yield from _pumps(one, heads, signs)
        owns = _samples([(kind, value)], signs)
        heads = [head + own for head in heads for own in owns][:VARIANTS_MAX]


def _samples(items: Iterable[Any], signs: list[str]) -> list[str]:
    """Return some texts that match a sequence, or nearly."""
    made = [""]
    for kind, value in items:
        owns = _sample(kind, value, signs)
        made = [text + own for text in made for own in owns][: VARIANTS_MAX * 4]
    return list(dict.fromkeys(made))[:VARIANTS_MAX]


def _sample(kind: Any, value: Any, signs: list[str]) -> list[str]:
    made = [""]  # what is looked at and not taken; a group said again
    match kind:
        case op.LITERAL:
            made = [chr(value)]
        case op.NOT_LITERAL:
            made = [char for char in (*signs, *PROBES) if ord(char) != value][:4]
        case op.ANY:
            made = list(dict.fromkeys([*signs[:3], "a", " "]))
        case op.IN:
            made = _members(value, signs)
        case op.BRANCH:
            made = list(dict.fromkeys(one for branch in value[1] for one in _samples(branch, signs)[:2]))
        case op.SUBPATTERN:
            made = _samples(value[3], signs)
        case op.MAX_REPEAT | op.MIN_REPEAT:
            low, high, body = value
            some = [one * max(low, 1) for one in _samples(body, signs)] if high else []
            made = [*some, ""] if low == 0 else some
    return made


def _members(value: Any, signs: list[str]) -> list[str]:
    """Return some characters of a class, those first that the expression names elsewhere."""
    one = re.compile(_class_text(value))
    members = [char for char in dict.fromkeys((*signs, *PROBES)) if one.fullmatch(char)]
    if not members:
        members = [
            chr(item if what is op.LITERAL else item[0])
            for what, item in value
            if what in (op.LITERAL, op.RANGE)
        ]
    spread = members[:3] + [char for char in members[3:] if char in "a0 \n"]
    return spread[:VARIANTS_MAX]


_CATEGORIES = {
    op.CATEGORY_DIGIT: r"\d",
    op.CATEGORY_NOT_DIGIT: r"\D",
    op.CATEGORY_SPACE: r"\s",
    op.CATEGORY_NOT_SPACE: r"\S",
    op.CATEGORY_WORD: r"\w",
    op.CATEGORY_NOT_WORD: r"\W",
}


def _class_text(value: Any) -> str:
    parts = []
    for kind, item in value:
        if kind is op.NEGATE:
            parts.append("^")
        elif kind is op.LITERAL:
            parts.append(re.escape(chr(item)))
        elif kind is op.RANGE:
            parts.append(f"{re.escape(chr(item[0]))}-{re.escape(chr(item[1]))}")
        else:
            parts.append(_CATEGORIES[item])
    return f"[{''.join(parts)}]"
