"""Foreign text made safe for a terminal: controls and other hidden characters become signs. Pure."""

from __future__ import annotations

from typing import Final

from stepline.model.shorten import shorten_line
from stepline.model.traversal import show_hidden

_LINE_CHARS: Final = 160


def clean(text: str) -> str:
    """Return the text with every hidden character made visible, so that no control reaches the terminal."""
    return show_hidden(text.replace("\r\n", "\n"))


def one_line(text: str, limit_chars: int = _LINE_CHARS) -> str:
    """Return the text on one line, cut at the limit."""
    return shorten_line(clean(text), limit_chars)


def clean_line(text: str) -> str:
    """Return the text on one line with its spaces as they are, and every hidden character made visible."""
    return clean(text).replace("\n", "␊")
