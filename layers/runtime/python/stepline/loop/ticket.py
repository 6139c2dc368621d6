"""Tickets in use: one for somebody who has shown a token, and one that renews an open connection."""

from __future__ import annotations

from stepline.errors import AuthError
from stepline.log.bindings import Ports
from stepline.model.base import Value
from stepline.ports.channel import Principal
from stepline.ports.identity import ticket_ends_at


class Grant(Value):
    """A ticket, how long it is good for, and where it opens a websocket. Secret."""

    ticket: str
    expires_in_s: int
    url: str


def issue_ticket(ports: Ports, principal: Principal, url: str) -> Grant:
    """Return a ticket for the websocket at `url`. Raises AuthError `auth_expired`, DependencyError."""
    now_s = ports.clock.now().timestamp()
    ends_at = ticket_ends_at(principal, now_s)
    return Grant(ticket=ports.tickets.issue(principal), expires_in_s=ends_at - int(now_s), url=url)


def renew(ports: Ports, connection: str, old: Principal, ticket: str) -> Principal:
    """Let a later token of the same user stand behind a connection, whether or not the old one has expired.

    What the connection listens to, it hears for as long.

    Raises:
        AuthError: the ticket is not valid, or it is somebody else's; it is used up either way.

    """
    fresh = ports.tickets.redeem(ticket)
    if (fresh.tenant, fresh.project, fresh.user) != (old.tenant, old.project, old.user):
        raise AuthError("the ticket is not valid")
    ports.subscriptions.renew(connection, fresh)
    return fresh
