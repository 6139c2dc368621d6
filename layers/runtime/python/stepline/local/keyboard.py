"""Who speaks in a chat: a pipe, a message a line, or a person, also while the agent works.

While it works the terminal neither echoes nor edits: what is typed is kept here, shown by whoever shows the rest, and
taken along to the next prompt. Ctrl-C is the command to stop; the second one leaves.
"""

from __future__ import annotations

import codecs
import os
import re
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from types import FrameType
from typing import Any, Final, Protocol, Self

STOP: Final = "/stop"

_KEY: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|[^\[O])|\x1b[\[O]?[0-?]*\Z|.", re.DOTALL)
"""One key: an escape sequence, which an arrow sends; the beginning of one; or a character."""
_BACKSPACE: Final = "\x7f\x08"
_CTRL_U: Final = "\x15"
_CTRL_W: Final = "\x17"


class Keyboard(Protocol):
    """Where lines come from; a `with` block is the time in which the agent works."""

    commands: bool
    """Whether a line may be a command to a turn that runs."""
    draft: str
    """The line that is not complete yet."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def line(self) -> str | None:
        """Return the next line, or nothing at the end."""
        ...

    def typed(self) -> list[str]:
        """Return the lines that were completed while the agent works."""
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

    def line(self) -> str | None:
        return next(self._lines, None)

    def typed(self) -> list[str]:
        return []

    def give_back(self, text: str) -> None:
        """Nobody is there to edit it."""


def fold_keys(draft: str, keys: str) -> tuple[str, list[str], str]:
    """Return the draft after these keys, the lines that they completed, and the beginning of a key at their end."""
    lines = []
    for key in _KEY.findall(keys):
        if key in "\r\n":
            lines.append(draft)
            draft = ""
        elif key in _BACKSPACE:
            draft = draft[:-1]
        elif key == _CTRL_U:
            draft = ""
        elif key == _CTRL_W:
            draft = draft.rstrip().rpartition(" ")[0]
            draft += " " if draft else ""
        elif key.isprintable():
            draft += key
    begun = re.search(r"\x1b[\[O]?[0-?]*\Z", keys)
    return draft, lines, begun[0] if begun else ""


class Terminal:
    """A person at a terminal: a prompt with history and editing, and a plain line while the agent works."""

    commands = True

    def __init__(self, file: int | None = None) -> None:
        """Read from the terminal with this descriptor; default: where standard input comes from."""
        self.draft = ""
        self._file = sys.stdin.fileno() if file is None else file
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""
        self._stops = self._told = 0
        self._restore: list[Any] = []
        self._handler: Any = None

    def __enter__(self) -> Self:
        self._stops = self._told = 0
        self._restore = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        self._handler = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(self, *_exc: object) -> None:
        """Let the terminal edit lines again."""
        signal.signal(signal.SIGINT, self._handler)
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._restore)

    def line(self) -> str | None:
        import readline

        draft, self.draft = self.draft, ""
        readline.set_startup_hook(lambda: readline.insert_text(draft))
        try:
            return input("> ")
        except (EOFError, KeyboardInterrupt):
            print()
            return None
        finally:
            readline.set_startup_hook(None)

    def typed(self) -> list[str]:
        keys = self._begun + self._decoder.decode(self._read())
        self.draft, lines, self._begun = fold_keys(self.draft, keys)
        stops, self._told = self._stops - self._told, self._stops
        return [*lines, *[STOP] * stops]

    def give_back(self, text: str) -> None:
        self.draft = " ".join(filter(None, (" ".join(text.split()), self.draft)))

    def _read(self) -> bytes:
        ready, _, _ = select.select([self._file], [], [], 0)
        return os.read(self._file, 4096) if ready else b""

    def _interrupted(self, _number: int, _frame: FrameType | None) -> None:
        self._stops += 1
        if self._stops > 1:
            raise KeyboardInterrupt
