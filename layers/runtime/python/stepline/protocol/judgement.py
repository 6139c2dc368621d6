"""What a tag means where it stands: one pure function, no state.

Some tags are judged by what follows them, because a model forgets to close a span or a string. A closing
tag in one counts if the text behind it proves that it was meant: anything but a backtick behind a span;
the end, or a declared opening tag, behind a fence or a string.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Literal, NamedTuple, TypeAlias

from stepline.protocol.grammar import TAG
from stepline.protocol.span import Span

_BLANKS = re.compile(r"[ \t\r\n]{0,64}")


Step: TypeAlias = Literal[
    "literal",  # it is only text
    "wait",  # the next piece decides
    "drop",  # it closes nothing
    "open",
    "ignore",  # it opens a channel that nobody declared
    "close",
    "suspend",  # it opens a channel if the program text before it was cut off
    "hide",  # it begins <thinking> outside of channels
    "show",  # and ends it
]
"""What a tag does. (An enum's member costs a call in Python 3.11, which is felt here.)"""


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
            return ("close" if closes else opening_or_drop(tag, declared)), False
        case "program" | "line":
            opens = span == "line" and not tag.closing and tag.name in declared
            return _in_program(closes=closes, opens=opens, final=final), False
        case _ if not closes:
            return "literal", False
        case "inline":
            meant = _differs(text, tag.end, "`", final=final)
        case _:
            meant = _opens_next(text, tag.end, declared, final=final)
    if meant is None:
        return "wait", False
    return ("close", True) if meant else ("literal", False)


def opening_or_drop(tag: Tag, declared: Container[str]) -> Step:
    """Return what a tag does that no open span makes literal and that closes nothing."""
    if tag.closing:
        return "drop"
    return "open" if tag.name in declared else "ignore"


def judge_in_ignored(tag: Tag, ignored: str, declared: Container[str]) -> Step:
    """Return what `tag` does in the channel `ignored`, which nobody declared."""
    if tag.closing:
        return "close" if tag.name == ignored else "literal"
    return "open" if tag.name in declared else "literal"


def _in_program(*, closes: bool, opens: bool, final: bool) -> Step:
    if closes:
        return "close"
    if opens:
        return "open" if final else "suspend"
    return "literal"


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
