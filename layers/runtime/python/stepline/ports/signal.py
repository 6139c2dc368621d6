"""Signals: how a running step is notified of a steer.

The steer is in the log, and only the log proves it; a signal makes the step read the log sooner.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from stepline.model.entry import Deleted, Entry, Inbound
from stepline.model.ids import Lane


def ends_wait(entry: Entry) -> bool:
    """Return True if an entry ends what a step is doing: a steer, and the deletion of its conversation."""
    return isinstance(entry, Deleted) or (isinstance(entry, Inbound) and entry.steers)


class Cancel(Protocol):
    """A request for an early end. Thread-safe."""

    @property
    def requested(self) -> bool:
        """True once it is requested, for good."""

    def wait(self, seconds: float) -> bool:
        """Wait for this time, or until it is requested; return True if it is."""


class SteerWatch(Cancel, Protocol):
    """A watch over one conversation's log during its `with` block. It may be late, and is never wrong."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_exc: object) -> None: ...

    def steer(self) -> int:
        """Return the batch of the newest steer after the start of the watch; 0 if none was seen."""

    def calling(self, abort: Callable[[], None]) -> AbstractContextManager[None]:
        """Within the context, call `abort` once when a steer is seen, from any thread; at once if one was."""


class Signals(Protocol):
    def notify(self, lane: Lane, n: int) -> None:
        """Notify watchers that batch n of the conversation steers. Nothing is raised: the log has it, too."""

    def watch(self, lane: Lane, after: int) -> SteerWatch:
        """Return a watch for steers after batch `after`; nothing is read before it is entered."""


class NeverCancelled:
    """A Cancel that is never requested."""

    requested = False

    def wait(self, seconds: float) -> bool:
        """Return at once: it is never requested."""
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
