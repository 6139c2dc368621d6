"""Signals: notify a running step of a steer.

The steer is in the log, and only the log proves it; a signal only makes the step read the log sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from stepline.model.entry import Deleted, Entry, Inbound
from stepline.model.ids import Lane


def ends_wait(entry: Entry) -> bool:
    """Return True if an entry interrupts a step: a steer, or the deletion of its conversation."""
    return isinstance(entry, Deleted) or (isinstance(entry, Inbound) and entry.steers)


class Cancel(Protocol):
    """A request for an early end. Thread-safe."""

    @property
    def requested(self) -> bool:
        """True once the end is requested, permanently."""

    def wait(self, seconds: float) -> bool:
        """Wait for this time, or until the end is requested; return True if it is."""


class SteerWatch(Cancel, Protocol):
    """A watch over one conversation's log during its `with` block. It may be late, but is never wrong."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def steer(self) -> int:
        """Return the batch of the newest steer since the watch started; 0 if none was seen."""

    def calling(self, abort: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the context, call `abort` once when a steer is seen, from any thread; immediately if one was seen."""


class Signals(Protocol):
    def notify(self, lane: Lane, n: int) -> None:
        """Notify watchers that batch n of the conversation steers. Raises nothing: the log also has the steer."""

    def watch(self, lane: Lane, after: int) -> SteerWatch:
        """Return a watch for steers after batch `after`; it reads nothing before its `with` block."""


class NeverCancelled:
    """A Cancel that is never requested."""

    requested = False

    def wait(self, seconds: float) -> bool:
        """Return immediately: the end is never requested."""
        return False


class NeverSteered(NeverCancelled):
    """A Watch that never sees a steer."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        """Do nothing: there is nothing to end."""

    def steer(self) -> int:
        """Return 0: there is no steer."""
        return 0

    def calling(self, abort: Callable[[], None]) -> AbstractContextManager[None]:
        """Do nothing: `abort` is never called."""
        return nullcontext()
