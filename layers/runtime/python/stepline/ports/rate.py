"""The message rate of users, projects and tenants, over all connections."""

from __future__ import annotations

from typing import Protocol

from stepline.model.tenancy.limits import Scope


class Rate(Protocol):
    def count(self, scope: Scope, minute: int) -> int:
        """Count one message of this account in a minute of the epoch; return the count so far.

        Raises DependencyError.
        """
        ...
