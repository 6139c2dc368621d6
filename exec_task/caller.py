"""The client of a run; may cancel it."""

from __future__ import annotations

from typing import Protocol


class HungUp(Exception):  # noqa: N818 - no error: who asked for the run wants nothing more of it
    """No client waits for the run any more."""


class Caller(Protocol):
    """It may send a message while a program runs."""

    @property
    def source(self) -> int:
        """A descriptor that is readable when a message has come."""
        ...

    def hear(self) -> str:
        """Read it; return the code with which the program has to end, or "". Raises HungUp."""
        ...
