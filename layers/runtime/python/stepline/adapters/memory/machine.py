"""Executions by name; tests take their steps from here."""

from __future__ import annotations

from threading import Lock
from typing import Literal

from stepline.model.step import Step
from stepline.ports.machine import ExecutionStatus


class MemoryMachine:
    """`queue` holds the executions that were started and not yet taken, oldest first."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._status: dict[str, Literal["running", "ended"]] = {}
        self.queue: list[tuple[str, Step]] = []

    def start(self, name: str, step: Step) -> bool:
        with self._lock:
            if name in self._status:
                return False
            self._status[name] = "running"
            self.queue.append((name, step))
            return True

    def status(self, name: str) -> ExecutionStatus:
        return self._status.get(name, "absent")

    def running(self) -> frozenset[str]:
        with self._lock:
            return frozenset(name for name, status in self._status.items() if status == "running")

    def stop(self, name: str) -> None:
        self.end(name)

    def end(self, name: str) -> None:
        """End a running execution; do nothing for one that is not running."""
        with self._lock:
            if name in self._status:
                self._status[name] = "ended"
                self.queue = [started for started in self.queue if started[0] != name]
