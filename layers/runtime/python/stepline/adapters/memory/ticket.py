"""Tickets in this process."""

from __future__ import annotations

import secrets
from threading import Lock

from stepline.errors import AuthError
from stepline.ports.channel import Principal
from stepline.ports.clock import Clock
from stepline.ports.identity import ticket_ends_at


class MemoryTickets:
    """Principals by ticket; redeemed tickets are deleted, expired ones are invalid."""

    def __init__(self, clock: Clock) -> None:
        """Start empty; `clock` decides on expiry."""
        self._clock = clock
        self._lock = Lock()
        self._tickets: dict[str, tuple[Principal, int]] = {}

    def issue(self, principal: Principal) -> str:
        ends_at = ticket_ends_at(principal, self._clock.now().timestamp())
        ticket = secrets.token_urlsafe(32)
        with self._lock:
            self._tickets[ticket] = (principal, ends_at)
        return ticket

    def redeem(self, ticket: str) -> Principal:
        with self._lock:
            principal, ends_at = self._tickets.pop(ticket, (None, 0))
        if principal is None or ends_at <= self._clock.now().timestamp():
            raise AuthError("the ticket is not valid")
        return principal

    def void(self, tenant: str, project: str, user: str) -> None:
        whose = (tenant, project, user)
        with self._lock:
            for ticket, (holder, _) in list(self._tickets.items()):
                if (holder.tenant, holder.project, holder.user) == whose:
                    del self._tickets[ticket]
