"""The tag grammar of a generation, and the channels of a decision.

    response := junk? (channel junk?)*
    channel  := "<channel:" NAME ">" body "</channel:" NAME ">"

Names are matched without regard to case. Up to four blanks are tolerated where models put them
(`< channel:thinking >`), so a tag has a maximum length, and text is known to be no tag as soon as it stops
being a prefix of one.
"""

from __future__ import annotations

import re
from typing import Any, Literal, TypeAlias

from stepline.model.base import Value

Format: TypeAlias = Literal["markdown", "html", "json", "text", "yaml", "xml", "mermaid"]
Escape: TypeAlias = Literal["none", "markdown", "json"]

NAME_CHARS_MAX = 48
_BLANKS = r"[ \t]{0,4}"
_NAME = rf"[a-z0-9_-]{{1,{NAME_CHARS_MAX}}}"
_WHOLE_NAME = re.compile(_NAME, re.ASCII | re.IGNORECASE)


_ESCAPE_OF: dict[Format, Escape] = {
    "markdown": "markdown",
    "text": "markdown",
    "html": "markdown",
    "json": "json",
}


class ChannelSpec(Value, kw_only=False):
    """A channel that a generation may use, and how its text is shown.

    `model` is the type of a body: a msgspec type or a pydantic model. `replace_citations` and `strip_usage`
    say how citation tokens and `[[USAGE:…]]` are treated in shown text; a recorded body keeps both.
    `emit_marker` is the surface of the client that shows it. `escape` says where a tag is plain text:
    `markdown` in code spans and fences, `json` in strings, `none` for program text, which ends at its own
    closing tag only. By default the format decides. Raises ValueError for a name or an alias that no tag can have.
    """

    name: str
    format: Format = "markdown"
    model: Any = None
    replace_citations: bool = True
    strip_usage: bool = True
    emit_marker: str = "answer"
    escape: Escape | None = None
    aliases: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a name that the tag pattern does not match: the channel's text would be lost."""
        for name in (self.name, *self.aliases):
            if not _WHOLE_NAME.fullmatch(name):
                raise ValueError(
                    f"a channel's name has 1 to {NAME_CHARS_MAX} of the characters a-z, A-Z, 0-9, _ and -: {name!r}"
                )

    @property
    def escaping(self) -> Escape:
        """The effective escape."""
        return self.escape or _ESCAPE_OF.get(self.format, "none")


THINKING = ChannelSpec("thinking", replace_citations=False, emit_marker="thinking")
DECISION = ChannelSpec("ReactDecisionOutV2", "json", replace_citations=False, aliases=("action",))
CODE = ChannelSpec(
    "code", "text", escape="none", replace_citations=False, strip_usage=False, emit_marker="subsystem"
)
SUMMARY = ChannelSpec("summary", replace_citations=False, emit_marker="subsystem")
DECISION_CHANNELS = (THINKING, DECISION, CODE, SUMMARY)


def make_tail_pattern(*parts: str) -> str:
    """Return a pattern that matches `parts` cut off at any point, only at the end of the text."""
    pattern = ""
    for part in reversed(parts):
        pattern = f"(?:{part}{pattern})?"
    return pattern + r"\Z"


_LEAD = rf"{_BLANKS}(?:(?P<close>/){_BLANKS})?"
_CHANNEL = rf"channel{_BLANKS}:{_BLANKS}(?P<name>{_NAME}){_BLANKS}>"
_CHANNEL_CUT = make_tail_pattern(*"channe", f"l{_BLANKS}", f":{_BLANKS}", f"{_NAME}{_BLANKS}")
_LEGACY = r"(?P<legacy>/?thinking)>"
_LEGACY_CUT = make_tail_pattern("/?", *"thinking")


def _next(letters: str) -> str:
    """Return a look ahead at the first letter, which refuses nearly every `<` of HTML and of code at once."""
    return rf"(?=[ \t/]{{0,9}}(?:[{letters}]|\Z))"


# A whole tag, or a prefix of one at the end of the text; only a whole one ends in ">".
TAG = re.compile(rf"<{_next('c')}{_LEAD}(?:{_CHANNEL}|{_CHANNEL_CUT})", re.ASCII | re.IGNORECASE)
# Outside of channels also `<thinking>`, which some models write before their first channel.
OUTER_TAG = re.compile(
    rf"<{_next('ct')}(?:{_LEGACY}|{_LEGACY_CUT}|{_LEAD}(?:{_CHANNEL}|{_CHANNEL_CUT}))",
    re.ASCII | re.IGNORECASE,
)
