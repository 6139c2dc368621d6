"""Mistakes in the protocol, made on request: an answer that would be right, spoiled in one place."""

from __future__ import annotations

from typing import Final

BAD_PREFIX: Final = "Sure! Here is what I would do.\n\n"
UNESCAPED: Final = 'Some would call this answer "scripted", and so it is.\\n\\n'
_SHOWN: Final = ('"final_answer": "', '"notes": "')


def spoil_prefix(text: str, prefix: str = "") -> str:
    """Return a round with something before its first channel."""
    return f"{prefix or BAD_PREFIX}{text}"


def spoil_quote(text: str) -> str:
    """Return a round whose decision holds two quotes that should have been escaped; others come back as they are."""
    place = next((field for field in _SHOWN if field in text), "")
    return text.replace(place, place + UNESCAPED, 1) if place else text
