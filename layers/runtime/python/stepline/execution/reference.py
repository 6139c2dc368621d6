"""The files of other turns that a program names, found in its text.

A program runs as it was written, so nothing here changes it; what is found decides whether it can work at all.
Only literals are looked at, not comments. They are found by their quotes and not by Python's own parser, because
the text may be any text and this runs where we are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.ids import TURN
from stepline.model.path import from_physical, parse_path, physical

_ESCAPED: Final = r"\\(?:.|\Z)"
_LITERAL: Final = re.compile(
    "|".join(
        (
            r"\#[^\n]*",
            *(rf"{q * 3}([^{q}\\]*(?:(?:{_ESCAPED}|{q}(?!{q * 2}))[^{q}\\]*)*)(?:{q * 3}|\Z)" for q in "'\""),
            *(rf"{q}([^{q}\\]*(?:{_ESCAPED}[^{q}\\]*)*)(?:{q}|\Z)" for q in "'\""),
        )
    ),
    re.DOTALL,
)
"""A comment, or a literal with its text as the only group that took part; one that nobody closes goes to the end."""
_REFERENCE: Final = re.compile(
    rf"(?<![A-Za-z0-9_-])(?:fi:(?P<logical>{TURN.pattern})\.(?:files/|outputs/|user\.attachments/|external\.)"
    rf"|(?P<physical>{TURN.pattern})/(?:files|outputs|attachments|external)/)(?P<rest>[^\n\\'\"<>|]*)"
)
_OPEN_END: Final = re.compile(r"[{*?\[%]")
"""Where a path stops being fixed: a field of an f-string, a pattern, a format."""


class Reference(Value):
    """A file of another turn: `path` is where it would lie, `logical` its logical path."""

    path: str
    logical: str


def find_absent(code: str, *, turn: str, present: Collection[str]) -> tuple[Reference, ...]:
    """Return what a program of `turn` names of other turns and does not find; `present` are physical paths."""
    if not any(found["logical"] or found["physical"] for found in _foreign(code, turn)):
        return ()
    absent: dict[str, Reference] = {}
    for literal in _LITERAL.finditer(code):
        for found in _foreign(literal[literal.lastindex] if literal.lastindex else "", turn):
            reference = _resolve(found, present)
            if reference is not None:
                absent.setdefault(reference.path, reference)
    return tuple(absent.values())


def _foreign(text: str, turn: str) -> Iterator[re.Match[str]]:
    return (found for found in _REFERENCE.finditer(text) if (found["logical"] or found["physical"]) != turn)


def _resolve(found: re.Match[str], present: Collection[str]) -> Reference | None:
    """Return what a reference names if it is not there; None if it is, or if it names no file.

    A file's name may hold blanks and a sentence goes on after a path, so both readings are tried.
    """
    candidates = [_read(found, rest) for rest in _readings(found["rest"])]
    named = [reference for reference in candidates if reference is not None]
    if not named or any(_is_there(reference.path, found, present) for reference in named):
        return None
    in_a_sentence = any(char.isspace() for char in found.string[: found.start()])
    return named[-1] if in_a_sentence else named[0]


def _readings(rest: str) -> list[str]:
    fixed = _OPEN_END.split(rest, maxsplit=1)[0]
    word = fixed.split(maxsplit=1)[0].rstrip(".,;:)!") if fixed.strip() else ""
    return list(dict.fromkeys((fixed.strip().rstrip("/"), word.rstrip("/"))))


def _read(found: re.Match[str], rest: str) -> Reference | None:
    head = found[0][: found.start("rest") - found.start()]
    try:
        path = parse_path(head + rest) if found["logical"] else from_physical(head + rest)
    except PathError:
        return None
    where = physical(path)
    return Reference(path=where, logical=str(path)) if where else None


def _is_there(path: str, found: re.Match[str], present: Collection[str]) -> bool:
    if _OPEN_END.search(found["rest"]):
        return any(file.startswith(path) for file in present)
    return path in present or any(file.startswith(f"{path}/") for file in present)
