"""Whoever a program is run for, as those who watch over it know him."""

from __future__ import annotations

from typing import Protocol


class HungUp(Exception):  # noqa: N818 - no error: who asked for the run wants nothing more of it
    """Nobody waits for the run any more."""


class Caller(Protocol):
    """He may have something to say while a program runs."""

    @property
    def source(self) -> int:
        """A descriptor that is readable when he does."""
        ...

    def hear(self) -> str:
        """Take it; return the code for which the program has to end, or nothing. Raises HungUp."""
        ...
