"""An attempt at a state of the loop, as its receipt names and prices it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stepline.loop.graph import (
    CLOSE_FAILED,
    LAUNCHES,
    REMOTE,
    ROUTES,
    START,
    STATES,
    UNKNOWN_ERRORS,
    count_transitions,
    is_last_try,
    tries_of_lost,
)
from stepline.model.step import Step

NAMES: Final[Mapping[str, str]] = {"Prepare": "act", REMOTE.name: "start_task"}
"""The names in receipts of states whose name is not that of their function."""


class StateVisit(NamedTuple):
    """A function's call for a step; with `token` it starts the task of a state that waits for it."""

    function: str
    step: Step
    token: bool

    def state(self, *, prepares: bool) -> str:
        """Return the state's name.

        If the deployment `prepares` programs, two states share a function, and the route decides.
        """
        if self.token:
            return REMOTE.name
        asked = self.function == "act" and self.step.route == "prepare" and not self.step.error
        return "Prepare" if asked and prepares else self.function.capitalize()

    def transitions(self, route: str | None, error: str = "", *, prepares: bool) -> int:
        """Return the transitions of the attempt, by its route or, if that is None, by its error.

        The last attempt at Close ends in a separate state.
        """
        state = self.state(prepares=prepares)
        counted = count_transitions(state, route)
        last = route is None and STATES[state].catch == CLOSE_FAILED
        return counted + (last and is_last_try(state, error, self.step.attempt))

    def fields(self, *, prepares: bool) -> dict[str, Any]:
        """Return the fields of the row of this attempt."""
        state = self.state(prepares=prepares)
        return {
            "turn": self.step.turn,
            "function": NAMES.get(state, state.lower()),
            "epoch": self.step.epoch,
            "visit": self.step.visit,
            "attempt": self.step.attempt,
            "lost": self._count_lost(),
        }

    def _count_lost(self) -> int:
        """Return how many attempts at the previous state cannot have reported: it failed because they died."""
        if self.token or (self.step.error or {}).get("Error") not in UNKNOWN_ERRORS:
            return 0
        led_to = {**ROUTES, **LAUNCHES}.get(self.step.route, "Close")
        return tries_of_lost(led_to if led_to in STATES else START)
