"""Who may come in: from an allowed site, with a ticket or the bearer token of a trusted issuer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stepline.errors import AuthError
from stepline.loop.origin import check_origin
from stepline.model.base import Value
from stepline.ports.channel import Principal
from stepline.ports.identity import Tickets


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
