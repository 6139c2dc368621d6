"""Make foreign text safe for a terminal: show control and hidden characters as symbols, and hide credentials. Pure."""

from __future__ import annotations

import re
from typing import Final

from stepline.model.visible_text import shorten_line, show_hidden

_LINE_CHARS: Final = 160
_USER: Final = re.compile(r"(:/{1,2})[^/\s]*@|(?<![^\s'\"])[^/\s@]{1,200}@(?=[^/\s@:]{1,200}:)")
_QUERY: Final = re.compile(r"(?<=\S)[?#][^\s'\"]*")


def clean(text: str) -> str:
    """Show every hidden character as a symbol, so that no control sequence reaches the terminal."""
    return show_hidden(text.replace("\r\n", "\n"))


def one_line(text: str, limit_chars: int = _LINE_CHARS) -> str:
    """Return the text on one line, cut at the limit."""
    return shorten_line(clean(text), limit_chars)


def without_credentials(text: str) -> str:
    """Return a text without user, password and query of the addresses in it: each of them may be a token."""
    return _QUERY.sub("", _USER.sub(r"\1", text))


def clean_line(text: str) -> str:
    """Return the text on one line with its spaces kept, and every hidden character shown as a symbol."""
    return clean(text).replace("\n", "␊")
