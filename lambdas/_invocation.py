"""One invocation's part of a receipt: what it used, and for which conversation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stepline.bootstrap.app import App
from stepline.model.ids import Lane, utc
from stepline.model.tenancy.consumption import InvocationCost

if TYPE_CHECKING:
    from stepline.loop.tenancy.state_visit import StateVisit


class Invocation:
    """The invocation that this process runs; a process runs one at a time."""

    def __init__(self) -> None:
        """Begin without an app."""
        self.app: App | None = None
        self.function = ""
        self._began_s = 0.0
        self._memory_mb = 0
        self._visit: StateVisit | None = None
        self._route = ""

    def begin(self, function: str, memory_mb: int) -> None:
        """Begin to count for a call of a function."""
        self._began_s, self._memory_mb = time.monotonic(), memory_mb
        self.function, self._visit, self._route = function, None, ""
        if self.app:
            self.app.ports.ledger.begin(memory_mb)

    def wired(self, app: App) -> None:
        """Count what this app does, from the begin of the call: its own making is part of it."""
        self.app = app
        app.ports.ledger.begin(self._memory_mb, began_s=self._began_s or None)

    def forget(self) -> None:
        """Have no app any more."""
        self.app = None

    def enters(self, visit: StateVisit) -> None:
        """Note for which attempt at which state the call is; it is its conversation's, even if it fails."""
        self._visit = visit

    def left(self, route: str) -> None:
        """Count the transitions of a state that answered."""
        self._route = route
        if self.app and self._visit:
            counted = self._visit.transitions(route, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def failed(self, error: Exception) -> None:
        """Count the transitions of a state whose attempt failed."""
        if self.app and self._visit:
            counted = self._visit.transitions(None, type(error).__name__, prepares=_prepares(self.app))
            self.app.ports.ledger.count("transitions", counted)

    def cost(self) -> tuple[Lane, InvocationCost] | None:
        """Return the conversation that the invocation worked for and the row of what it used; None for none."""
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
