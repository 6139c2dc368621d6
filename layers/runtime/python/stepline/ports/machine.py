"""The state machine: executions by name."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

from stepline.model.ids import Lane
from stepline.model.step import Step

ExecutionStatus = Literal["running", "ended", "absent"]


class Machine(Protocol):
    def start(self, name: str, step: Step) -> bool:
        """Start the execution `name`; false if one of that name exists, running or not.

        True may also mean that it already runs with this very step: AWS answers a repeat like the first call.
        """
        ...

    def status(self, name: str) -> ExecutionStatus:
        """Return what became of the execution `name`."""
        ...

    def stop(self, name: str) -> None:
        """End a running execution; nothing to do for another."""
        ...


class OwnMachine(Machine, Protocol):
    """A machine whose executions are driven by whoever takes them, in this process. Several threads may call."""

    def take(self, lane: Lane) -> tuple[str, Step] | None:
        """Return the oldest execution of a conversation that was started and not taken; None if there is none."""
        ...

    def end(self, name: str) -> None:
        """Let a running execution end, taken or not; nothing to do for another."""
        ...

    def started(self, name: str) -> bool:
        """Tell whether an execution was started here, as far as this process remembers: a running one always."""
        ...

    def ended(self, name: str) -> Future[None]:
        """Return what is done when the execution has ended: at once, if it does not run. Nobody cancels it."""
        ...

    def door(self, lane: Lane) -> AbstractContextManager[Any]:
        """Return what is held from a put that may open a turn until its execution is started.

        Who puts in between would take a turn for dead that has only just begun.
        """
        ...
