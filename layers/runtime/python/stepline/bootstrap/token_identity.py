"""Choice of the token verifier from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.oidc import OidcIdentity
from stepline.ports.channel import Role

if TYPE_CHECKING:
    from stepline.settings import Settings


def identity_of(settings: Settings) -> OidcIdentity:
    """Return the token verifier; nothing is fetched from the issuer yet.

    A value that is in both lists of admins means the higher role.
    """
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
