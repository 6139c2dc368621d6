"""Text prepared for people: cut to a number of characters, with a symbol for each hidden character.

Hidden are controls, direction overrides, zero-width characters, and tags that can spell invisible sentences. Characters of
ordinary text are not: soft hyphens, the joiners of emoji and of Persian and Indic words, and the direction marks of Hebrew
and Arabic, none of which changes the order of letters.
"""

from __future__ import annotations

import re
from typing import Final

_CONTROLS: Final = bytes((*range(9), *range(0x0B, 0x20), 0x7F))
_HIDDEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u180e\u200b\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
    "|[\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e007f]"
)
_BLANK: Final = re.compile(
    "[\\s\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2400-\u2421\u2800\u3164\ufe00-\ufe0f\uffa0\ufffd\U000e0100-\U000e01ef]"
)
"""Printable characters that draw nothing, and the signs of hidden ones. Source: Unicode, Default_Ignorable_Code_Point."""


def shorten(text: str, chars: int) -> str:
    """Return a text of at most `chars` characters; one that was cut ends in "…"."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def shorten_line(text: str, chars: int) -> str:
    """Return a text on one line, of at most `chars` characters."""
    return shorten(" ".join(text.split()), chars)


def has_hidden(text: str) -> bool:
    """Return True if the text has hidden characters; all line breaks but the line feed are hidden."""
    if text.isascii():  # seven times as fast as the pattern, and most text is
        return len(text.encode().translate(None, _CONTROLS)) < len(text)
    return _HIDDEN.search(text) is not None


def has_visible(text: str) -> bool:
    """Return True if the text has a character that a reader sees; the signs of `show_hidden` do not count."""
    return any(char.isprintable() for char in _BLANK.sub("", text))


def show_hidden(text: str) -> str:
    """Return the text with a symbol for each hidden character: U+2400… for controls, U+FFFD for others."""
    return _HIDDEN.sub(_sign, text)


def _sign(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "\ufffd"
