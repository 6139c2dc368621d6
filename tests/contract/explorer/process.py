"""Processes that stop before every call of a port, so that a scheduler decides what happens between any two.

A process is a greenlet that runs the real use cases. `Ports` given to it are proxies: each call hands control
to the scheduler first. Between two calls a process may be killed, frozen and given up (a zombie wakes later),
or have a call applied while its answer is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import greenlet

from stepline.errors import DependencyError, SteplineError, UnknownOutcome

LOSSY = {
    ("log", "put"): UnknownOutcome,
    ("machine", "start"): DependencyError,
    ("accounts", "post"): UnknownOutcome,
    ("ecs", "run_task"): DependencyError,
}


class Killed(BaseException):
    """Thrown into a process that dies; nothing may catch it."""


class Process:
    """One invocation, driver or client, at a point between two port calls."""

    def __init__(self, name: str, body: Callable[[Process], Any], *, safe: bool = False) -> None:
        self.name = name
        self.safe = safe
        self.done = False
        self.frozen = False
        self.given_up = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.waits_for: Callable[[], bool] | None = None
        self.at = ""
        """The call that this point precedes."""
        self._killed = False
        self._losing = False
        self._body = body
        self._greenlet = greenlet.greenlet(self._run)
        self._greenlet.switch()

    def runnable(self) -> bool:
        return not self.done and not self.frozen and (self.waits_for is None or self.waits_for())

    def step(self, *, lose_answer: bool = False) -> None:
        """Let the process make its next call and stop before the one after it."""
        self._losing = lose_answer
        self.waits_for = None
        self._greenlet.switch()

    def kill(self) -> None:
        self._killed = True
        self.frozen = False
        self._greenlet.switch()

    def give_up(self) -> None:
        """Its caller no longer waits; the process itself sleeps until it is thawed."""
        self.given_up = self.frozen = True

    def wait(self, condition: Callable[[], bool]) -> None:
        """Called from inside: stop until the condition holds."""
        while not condition():
            self.waits_for, self.at = condition, ""
            self._pause()

    def call(self, port: str, method: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Called from inside, by a proxy: stop, then make the call."""
        self.at = f"{port}.{method}"
        self._pause()
        result = function(*args, **kwargs)
        lost, self._losing = self._losing, False
        if lost and (port, method) in LOSSY:
            raise LOSSY[port, method]("the answer was lost")
        return result

    def _pause(self) -> None:
        self._greenlet.parent.switch()
        if self._killed:
            raise Killed(self.name)

    def _run(self) -> None:
        try:
            self._pause()
            self.result = self._body(self)
        except Killed as killed:
            self.error = killed
        except SteplineError as error:
            self.error = error
        self.done = True


class Proxy:
    """A port whose every call is one atomic effect of its process."""

    def __init__(self, process: Process, port: str, adapter: Any) -> None:
        self._process = process
        self._port = port
        self._adapter = adapter

    def __getattr__(self, method: str) -> Callable[..., Any]:
        function = getattr(self._adapter, method)
        return lambda *args, **kwargs: self._process.call(self._port, method, function, *args, **kwargs)
