"""The state machine: executions by name."""

from __future__ import annotations

from typing import Literal, Protocol

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
