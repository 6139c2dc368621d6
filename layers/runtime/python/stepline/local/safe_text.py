"""Make foreign text safe for a terminal: control and hidden characters are shown as symbols. Pure."""

from __future__ import annotations

from typing import Final

from stepline.model.shorten import shorten_line
from stepline.model.traversal import show_hidden

_LINE_CHARS: Final = 160


def clean(text: str) -> str:
    """Show every hidden character as a symbol, so that no control sequence reaches the terminal."""
    return show_hidden(text.replace("\r\n", "\n"))


def one_line(text: str, limit_chars: int = _LINE_CHARS) -> str:
    """Return the text on one line, cut at the limit."""
    return shorten_line(clean(text), limit_chars)


def clean_line(text: str) -> str:
    """Return the text on one line with its spaces kept, and every hidden character shown as a symbol."""
    return clean(text).replace("\n", "␊")
