"""An execution of the state machine, as its graph drives it: which invocation is next, and what its end leads to."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stepline.loop.graph import END, REMOTE
from stepline.loop.turn import Visit, turn
from stepline.model.step import Step
from tests.contract.fault.simulation import Simulation

from .invocation import Invocation


class Execution:
    """`state` is the current one. It is over when it has ended, or was ended from outside."""

    def __init__(self, simulation: Simulation, name: str, step: Step) -> None:
        self.simulation = simulation
        self.name = name
        self._course = turn(step, jitter=lambda most_s: most_s)
        self._visit: Visit | None = next(self._course)

    @property
    def state(self) -> str:
        return self._visit.state if self._visit else END

    @property
    def step(self) -> Step:
        """The step of the current state."""
        assert self._visit is not None
        return self._visit.step

    @property
    def over(self) -> bool:
        return self._visit is None or self.simulation.machine.status(self.name) != "running"

    @property
    def remote(self) -> bool:
        """True at the state that waits for a task."""
        return self.state == REMOTE.name

    def begin(self) -> Invocation:
        """Invoke the function of the current state; a second time is a duplicate."""
        name = f"{self.state}:{self.step.epoch}.{self.step.iteration}.{self.step.attempt}"
        return Invocation(name, self.simulation.run(self.state, self.step))

    def settle(self, invocation: Invocation) -> None:
        """Go on from what came of the invocation: to the next state, to another try, or to where a failure leads."""
        if invocation.died:
            self.simulation.forget()
        if self.over:
            return
        if invocation.error is None:
            self.go_on(invocation.result)
        else:
            self.fail(invocation.error)

    def fail(self, error: Exception) -> None:
        """Take note that the function failed, or that its caller waits for it no longer."""
        self._advance(partial(self._course.throw, error))

    def go_on(self, step: Step) -> None:
        """Take the answer of the state."""
        self._advance(partial(self._course.send, step))

    def abandon(self) -> None:
        """End like a stopped execution: no process continues it."""
        self.simulation.machine.end(self.name)

    def _advance(self, go_on: Callable[[], Visit]) -> None:
        try:
            self._visit = go_on()
        except Exception:  # noqa: BLE001 - StopIteration at the end, or what Close raised, which ends it as well
            self._visit = None
            self.simulation.machine.end(self.name)
        else:
            if self._visit.step.wait_s and not self._visit.step.attempt:
                self.simulation.moment(f"wait {self.simulation.round}")
            self.simulation.clock.pause(self._visit.pause_s)
