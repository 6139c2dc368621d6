"""The client of a run; may cancel it."""

from __future__ import annotations

from typing import Protocol


class HungUp(Exception):  # noqa: N818 - not an error: the client that requested the run no longer wants it
    """No client is waiting for the run."""


class Caller(Protocol):
    """A client that may send a message while a program runs."""

    @property
    def source(self) -> int:
        """A descriptor that is readable when a message has arrived."""
        ...

    def hear(self) -> str:
        """Read the message; return the code that the program must end with, or "". Raises HungUp."""
        ...
