"""Verifies tokens of an OpenID Connect issuer: signature, issuer, audience and time.

It then reads tenant, project, user and role.

The key set is cached for five minutes, so a withdrawn key is accepted for no longer than that; a token signed by an
unknown key triggers another fetch, at most every 30 s. Only RS256 and ES256 are accepted, regardless of the token's
header; from the header only the key id is used, which is looked up in the issuer's own set.

Source: docs/concepts/security.md#authentication.
"""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import jwt

from stepline.errors import AuthError, DependencyError, InputError
from stepline.model.ids import check_segment, is_user
from stepline.ports.channel import ROLES, Principal, Role

ALGORITHMS: Final = ("RS256", "ES256")
LOOPBACK: Final = (("http", "127.0.0.1"), ("http", "localhost"))
TIMEOUT_S: Final = 3
"""The authorizer has ten seconds, and may have to fetch the metadata, the keys, and the keys again."""
LEEWAY_S: Final = 10
"""Allowed lead of the issuer's clock: for `nbf` and `iat`, never for `exp`."""
METADATA_MAX_BYTES: Final = 256 * 1024
EXPIRES_MAX: Final = 2**53
"""The largest integer that all JSON parsers read alike."""


class OidcIdentity:
    """Verifies against one issuer and one audience.

    An ID token, and an access token that has one, names the audience in `aud`. An access token of Cognito has
    `token_use: access` and names its client in `client_id`, which must then be the audience.
    """

    def __init__(
        self,
        *,
        issuer: str,
        audience: str,
        jwks_url: str,
        tenant_claim: str,
        project_claim: str,
        role_claim: str,
        admins: Mapping[str, Role],
    ) -> None:
        """Store the configuration; nothing is fetched before the first token. Empty `jwks_url`: discover it.

        `admins` maps values of `role_claim` to their roles.
        """
        self._issuer = issuer
        self._audience = audience
        self._jwks_url = jwks_url
        self._tenant_claim = tenant_claim
        self._project_claim = project_claim
        self._role_claim = role_claim
        self._admins = admins

    def verify(self, token: str) -> Principal:
        if not (self._issuer and self._audience):
            raise AuthError("no issuer is configured, so no token is accepted")
        claims = self._claims(token, self._key(token))
        self._check_use(claims)
        user, expires_at = claims["sub"], int(claims["exp"])
        if not is_user(user):
            raise AuthError("the token names no usable user")
        # No leeway here: a client that is accepted now must not be refused with its first message.
        if expires_at <= time.time():
            raise AuthError("the token has expired", code="auth_expired")
        try:
            return Principal(
                tenant=check_segment(_scope_name(claims, self._tenant_claim, "tenant"), "tenant"),
                project=check_segment(_scope_name(claims, self._project_claim, "project"), "project"),
                user=user,
                expires_at=expires_at,
                role=self._role(claims),
                client=_client(claims),
            )
        except InputError as error:
            raise AuthError("the token names no usable tenant or project") from error

    def _key(self, token: str) -> jwt.PyJWK:
        """Return the issuer's key with the token's key id.

        A token that is visibly invalid is refused first, without fetching anything.
        """
        try:
            header = jwt.get_unverified_header(token)
        except (jwt.PyJWTError, ValueError) as error:
            raise AuthError("the token is not valid") from error
        kid = header.get("kid")
        if header.get("alg") not in ALGORITHMS or not isinstance(kid, str) or not kid:
            raise AuthError("the token names no algorithm and key that could be ours")
        try:
            self._keys.get_signing_keys()
        except (jwt.PyJWTError, OSError, ValueError) as error:
            raise DependencyError("the issuer's keys cannot be read", code="issuer_unreachable") from error
        try:
            return self._keys.get_signing_key(kid)
        except jwt.PyJWKClientConnectionError as error:
            raise DependencyError("the issuer's keys cannot be fetched", code="issuer_unreachable") from error
        except jwt.PyJWTError as error:
            raise AuthError("the token is signed by no key of the issuer") from error
        except (OSError, ValueError) as error:
            raise DependencyError("the issuer's keys cannot be read", code="issuer_unreachable") from error

    def _claims(self, token: str, key: jwt.PyJWK) -> dict[str, Any]:
        try:
            claims = jwt.decode(
                token,
                key,
                algorithms=list(ALGORITHMS),
                issuer=self._issuer,
                leeway=LEEWAY_S,
                options={
                    "require": ["exp", "sub", "iss"],
                    "verify_aud": False,  # the claim that names the audience depends on the token's use
                    "enforce_minimum_key_length": True,
                },
            )
        except jwt.ExpiredSignatureError as error:
            raise AuthError("the token has expired", code="auth_expired") from error
        except (jwt.PyJWTError, ValueError) as error:
            raise AuthError("the token is not valid") from error
        expires_at = claims["exp"]
        if type(expires_at) not in (int, float) or not expires_at < EXPIRES_MAX:
            raise AuthError("the token does not say when it expires")
        return claims

    def _check_use(self, claims: dict[str, Any]) -> None:
        """Refuse a token made for another audience, or for the issuer only."""
        use = claims.get("token_use", "id")
        audience = claims.get("aud", [])
        audiences = audience if isinstance(audience, list) else [audience]
        is_named = self._audience in audiences
        match use:
            case "id" if is_named:
                return
            case "access" if claims.get("client_id") == self._audience and (is_named or "aud" not in claims):
                return
            case _:
                raise AuthError("the token is for another audience")

    def _role(self, claims: dict[str, Any]) -> Role:
        """Return the highest role in the token's claim, a text or a list of texts; other types name no role."""
        found = claims.get(self._role_claim)
        values = found if isinstance(found, list) else [found]
        named = (self._admins.get(value, "user") for value in values if isinstance(value, str))
        return max(named, key=ROLES.index, default="user")

    @cached_property
    def _keys(self) -> jwt.PyJWKClient:
        return jwt.PyJWKClient(_secure(self._jwks_url or self._discover()), timeout=TIMEOUT_S)

    def _discover(self) -> str:
        """Return the key set's URL from the issuer's metadata."""
        url = _secure(f"{self._issuer.rstrip('/')}/.well-known/openid-configuration")
        try:
            with _OPENER.open(url, timeout=TIMEOUT_S) as answer:
                metadata = json.loads(answer.read(METADATA_MAX_BYTES))
            found, issuer = metadata["jwks_uri"], metadata["issuer"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            raise DependencyError(
                "the issuer's metadata cannot be read", code="issuer_unreachable"
            ) from error
        if issuer != self._issuer or not isinstance(found, str):
            raise DependencyError("the issuer's metadata is another's", code="issuer_unreachable")
        return found


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects."""

    def redirect_request(self, *_args: object) -> None:
        return None


_OPENER: Final = urllib.request.build_opener(_NoRedirect())


def _secure(url: str) -> str:
    """Return a URL that reaches the issuer securely. Raises DependencyError."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme != "https" and (parts.scheme, parts.hostname) not in LOOPBACK:
        raise DependencyError("the issuer must be reached over https", code="issuer_unreachable")
    return url


def _client(claims: Mapping[str, Any]) -> str:
    """Return the application for which a token was made, in `client_id` of an access token, `azp` of others; else ""."""
    name = claims.get("client_id", claims.get("azp"))
    return name if isinstance(name, str) and is_user(name) else ""


def _scope_name(claims: dict[str, Any], claim: str, kind: str) -> str:
    """Return the tenant or project in a claim: a string, or the only list item `<kind>:<name>`.

    Any other value is invalid: other types are not converted, and two names are ambiguous.
    """
    match claims.get(claim):
        case str(name):
            return name
        case list(items):
            prefix = f"{kind}:"
            names = [
                item[len(prefix) :] for item in items if isinstance(item, str) and item.startswith(prefix)
            ]
            return names[0] if len(names) == 1 else ""
        case _:
            return ""
