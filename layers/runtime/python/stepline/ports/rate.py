"""The rates of messages and of other requests, of users, projects and tenants, over all connections."""

from __future__ import annotations

from typing import Final, Protocol

from stepline.model.tenancy.limits import Scope
from stepline.model.tenancy.request_rates import RequestKind

STEP: Final = 20
"""Requests of an account that a process counts by itself before it writes them for the others."""


class Rate(Protocol):
    def count(self, scope: Scope, minute: int) -> int:
        """Count one message of this account in a minute of the epoch; return the count so far.

        Raises DependencyError.
        """
        ...

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        """Count one request of this account, and return the count so far, without a write for most of them.

        Of each other process up to STEP - 1 requests may be missing. Raises DependencyError.
        """
        ...
