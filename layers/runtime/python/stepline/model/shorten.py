"""Texts cut to a number of characters, with a mark at the cut."""

from __future__ import annotations


def shorten(text: str, chars: int) -> str:
    """Return a text of at most so many characters; one that was cut ends in "…"."""
    return text if len(text) <= chars else f"{text[: chars - 1]}…"


def shorten_line(text: str, chars: int) -> str:
    """Return a text on one line, of at most so many characters."""
    return shorten(" ".join(text.split()), chars)
