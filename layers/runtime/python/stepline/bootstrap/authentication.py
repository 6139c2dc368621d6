"""Authentication of clients, as the authorizer wires it: tickets in the table, and tokens of the issuer."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.table import Table
from stepline.adapters.aws.ticket import DynamoTickets
from stepline.adapters.system import SystemClock

if TYPE_CHECKING:
    from stepline.adapters.oidc import OidcIdentity
    from stepline.ports.channel import Role
    from stepline.ports.identity import Tickets
    from stepline.settings import Settings


class Authentication:
    """The tickets of a deployment, and its verifier of tokens."""

    def __init__(self, settings: Settings, tickets: Tickets) -> None:
        self.settings = settings
        self.tickets = tickets

    @cached_property
    def identity(self) -> OidcIdentity:
        """The verifier of tokens; nothing is fetched from the issuer yet."""
        return identity_of(self.settings)


def authentication_on_aws(settings: Settings) -> Authentication:
    """Wire authentication to AWS, or to an AWS emulator; nothing is connected before its first use."""
    return Authentication(settings, DynamoTickets(Table(settings.table), SystemClock()))


def identity_of(settings: Settings) -> OidcIdentity:
    """Return the token verifier; nothing is fetched from the issuer yet.

    A value that is in both lists of admins means the higher role.
    """
    from stepline.adapters.oidc import OidcIdentity  # noqa: PLC0415 - PyJWT: 55 ms of CPU, only for tokens

    admins: dict[str, Role] = dict.fromkeys(settings.project_admins, "project_admin")
    admins |= dict.fromkeys(settings.tenant_admins, "tenant_admin")
    return OidcIdentity(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        jwks_url=settings.oidc_jwks_url,
        tenant_claim=settings.tenant_claim,
        project_claim=settings.project_claim,
        role_claim=settings.role_claim,
        admins=admins,
    )
