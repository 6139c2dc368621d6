"""Executions of this process, which drives them itself, without a state machine."""

from __future__ import annotations

from collections import OrderedDict
from concurrent.futures import Future
from threading import Lock
from typing import Final

from stepline.model.ids import Lane
from stepline.model.step import Step
from stepline.ports.machine import ExecutionStatus

REMEMBERED: Final = 10_000
DOORS: Final = 64


class InProcessMachine:
    """A machine whose status is never `absent`: an execution that this process does not know has ended.

    The next message to a conversation therefore takes over a turn that another process left open. A process that still
    drives it is fenced off, so send the messages of one conversation to one process at a time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._doors = tuple(Lock() for _ in range(DOORS))
        self._queue: list[tuple[str, Step]] = []
        self._running: dict[str, Future[None]] = {}
        self._ended: OrderedDict[str, None] = OrderedDict()

    def start(self, name: str, step: Step) -> bool:
        with self._lock:
            if name in self._running or name in self._ended:
                return False
            self._running[name] = Future()
            self._queue.append((name, step))
            return True

    def status(self, name: str) -> ExecutionStatus:
        return "running" if name in self._running else "ended"

    def running(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._running)

    def stop(self, name: str) -> None:
        self.end(name)

    def take(self, lane: Lane) -> tuple[str, Step] | None:
        with self._lock:
            found = next((one for one in self._queue if one[1].lane() == lane), None)
            if found:
                self._queue.remove(found)
            return found

    def end(self, name: str) -> None:
        with self._lock:
            waiting = self._running.pop(name, None)
            self._queue = [one for one in self._queue if one[0] != name]
            if waiting is not None:
                self._ended[name] = None
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)
        if waiting is not None:
            waiting.set_result(None)

    def started(self, name: str) -> bool:
        with self._lock:
            return name in self._running or name in self._ended

    def ended(self, name: str) -> Future[None]:
        with self._lock:
            if name in self._running:
                return self._running[name]
        over: Future[None] = Future()
        over.set_result(None)
        return over

    def door(self, lane: Lane) -> Lock:
        return self._doors[hash(lane) % DOORS]
