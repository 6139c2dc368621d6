"""The tag grammar of a generation, and the channels that a decision is written in.

    response := junk? (channel junk?)*
    channel  := "<channel:" NAME ">" body "</channel:" NAME ">"

Names are matched without regard to case. Up to four blanks are tolerated where a tired model puts them
(`< channel:thinking >`), so a tag has a greatest length and a piece of the stream can be told from a tag
as soon as it stops being the beginning of one.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from stepline.model.base import Value

Format: TypeAlias = Literal["markdown", "html", "json", "text"]
Escape: TypeAlias = Literal["none", "markdown", "json"]

NAME_CHARS_MAX = 48
_BLANKS = r"[ \t]{0,4}"
_NAME = rf"[a-z0-9_-]{{1,{NAME_CHARS_MAX}}}"


class ChannelSpec(Value):
    """A channel that a generation may use.

    `escape` says where a tag is only text: `none` for program text, which ends at its own closing tag and
    nowhere else, `markdown` in code spans and fences, `json` in strings.
    """

    name: str
    format: Format
    escape: Escape
    aliases: tuple[str, ...] = ()


THINKING = ChannelSpec(name="thinking", format="markdown", escape="markdown")
DECISION = ChannelSpec(name="ReactDecisionOutV2", format="json", escape="json", aliases=("action",))
CODE = ChannelSpec(name="code", format="text", escape="none")
SUMMARY = ChannelSpec(name="summary", format="markdown", escape="markdown")
DECISION_CHANNELS = (THINKING, DECISION, CODE, SUMMARY)


def _cut_off(*parts: str) -> str:
    """Return a pattern that matches `parts` cut off anywhere, but only where the text ends."""
    pattern = ""
    for part in reversed(parts):
        pattern = f"(?:{part}{pattern})?"
    return pattern + r"\Z"


_LEAD = rf"{_BLANKS}(?:(?P<close>/){_BLANKS})?"
_CHANNEL = rf"channel{_BLANKS}:{_BLANKS}(?P<name>{_NAME}){_BLANKS}>"
_CHANNEL_CUT = _cut_off(*"channe", f"l{_BLANKS}", f":{_BLANKS}", f"{_NAME}{_BLANKS}")
_LEGACY = r"(?P<legacy>/?thinking)>"
_LEGACY_CUT = _cut_off("/?", *"thinking")

# A whole tag, or at the end of the text the beginning of one; only the whole one ends in ">".
TAG = re.compile(rf"<{_LEAD}(?:{_CHANNEL}|{_CHANNEL_CUT})", re.ASCII | re.IGNORECASE)
# Outside of channels also `<thinking>`, the habit of some models to think aloud before they speak.
OUTER_TAG = re.compile(
    rf"<(?:{_LEGACY}|{_LEGACY_CUT}|{_LEAD}(?:{_CHANNEL}|{_CHANNEL_CUT}))", re.ASCII | re.IGNORECASE
)
