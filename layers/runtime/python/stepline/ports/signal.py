"""Signals: how a running step learns that somebody steers.

The steer stands in the log, and only the log says so; a signal is what makes a step look there sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from stepline.model.ids import Lane


class Cancel(Protocol):
    """Whether what runs is to end early. Several threads may ask."""

    @property
    def requested(self) -> bool:
        """Whether it is; once true, it stays so."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it is requested; tell whether it is."""
        ...


class Watch(Cancel, Protocol):
    """A watch over one conversation's log, while its `with` block lasts. It may be late, and is never wrong."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def steer(self) -> int:
        """Return the batch of the newest steer behind the one where the watch began; 0 if none was seen."""
        ...

    def calling(self, abort: Callable[[], None]) -> AbstractContextManager[None]:
        """While the context lasts, call `abort` once when a steer is seen, from any thread; at once if one was."""
        ...


class Signals(Protocol):
    def notify(self, lane: Lane, n: int) -> None:
        """Tell whoever watches that batch n of the conversation steers. Nothing is raised: the log says it, too."""
        ...

    def watch(self, lane: Lane, after: int) -> Watch:
        """Return a watch for steers behind batch `after`; nothing is read before it is entered."""
        ...


class NeverCancelled:
    """What nobody can cancel."""

    requested = False

    def wait(self, seconds: float) -> bool:
        """Return at once: nobody will ever request it."""
        return False


class NeverSteered(NeverCancelled):
    """The watch of what nobody steers."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """There is nothing to end."""

    def steer(self) -> int:
        """Return 0: there never is one."""
        return 0

    def calling(self, abort: Callable[[], None]) -> AbstractContextManager[None]:
        """Call nothing."""
        return nullcontext()
