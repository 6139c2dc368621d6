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
        """Start the execution `name`; return False if one of that name exists, running or not.

        True may also mean that it already runs with the same step: AWS answers a repeated call like the first one.
        """

    def status(self, name: str) -> ExecutionStatus:
        """Return the status of the execution `name`."""

    def running(self) -> frozenset[str]:
        """Return the names of all running executions; a start or an end of the last moment may not show yet."""

    def stop(self, name: str) -> None:
        """End a running execution; do nothing for any other."""


class OwnMachine(Machine, Protocol):
    """A machine whose executions are driven in this process. Thread-safe."""

    def take(self, lane: Lane) -> tuple[str, Step] | None:
        """Take the oldest execution of a conversation that was started and not taken yet; return None without one."""

    def end(self, name: str) -> None:
        """End a running execution, taken or not; do nothing for any other."""

    def started(self, name: str) -> bool:
        """Return True if an execution was started here, as far as this process remembers.

        It remembers all running ones.
        """

    def ended(self, name: str) -> Future[None]:
        """Return a future that is done when the execution has ended, immediately if it is not running.

        Do not cancel it.
        """

    def door(self, lane: Lane) -> AbstractContextManager[Any]:
        """Return the lock to hold from a put that may open a turn until its execution is started.

        Without the lock, a put in between would treat a turn that has just begun as dead.
        """
