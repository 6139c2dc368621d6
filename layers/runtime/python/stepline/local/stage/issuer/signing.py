"""The local issuer's key, its tokens, and the documents that verify them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from stepline.local.stage.deployed import HOME, write_private
from stepline.ports.channel import Role
from stepline.settings import Settings

AUDIENCE: Final = "stepline"
DISCOVERY: Final = "/.well-known/openid-configuration"
JWKS: Final = "/jwks.json"
AUTHORIZE: Final = "/session/authorize"
END_SESSION: Final = "/session/end"
SESSION: Final = "/session"
"""Cookies ignore ports: with this path they go to no other server of this machine, unless it has the same path."""
TOKEN_PATH: Final = "/token"  # noqa: S105 - a path
REVOKE: Final = "/revoke"
_ALGORITHM: Final = "RS256"
_KEY_ID: Final = "local"


def load_key(home: Path = HOME) -> rsa.RSAPrivateKey:
    """Return the issuer's key, created on first use and kept, so that tokens outlive a restart."""
    path = home / "issuer.pem"
    if path.exists():
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
        if not isinstance(key, rsa.RSAPrivateKey):
            raise TypeError(f"{path} holds no RSA key")
        return key
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    write_private(
        path,
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
    return key


def sign_token(
    user: str,
    *,
    issuer_url: str,
    tenant: str = "local",
    project: str = "default",
    role: Role = "user",
    ttl_s: int = 3600,
    nonce: str = "",
    home: Path = HOME,
) -> str:
    """Return a signed token for this user, tenant and project; an admin's names the role as a group.

    `nonce` is that of the sign-in request.
    """
    now = int(time.time())
    claims = {
        "iss": issuer_url,
        "aud": AUDIENCE,
        "sub": user,
        "tenant": tenant,
        "project": project,
        "iat": now,
        "exp": now + ttl_s,
    }
    if role != "user":
        claims[Settings().role_claim] = [role]
    if nonce:
        claims["nonce"] = nonce
    return jwt.encode(claims, load_key(home), algorithm=_ALGORITHM, headers={"kid": _KEY_ID})


def subject_of(token: str, issuer_url: str, home: Path = HOME) -> str:
    """Return the user whom a token of this issuer names, even after its expiry; "" for any other text."""
    try:
        claims = jwt.decode(
            token,
            load_key(home).public_key(),
            algorithms=[_ALGORITHM],
            audience=AUDIENCE,
            issuer=issuer_url,
            options={"verify_exp": False},
        )
    except jwt.PyJWTError:
        return ""
    return str(claims["sub"])


def key_set(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    """Return the public half as a JSON Web Key Set."""
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": _KEY_ID, "alg": _ALGORITHM, "use": "sig"}]}


def discovery(issuer_url: str) -> dict[str, Any]:
    """Return the provider's metadata. Source: OpenID Connect Discovery 1.0 §3, and RFC 9207."""
    return {
        "issuer": issuer_url,
        "authorization_endpoint": f"{issuer_url}{AUTHORIZE}",
        "token_endpoint": f"{issuer_url}{TOKEN_PATH}",
        "end_session_endpoint": f"{issuer_url}{END_SESSION}",
        "revocation_endpoint": f"{issuer_url}{REVOKE}",
        "jwks_uri": f"{issuer_url}{JWKS}",
        "id_token_signing_alg_values_supported": [_ALGORITHM],
        "subject_types_supported": ["public"],
        "scopes_supported": ["openid", "email"],
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_methods_supported": ["none"],
        "revocation_endpoint_auth_methods_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login"],
        "authorization_response_iss_parameter_supported": True,
    }
