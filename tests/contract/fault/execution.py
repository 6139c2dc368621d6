"""An execution of the state machine, as its graph drives it: which invocation is next, and what its end leads to."""

from __future__ import annotations

from msgspec.structs import replace

from stepline.loop.graph import END, FAILED, REMOTE, START, Patience, catcher, caught, following
from stepline.model.step import Step

from .invocation import Invocation
from .world import World


class Execution:
    """`state` is where it stands. It is over when it came to its end, or was ended from outside."""

    def __init__(self, world: World, name: str, step: Step) -> None:
        self.world = world
        self.name = name
        self.state = START
        self.step = step
        self._patience = self._fresh()

    @property
    def over(self) -> bool:
        return self.state in (END, FAILED) or self.world.machine.status(self.name) != "running"

    @property
    def remote(self) -> bool:
        """Whether it stands at the state that waits for a task."""
        return self.state == REMOTE.name

    def begin(self) -> Invocation:
        """Invoke the function of the state it stands at; a second time is a duplicate."""
        step = replace(self.step, attempt=self._patience.attempt)
        name = f"{self.state}:{step.epoch}.{step.iteration}.{step.attempt}"
        return Invocation(name, self.world.run(self.state, step))

    def settle(self, invocation: Invocation) -> None:
        """Go on from what came of the invocation: to the next state, to another try, or to where a failure leads."""
        if invocation.died:
            self.world.forget()
        if self.over:
            return
        if invocation.error is None:
            self.go_on(invocation.result)
        else:
            self.fail(invocation.error)

    def fail(self, error: Exception) -> None:
        """Hear that the function failed, whether it did or is only not waited for any more."""
        pause_s = self._patience.pause_s(error)
        if pause_s is not None:
            self.world.clock.pause(pause_s)
            return
        self.step = caught(self.step, error)
        self._enter(catcher(self.state))

    def go_on(self, step: Step) -> None:
        """Take the answer of the state."""
        self.step = step
        self._enter(following(self.state, step))

    def abandon(self) -> None:
        """End, as an execution does that is stopped: nobody goes on with it."""
        self.world.machine.end(self.name)

    def _enter(self, state: str) -> None:
        self.state = state
        if state in (END, FAILED):
            self.world.machine.end(self.name)
        else:
            self._patience = self._fresh()

    def _fresh(self) -> Patience:
        return Patience(self.state, lambda most_s: most_s)
