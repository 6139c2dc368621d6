"""The input of a chat: a pipe with one message per line, or a terminal that is also read during a turn."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol, Self, TypeAlias


class Key(Enum):
    """A key that is not text."""

    INTERRUPT = "Ctrl-C on an empty line"
    END = "Ctrl-D on an empty line, or the end of a pipe"


Typed: TypeAlias = str | Key


class Keyboard(Protocol):
    """A source of typed input, in order; a `with` block covers the time in which the agent works."""

    commands: bool
    """True if lines may be commands."""

    @property
    def draft(self) -> str:
        """The incomplete line."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def line(self, wait_s: float | None = None) -> Typed | None:
        """Return the next piece of input; None if there is none within this time, or never None if no time is given."""

    def typed(self) -> list[Typed]:
        """Return pending input without waiting."""

    def give_back(self, text: str) -> None:
        """Put text back into the editor, before the current draft."""


class Pipe:
    """Lines of a file or a program; each waits for the previous answer."""

    commands = False
    draft = ""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: there is nothing to restore."""

    def line(self, wait_s: float | None = None) -> Typed:
        line = next(self._lines, None)
        return Key.END if line is None else line.removesuffix("\n")

    def typed(self) -> list[Typed]:
        return []

    def give_back(self, text: str) -> None:
        """Do nothing: a pipe has no line editor."""
