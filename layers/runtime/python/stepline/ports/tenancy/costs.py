"""The costs of invocations, a row each."""

from __future__ import annotations

from typing import Protocol

from stepline.model.ids import Lane
from stepline.model.tenancy.consumption import InvocationCost


class Costs(Protocol):
    def put(self, lane: Lane, cost: InvocationCost) -> None:
        """Add the row of one invocation; the write itself is counted in it, where writes are.

        Raises DependencyError.
        """
        ...

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        """Return the rows of a turn, or all, oldest first. Raises DependencyError."""
        ...
