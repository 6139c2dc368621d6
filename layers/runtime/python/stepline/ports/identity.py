"""Who a bearer token speaks for, and the tickets that stand for one where no token can be sent."""

from __future__ import annotations

from typing import Final, Protocol

from stepline.errors import AuthError
from stepline.ports.channel import Principal

TICKET_TTL_S: Final = 60
"""Long enough to open a websocket with, too short to be worth stealing from a log."""


class Identity(Protocol):
    def verify(self, token: str) -> Principal:
        """Return the token's principal, which has not expired.

        Raises AuthError `unauthorized` or `auth_expired`, DependencyError.
        """
        ...


class Tickets(Protocol):
    """Words that stand for a principal once, for TICKET_TTL_S; only their hashes are kept."""

    def issue(self, principal: Principal) -> str:
        """Return a new ticket, good until `ticket_ends_at`. Raises AuthError `auth_expired`, DependencyError."""
        ...

    def redeem(self, ticket: str) -> Principal:
        """Return whom the ticket stands for, and void it: of two who redeem it at once, one is refused.

        A redemption whose answer is lost voids the ticket as well; its holder gets another.

        Raises:
            AuthError: it was never issued, is used up, or has expired.
            DependencyError: nothing can be said now.

        """
        ...


def ticket_ends_at(principal: Principal, now_s: float) -> int:
    """Return when a ticket issued now ends, in epoch seconds: never after the token it stands for.

    Raises:
        AuthError: `auth_expired`, that token is no good any more.

    """
    if principal.expires_at <= now_s:
        raise AuthError("the token has expired", code="auth_expired")
    return min(int(now_s) + TICKET_TTL_S, principal.expires_at)
