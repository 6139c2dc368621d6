"""Tokens of an OpenID Connect issuer: signature, issuer, audience and expiry, then tenant, project and user.

The key set is kept for five minutes, so that a withdrawn key does not outlive it by more; a token signed by an
unknown key fetches it anew, at most every 30 s. Only RS256 and ES256 are accepted, whatever the token's header says.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from functools import cached_property
from typing import Any, Final
from urllib.parse import urlsplit

import jwt

from stepline.errors import AuthError, DependencyError, InputError
from stepline.model.ids import check_segment
from stepline.ports.channel import Principal

ALGORITHMS: Final = ("RS256", "ES256")
LOOPBACK: Final = (("http", "127.0.0.1"), ("http", "localhost"))
TIMEOUT_S: Final = 5
LEEWAY_S: Final = 10
USER_MAX_CHARS: Final = 256
"""A subject is ASCII and short (OpenID Connect Core, section 2); the state of a conversation has room for this much."""


class OidcIdentity:
    """Verifies against one issuer and one audience."""

    def __init__(
        self, *, issuer: str, audience: str, jwks_url: str, tenant_claim: str, project_claim: str
    ) -> None:
        """Keep the facts; nothing is fetched before the first token. Empty `jwks_url`: discover it."""
        self._issuer = issuer
        self._audience = audience
        self._jwks_url = jwks_url
        self._tenant_claim = tenant_claim
        self._project_claim = project_claim

    def verify(self, token: str) -> Principal:
        if not self._issuer:
            raise AuthError("no issuer is configured, so no token is accepted")
        claims = self._claims(token)
        user = claims["sub"]
        if not (user.isascii() and user.isprintable() and 0 < len(user) <= USER_MAX_CHARS):
            raise AuthError("the token names no usable user")
        try:
            return Principal(
                tenant=check_segment(str(claims.get(self._tenant_claim, "")), "tenant"),
                project=check_segment(str(claims.get(self._project_claim, "")), "project"),
                user=user,
                expires_at=int(claims["exp"]),
            )
        except InputError as error:
            raise AuthError("the token names no usable tenant or project") from error

    def _claims(self, token: str) -> dict[str, Any]:
        try:
            key = self._keys.get_signing_key_from_jwt(token)
            return jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                issuer=self._issuer,
                audience=self._audience,
                leeway=LEEWAY_S,
                options={"require": ["exp", "sub", "iss", "aud"]},
            )
        except jwt.ExpiredSignatureError as error:
            raise AuthError("the token has expired", code="auth_expired") from error
        except jwt.PyJWKClientConnectionError as error:
            raise DependencyError("the issuer's keys cannot be fetched", code="issuer_unreachable") from error
        except jwt.PyJWTError as error:
            raise AuthError("the token is not valid") from error
        except ValueError as error:
            raise DependencyError("the issuer's keys cannot be read", code="issuer_unreachable") from error

    @cached_property
    def _keys(self) -> jwt.PyJWKClient:
        return jwt.PyJWKClient(self._jwks_url or self._discover(), timeout=TIMEOUT_S)

    def _discover(self) -> str:
        url = f"{self._issuer.rstrip('/')}/.well-known/openid-configuration"
        parts = urlsplit(url)
        if parts.scheme != "https" and (parts.scheme, parts.hostname) not in LOOPBACK:
            raise DependencyError("the issuer must be reached over https", code="issuer_unreachable")
        try:
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 - the scheme is checked above
                return str(json.load(answer)["jwks_uri"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise DependencyError(
                "the issuer's metadata cannot be read", code="issuer_unreachable"
            ) from error
