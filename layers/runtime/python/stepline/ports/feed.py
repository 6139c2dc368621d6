"""Feeds: the frames of a conversation as they are sent, for a server that holds clients itself."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self

from stepline.model.ids import Lane


class Following(Protocol):
    """What is sent to one conversation while the `with` block lasts, in that order. Iterated by one thread.

    It yields None where something may have been missed: at the beginning, after the connection was lost, and every now
    and then when nothing comes. It raises nothing: what it misses stands in the log.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def __iter__(self) -> Self: ...

    def __next__(self) -> bytes | None: ...

    def end(self) -> None:
        """End the iteration, from any thread."""
        ...


class Feed(Protocol):
    def follow(self, lane: Lane) -> Following:
        """Return a way to follow a conversation; nothing is heard before it is entered."""
        ...
