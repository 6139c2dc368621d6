"""One invocation's part of a receipt: its usage, and the conversation it was for."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stepline.model.ids import Lane, utc
from stepline.model.tenancy.consumption import InvocationCost

if TYPE_CHECKING:
    from stepline.bootstrap.app import App
    from stepline.loop.tenancy.state_visit import StateVisit


class Invocation:
    """The current invocation of this process, which runs one at a time."""

    def __init__(self) -> None:
        """Start without an app."""
        self.app: App | None = None
        self.function = ""
        self._began_s = 0.0
        self._memory_mb = 0
        self._visit: StateVisit | None = None
        self._route = ""

    def begin(self, function: str, memory_mb: int) -> None:
        """Start counting for a call of a function."""
        self._began_s, self._memory_mb = time.monotonic(), memory_mb
        self.function, self._visit, self._route = function, None, ""
        if self.app:
            self.app.ports.ledger.begin(memory_mb)

    def wired(self, app: App) -> None:
        """Count the work of this app from the start of the call, including the creation of the app."""
        self.app = app
        app.ports.ledger.begin(self._memory_mb, began_s=self._began_s or None)

    def forget(self) -> None:
        """Drop the app."""
        self.app = None

    def enters(self, visit: StateVisit) -> None:
        """Record the state and attempt of the call; its cost belongs to the conversation, even if the call fails."""
        self._visit = visit

    def left(self, route: str) -> None:
        """Count the transitions of a state that succeeded."""
        self._route = route
        if self.app and self._visit:
            counted = self._visit.transitions(route, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def failed(self, error: Exception) -> None:
        """Count the transitions of a failed attempt at a state."""
        if self.app and self._visit:
            counted = self._visit.transitions(None, type(error).__name__, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def cost(self) -> tuple[Lane, InvocationCost] | None:
        """Return the invocation's conversation and the row of its usage; None without a conversation."""
        if self.app is None:
            return None
        ledger, at = self.app.ports.ledger, utc(self.app.ports.clock.now())
        if self._visit:
            fields = {**self._visit.fields(prepares=_prepares(self.app)), "route": self._route}
            return self._visit.step.lane(), InvocationCost(at=at, used=ledger.consumption(), **fields)
        if ledger.lane is None:
            return None
        return ledger.lane, InvocationCost(
            turn=ledger.turn, function=self.function, at=at, used=ledger.consumption()
        )


def _prepares(app: App) -> bool:
    """Return True if the deployment has the state that prepares programs."""
    return app.settings.exec_mode != "none" or bool(app.settings.fargate_cluster)
