"""The input of a chat: a pipe, a message a line, or a person at a terminal, also while the agent works."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Protocol, Self, TypeAlias


class Key(Enum):
    """A key that is no text."""

    INTERRUPT = "Ctrl-C on an empty line"
    END = "Ctrl-D on an empty line, or the end of a pipe"


Typed: TypeAlias = str | Key


class Keyboard(Protocol):
    """Brings what is typed in order, each piece once; a `with` block is the time in which the agent works."""

    commands: bool
    """Whether a line may be a command."""

    @property
    def draft(self) -> str:
        """The line that is not complete yet."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def line(self) -> Typed:
        """Wait for the next piece."""
        ...

    def typed(self) -> list[Typed]:
        """Return what was typed and not taken yet, without waiting."""
        ...

    def give_back(self, text: str) -> None:
        """Let a person edit a text again, before what they are typing."""
        ...


class Pipe:
    """Lines of a file or a program; each waits for the answer to the one before."""

    commands = False
    draft = ""

    def __init__(self, lines: Iterator[str]) -> None:
        """Read from `lines`."""
        self._lines = lines

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Nothing was changed."""

    def line(self) -> Typed:
        line = next(self._lines, None)
        return Key.END if line is None else line.removesuffix("\n")

    def typed(self) -> list[Typed]:
        return []

    def give_back(self, text: str) -> None:
        """A pipe has no line editor."""
