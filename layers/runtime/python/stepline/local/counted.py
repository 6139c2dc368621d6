"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return `1 file` or `1,200 files`; `many` is the plural of a noun that does not end in s."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
