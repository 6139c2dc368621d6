"""The verifier of tokens that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.oidc import OidcIdentity

if TYPE_CHECKING:
    from stepline.settings import Settings


def identity_of(settings: Settings) -> OidcIdentity:
    """Return the verifier; nothing is fetched from the issuer yet."""
    return OidcIdentity(
        issuer=settings.oidc_issuer,
        audience=settings.oidc_audience,
        jwks_url=settings.oidc_jwks_url,
        tenant_claim=settings.tenant_claim,
        project_claim=settings.project_claim,
    )
