"""The message rate of users, over all their connections."""

from __future__ import annotations

from typing import Protocol

from stepline.ports.channel import Principal


class Rate(Protocol):
    def count(self, principal: Principal, minute: int) -> int:
        """Count one message of this user in a minute of the epoch; return the count so far.

        Raises DependencyError.
        """
        ...
