"""The direction of a text, by the bidirectional classes of its letters. Source: UAX #9, rules P2 and P3."""

from __future__ import annotations

from typing import Final
from unicodedata import bidirectional

_RIGHT: Final = ("R", "AL")


def runs_left(text: str) -> bool:
    """Return whether a text runs from right to left, which its first letter decides."""
    return next((kind in _RIGHT for kind in map(bidirectional, text) if kind in ("L", *_RIGHT)), False)


def has_right_to_left(text: str) -> bool:
    """Return whether a text has letters or digits of a right-to-left script."""
    return not text.isascii() and any(bidirectional(letter) in (*_RIGHT, "AN") for letter in text)
