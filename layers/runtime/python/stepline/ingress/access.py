"""Access: allowed addresses and origins, and tickets or bearer tokens of a trusted issuer.

A ticket opens a connection for a client that has shown a token, or renews an open one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING

from stepline.errors import AuthError
from stepline.model.base import Value
from stepline.ports.channel import Principal
from stepline.ports.identity import Tickets, ticket_ends_at

if TYPE_CHECKING:
    from stepline.log.bindings import Ports


class Handshake(Value):
    """A client's source address, origin and credentials; an absent header or parameter is empty. Secret."""

    address: str = ""
    origin: str = ""
    authorization: str = ""
    ticket: str = ""


def authenticate(
    shown: Handshake,
    *,
    allowed_addresses: Sequence[str],
    allowed_origins: Sequence[str],
    tickets: Tickets,
    verify: Callable[[str], Principal],
) -> Principal:
    """Return the principal of a client. If there is a ticket, the authorization header is ignored.

    Raises:
        AuthError: `address_not_allowed`, `origin_not_allowed`, then `unauthorized` or `auth_expired`.
        DependencyError: the ticket or token cannot be checked now.
    """
    # First, so that a foreign address or site cannot use up a stolen ticket.
    check_address(shown.address, allowed_addresses)
    check_origin(shown.origin, allowed_origins)
    if shown.ticket:
        return tickets.redeem(shown.ticket)
    scheme, _, token = shown.authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise AuthError("a ticket or a bearer token is required")
    return verify(token.strip())


def check_address(address: str, allowed: Sequence[str]) -> None:
    """Refuse a client whose address is in none of the allowed networks, or is not known; without any, all are allowed.

    An IPv4 address is the same within IPv6 (`::ffff:203.0.113.7`). Raises AuthError.
    """
    if not allowed:
        return
    try:
        found = ip_address(address)
    except ValueError as error:
        raise AuthError("this address may not connect", code="address_not_allowed") from error
    if isinstance(found, IPv6Address) and found.ipv4_mapped:
        found = found.ipv4_mapped
    if not any(found in ip_network(network) for network in allowed):
        raise AuthError("this address may not connect", code="address_not_allowed")


def check_origin(origin: str, allowed: Sequence[str]) -> None:
    """Refuse a browser of a foreign site; a client without an Origin header is not a browser. Raises AuthError.

    Browsers write an origin in one canonical form, so it is compared exactly. Pages without a site (a sandboxed frame,
    a file) send `null`, so it is refused even if it is in `allowed`.
    """
    if origin and (origin == "null" or origin not in allowed):
        raise AuthError("this origin may not connect", code="origin_not_allowed")


class Grant(Value):
    """A ticket, its lifetime, and the websocket that it opens. Secret."""

    ticket: str
    expires_in_s: int
    url: str


def issue_ticket(ports: Ports, principal: Principal, url: str) -> Grant:
    """Return a ticket for the websocket at `url`. Raises AuthError `auth_expired`, DependencyError."""
    now_s = ports.clock.now().timestamp()
    ends_at = ticket_ends_at(principal, now_s)
    return Grant(ticket=ports.tickets.issue(principal), expires_in_s=ends_at - int(now_s), url=url)


def renew(ports: Ports, connection: str, old: Principal, ticket: str) -> Principal:
    """Replace a connection's principal by a later token of the same user, even after the old one has expired.

    The connection's subscriptions are extended, too.

    Raises:
        AuthError: the ticket is not valid, or it is another user's; it is used up either way.
    """
    fresh = ports.tickets.redeem(ticket)
    if (fresh.tenant, fresh.project, fresh.user) != (old.tenant, old.project, old.user):
        raise AuthError("the ticket is not valid")
    ports.subscriptions.renew(connection, fresh)
    return fresh
