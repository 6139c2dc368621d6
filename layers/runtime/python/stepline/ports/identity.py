"""Bearer tokens and their principals, and tickets, which replace a token where none can be sent."""

from __future__ import annotations

from typing import Final, Protocol

from stepline.errors import AuthError
from stepline.ports.channel import Principal

TICKET_TTL_S: Final = 60
"""Long enough to open a websocket, too short to be worth stealing from a log."""


class Identity(Protocol):
    def verify(self, token: str) -> Principal:
        """Return the principal of a token that has not expired.

        Raises AuthError `unauthorized` or `auth_expired`, DependencyError.
        """


class Tickets(Protocol):
    """One-time secrets that represent a principal for TICKET_TTL_S; only their hashes are stored."""

    def issue(self, principal: Principal) -> str:
        """Return a new ticket, valid until `ticket_ends_at`.

        Raises AuthError `auth_expired`, DependencyError.
        """

    def redeem(self, ticket: str) -> Principal:
        """Return the ticket's principal, and void the ticket: of two concurrent calls, one is refused.

        A redemption whose answer is lost also voids the ticket; its holder requests another.

        Raises:
            AuthError: the ticket was never issued, was used, or has expired.
            DependencyError: temporarily unavailable.
        """

    def void(self, tenant: str, project: str, user: str) -> None:
        """Void every ticket of a user, and delete its stored data. Raises DependencyError."""


def ticket_ends_at(principal: Principal, now_s: float) -> int:
    """Return the expiry of a ticket issued now, in epoch seconds: never after the expiry of its token.

    Raises:
        AuthError: `auth_expired`, the token has expired.
    """
    if principal.expires_at <= now_s:
        raise AuthError("the token has expired", code="auth_expired")
    return min(int(now_s) + TICKET_TTL_S, principal.expires_at)
