"""An invocation: one run of one function, which stops at every boundary and may die or be misled there.

It is a greenlet: `advance` lets it make its pending call and stop before the next one. What it then knows
is all that its caller learns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import greenlet

from stepline.errors import SteplineError

from .boundary import Reach, lost_answer

Fault = Literal["", "before", "after", "lost"]
"""Die before the call; die after it; make it and lose the answer."""


class Killed(BaseException):
    """The process is gone; nothing of ours catches that."""


class BrokenError(AssertionError):
    """A function raised what no function of ours may raise."""


# The error that a state machine gets for a function whose process ended, by the name that it matches on.
DIED: Final = type("Sandbox.Timedout", (Exception,), {})


class Invocation:
    """`at` is the current boundary; `result` and `error` are the outcome for its caller once it is `done`."""

    def __init__(self, name: str, body: Callable[[Reach], Any]) -> None:
        """Run up to the first boundary."""
        self.name = name
        self.at = ""
        self.done = False
        self.result: Any = None
        self.error: Exception | None = None
        self._body = body
        self._fault: Fault = ""
        self._dead = False
        self._greenlet = greenlet.greenlet(self._run)
        self._greenlet.switch()

    @property
    def died(self) -> bool:
        return self._dead

    def advance(self, fault: Fault = "") -> None:
        """Make the call, or let it go wrong, and stop before the next one."""
        self._fault = fault
        self._greenlet.switch()

    def finish(self) -> Invocation:
        """Go on to the end, and let nothing go wrong."""
        while not self.done:
            self.advance()
        return self

    def kill(self) -> None:
        """Die at the current boundary."""
        if not self.done:
            self.advance("before")

    def _reach(self, boundary: str, call: Callable[[], Any]) -> Any:
        if self._dead:
            raise Killed(self.name)  # a dead process does nothing more, whatever its `finally` wants
        self.at = boundary
        self._greenlet.parent.switch()
        fault, self._fault = self._fault, ""
        if fault == "before":
            self._die()
        answer = call()
        if fault == "after":
            self._die()
        if fault == "lost":
            raise lost_answer(boundary)
        return answer

    def _die(self) -> None:
        self._dead = True
        raise Killed(self.name)

    def _run(self) -> None:
        try:
            self.result = self._body(self._reach)
        except Killed:
            self.error = DIED(self.name)
        except SteplineError as error:
            self.error = error
        except (IndexError, KeyError, AttributeError, TypeError, ValueError, StopIteration) as error:
            raise BrokenError(f"{self.name} at {self.at}: {error!r}") from error
        self.done = True
