"""Who a bearer token speaks for."""

from __future__ import annotations

from typing import Protocol

from stepline.ports.channel import Principal


class Identity(Protocol):
    def verify(self, token: str) -> Principal:
        """Return the token's principal. Raises AuthError `unauthorized` or `auth_expired`, DependencyError."""
        ...
