"""What a tag means where it stands: one pure function, no state.

Some tags are judged by what follows them, because a model forgets to close a span or a string. A closing
tag in one counts if the text behind it proves that it was meant: anything but a backtick behind a span;
the end, or a declared opening tag, behind a fence or a string.
"""

from __future__ import annotations

import re
from collections.abc import Container
from enum import Enum
from typing import NamedTuple

from stepline.protocol.grammar import TAG
from stepline.protocol.span import Span

_BLANKS = re.compile(r"[ \t\r\n]{0,64}")


class Step(Enum):
    """What a tag does."""

    LITERAL = "literal"  # it is only text
    WAIT = "wait"  # the next piece decides
    DROP = "drop"  # it closes nothing
    OPEN = "open"
    IGNORE = "ignore"  # it opens a channel that nobody declared
    CLOSE = "close"
    SUSPEND = "suspend"  # it opens a channel if the program text before it was cut off
    HIDE = "hide"  # it begins <thinking> outside of channels
    SHOW = "show"  # and ends it


class Tag(NamedTuple):
    """A tag in a text; `name` is in lower case, and empty for what is only the beginning of a tag."""

    name: str
    closing: bool
    legacy: bool
    start: int
    end: int


def read_tag(found: re.Match[str]) -> Tag:
    """Return what `grammar.TAG` or `grammar.OUTER_TAG` found."""
    if found.lastgroup == "legacy":
        return Tag("thinking", found["legacy"][0] == "/", True, *found.span())
    closing, name = found.group("close", "name")
    return Tag(name.lower() if name else "", closing is not None, False, *found.span())


def judge(
    tag: Tag, text: str, span: Span, *, own: bool, declared: Container[str], final: bool
) -> tuple[Step, bool]:
    """Return what `tag` does in an open channel, and whether that overrides `span`.

    `own` says whether the tag names the open channel, `final` that nothing follows `text`.
    """
    closes = own and tag.closing
    match span:
        case "":
            return (Step.CLOSE if closes else opening_or_drop(tag, declared)), False
        case "program" | "line":
            opens = span == "line" and not tag.closing and tag.name in declared
            return _in_program(closes=closes, opens=opens, final=final), False
        case _ if not closes:
            return Step.LITERAL, False
        case "inline":
            meant = _differs(text, tag.end, "`", final=final)
        case _:
            meant = _opens_next(text, tag.end, declared, final=final)
    if meant is None:
        return Step.WAIT, False
    return (Step.CLOSE, True) if meant else (Step.LITERAL, False)


def opening_or_drop(tag: Tag, declared: Container[str]) -> Step:
    """Return what a tag does that no open span makes literal and that closes nothing."""
    if tag.closing:
        return Step.DROP
    return Step.OPEN if tag.name in declared else Step.IGNORE


def judge_in_ignored(tag: Tag, ignored: str, declared: Container[str]) -> Step:
    """Return what `tag` does in the channel `ignored`, which nobody declared."""
    if tag.closing:
        return Step.CLOSE if tag.name == ignored else Step.LITERAL
    return Step.OPEN if tag.name in declared else Step.LITERAL


def _in_program(*, closes: bool, opens: bool, final: bool) -> Step:
    if closes:
        return Step.CLOSE
    if opens:
        return Step.OPEN if final else Step.SUSPEND
    return Step.LITERAL


def _differs(text: str, at: int, char: str, *, final: bool) -> bool | None:
    """Say whether the text goes on with another character; None if that is not known yet."""
    if at == len(text):
        return True if final else None
    return text[at] != char


def _opens_next(text: str, at: int, declared: Container[str], *, final: bool) -> bool | None:
    """Say whether a declared channel opens after blanks, or the text ends; None if that is not known yet."""
    blanks = _BLANKS.match(text, at)
    assert blanks is not None
    if blanks.end() == len(text):
        return True if final else None
    found = TAG.match(text, blanks.end())
    if found is None:
        return False
    tag = read_tag(found)
    if not tag.name:
        return False if final else None
    return not tag.closing and tag.name in declared
