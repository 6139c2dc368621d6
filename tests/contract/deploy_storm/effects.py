"""The world outside: what tools and programs have done there, whichever release ran them."""

from __future__ import annotations

from collections import Counter
from typing import Final

_DONE: Final[Counter[tuple[str, str]]] = Counter()


def note_effect(tool_id: str, what: str) -> None:
    """Let a tool have an effect."""
    _DONE[tool_id, what] += 1


def take_effects() -> Counter[tuple[str, str]]:
    """Return how often each effect was had since the last look."""
    found = Counter(_DONE)
    _DONE.clear()
    return found
