"""Tags in context: code spans in Markdown, strings in JSON and program text make a tag plain text.

When a tag appears, a scanner reads the body up to it, each character once. Pieces may be cut at any tag,
never inside a run of backticks or tildes.

`judge` is pure: it returns the effect of a tag at its position. Some tags are judged by the text after them,
because a model forgets to close a span or a string. A closing tag inside one counts if the following text
proves that it was meant: anything but a backtick after a span; the end, or a declared opening tag, after a
fence or a string.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Literal, NamedTuple, Protocol, TypeAlias, assert_never

from stepline.protocol.parser.grammar import TAG, Escape

Span: TypeAlias = Literal["", "inline", "fence", "string", "program", "line"]

_RUN = re.compile(r"`+|~~~+")
_FENCE_CHARS = 3
_INDENT_MAX = 3


class EscapeScanner(Protocol):
    """Tracks the escapes of one body."""

    def read(self, text: str) -> Span:
        """Continue reading, and return the span that is open at the end of `text`; "" for none."""


class ProgramScanner:
    """Program text: only its own closing tag has a meaning."""

    __slots__ = ("_starts_line",)

    def __init__(self) -> None:
        self._starts_line = True

    def read(self, text: str) -> Span:
        """Continue reading, and return "line" at the start of a line, else "program"."""
        if text:
            self._starts_line = text.endswith("\n")
        return "line" if self._starts_line else "program"


class JsonScanner:
    """JSON strings. Fences around the object hold no quotes and need no handling."""

    __slots__ = ("_escaped", "_in_string")

    def __init__(self) -> None:
        self._in_string = False
        self._escaped = False

    def read(self, text: str) -> Span:
        """Continue reading, and return "string" inside a string."""
        if text:
            body = text[1:] if self._escaped else text
            self._escaped = (len(body) - len(body.rstrip("\\"))) % 2 == 1
            if "\\" in body:
                body = body.replace("\\\\", "").replace('\\"', "")
            self._in_string ^= body.count('"') % 2 == 1
        return "string" if self._in_string else ""


class MarkdownScanner:
    """Code spans, which end with their line, and fences of backticks or tildes, which begin on a line of their own."""

    __slots__ = ("_fence", "_indent", "_inline", "_opening", "_tilde")

    def __init__(self) -> None:
        self._fence = 0  # characters of the open fence
        self._tilde = False  # it is made of tildes
        self._inline = 0  # backticks of the open span
        self._opening = False  # still on the opening line of the fence
        self._indent = 0  # blanks since the start of the line, or -1 after other text

    def read(self, text: str) -> Span:
        """Continue reading, and return "fence", "inline" or ""."""
        at = 0
        if not self._fence and "```" not in text and "~~~" not in text:
            at = max(text.rfind("\n"), 0)  # no span outlives its line
        for run in _RUN.finditer(text, at):
            self._pass(text[at : run.start()])
            at = run.end()
            self._run(at - run.start(), tilde=text[run.start()] == "~")
        self._pass(text[at:])
        if self._fence:
            return "fence"
        return "inline" if self._inline else ""

    def _pass(self, between: str) -> None:
        line_end = between.rfind("\n")
        if line_end >= 0:
            self._inline, self._opening, self._indent = 0, False, 0
            between = between[line_end + 1 :]
        if between and self._indent >= 0:
            self._indent = -1 if between.strip(" ") else self._indent + len(between)

    def _run(self, count: int, *, tilde: bool) -> None:
        starts_line = 0 <= self._indent <= _INDENT_MAX
        if self._fence:
            # ```json {} ``` on one line is a span that looked like a fence
            ends = starts_line or (self._opening and not tilde)
            if tilde == self._tilde and count >= self._fence and ends:
                self._fence = 0
        elif tilde and not starts_line:
            pass  # strikethrough, or text
        elif self._inline:
            if count == self._inline:
                self._inline = 0
        elif starts_line and count >= _FENCE_CHARS:
            self._fence, self._tilde, self._opening = count, tilde, True
        else:
            self._inline = count
        self._indent = -1


def scanner_for(escape: Escape) -> EscapeScanner:
    """Return a new scanner for a channel's `escape`."""
    match escape:
        case "json":
            return JsonScanner()
        case "markdown":
            return MarkdownScanner()
        case "none":
            return ProgramScanner()
        case _:
            assert_never(escape)


_BLANKS = re.compile(r"[ \t\r\n]{0,64}")
_SPAN_REST = re.compile(r"[^`\n]{0,200}")
"""The text between a tag in a span and the span's end; bounded, because it is held back."""


TagVerdict: TypeAlias = Literal[
    "literal",  # it is plain text
    "wait",  # the next piece decides
    "drop",  # it has no effect
    "open",
    "ignore",  # it opens an undeclared channel
    "close",
    "suspend",  # it opens a channel if the program text before it was cut off
    "hide",  # it begins <thinking> outside of channels
    "show",  # and ends it
]
"""The effect of a tag. (An enum member costs a call in Python 3.11, which is measurable here.)"""


class Tag(NamedTuple):
    """A tag in a text; `name` is in lower case, and empty for an incomplete tag."""

    name: str
    closing: bool
    legacy: bool
    start: int
    end: int


def read_tag(found: re.Match[str]) -> Tag:
    """Return the tag of a match of `grammar.TAG` or `grammar.OUTER_TAG`."""
    if found.lastgroup == "legacy":
        return Tag("thinking", found["legacy"][0] == "/", True, *found.span())
    closing, name = found.group("close", "name")
    return Tag(name.lower() if name else "", closing is not None, False, *found.span())


def judge_tag(
    tag: Tag, text: str, span: Span, *, own: bool, declared: Container[str], final: bool
) -> tuple[TagVerdict, bool]:
    """Return the effect of `tag` in an open channel, and whether it overrides `span`.

    `own`: the tag names the open channel; `final`: nothing follows `text`.
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


def judge_in_span(tag: Tag, text: str, *, final: bool) -> TagVerdict | None:
    """Return the effect of `tag` in a code span between channels; None if the span does not end on its line.

    A fence there makes no tag text, because models wrap a whole generation in one.
    """
    rest = _SPAN_REST.match(text, tag.end)
    assert rest is not None
    if rest.end() == len(text) and not final:
        return "wait"
    return "literal" if text[rest.end() : rest.end() + 1] == "`" else None


def judge_in_prose(tag: Tag, declared: Container[str], *, final: bool) -> TagVerdict:
    """Return the effect of `tag` between channels."""
    if tag.legacy:
        return "literal" if tag.closing or final else "hide"
    return opening_or_drop(tag, declared)


def opening_or_drop(tag: Tag, declared: Container[str]) -> TagVerdict:
    """Return the effect of a tag outside of open spans that closes nothing."""
    if tag.closing:
        return "drop"
    return "open" if tag.name in declared else "ignore"


def judge_in_ignored(tag: Tag, ignored: str, declared: Container[str]) -> TagVerdict:
    """Return the effect of `tag` in the undeclared channel `ignored`."""
    if tag.closing:
        return "close" if tag.name == ignored else "literal"
    return "open" if tag.name in declared else "literal"


def _in_program(*, closes: bool, opens: bool, final: bool) -> TagVerdict:
    if closes:
        return "close"
    if opens:
        return "open" if final else "suspend"
    return "literal"


def _differs(text: str, at: int, char: str, *, final: bool) -> bool | None:
    """Return True if the text continues with another character; None if not known yet."""
    if at == len(text):
        return True if final else None
    return text[at] != char


def _opens_next(text: str, at: int, declared: Container[str], *, final: bool) -> bool | None:
    """Return True if a declared channel opens after blanks, or the text ends; None if not known yet."""
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
