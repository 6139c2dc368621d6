"""Who may come in: from an allowed site, with a ticket or the bearer token of a trusted issuer.

Which site a browser may connect from.

How often one user may speak, over all connections, in every minute of the clock.

Tickets in use: one for somebody who has shown a token, and one that renews an open connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from stepline.errors import AuthError, LimitError
from stepline.log.bindings import Ports
from stepline.model.base import Value
from stepline.ports.channel import Principal
from stepline.ports.identity import Tickets, ticket_ends_at


class Handshake(Value):
    """What a client shows at the door; an absent header or parameter is empty. Secret."""

    origin: str = ""
    authorization: str = ""
    ticket: str = ""


def authenticate(
    shown: Handshake,
    *,
    allowed_origins: Sequence[str],
    tickets: Tickets,
    verify: Callable[[str], Principal],
) -> Principal:
    """Return whom a client speaks for. A ticket stands alone: beside one, the header is not looked at.

    Raises:
        AuthError: `origin_not_allowed`, then `unauthorized` or `auth_expired`.
        DependencyError: it cannot be said now.

    """
    # A ticket that a foreign site got hold of is still good where it was meant for.
    check_origin(shown.origin, allowed_origins)
    if shown.ticket:
        return tickets.redeem(shown.ticket)
    scheme, _, token = shown.authorization.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise AuthError("a ticket or a bearer token is required")
    return verify(token.strip())


def check_origin(origin: str, allowed: Sequence[str]) -> None:
    """Refuse a browser of a foreign site; a client without an Origin header is no browser. Raises AuthError.

    Browsers write an origin in one way, so it is compared letter by letter. `null` is what pages without a site
    say (a sandboxed frame, a file), so it names nobody, whatever is allowed.
    """
    if origin and (origin == "null" or origin not in allowed):
        raise AuthError("this origin may not connect", code="origin_not_allowed")


MINUTE_S: Final = 60


def check_rate(ports: Ports, principal: Principal) -> None:
    """Count one message; a refused one counts too, and so does one that is sent again.

    Raises:
        LimitError: `rate_limited`, with a sentence and `retry_after_s` that say when to try again.

    """
    limit = ports.policy.user_messages_per_minute
    if limit <= 0:
        return
    minute, passed_s = divmod(int(ports.clock.now().timestamp()), MINUTE_S)
    if ports.rate.count(principal, minute) > limit:
        raise LimitError(
            f"You may send {limit} messages a minute. Please send this one again in {MINUTE_S - passed_s} s.",
            code="rate_limited",
            retry_after_s=MINUTE_S - passed_s,
        )


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
