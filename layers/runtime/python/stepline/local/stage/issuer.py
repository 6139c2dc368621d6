"""A small OpenID Connect issuer on loopback: discovery, key set, and tokens.

It takes the place of a company's identity provider; the authorizer checks its tokens in the same way. Read
access to `.stepline/` is enough to be any user here, and none elsewhere: no deployed stage trusts this
issuer.
"""

from __future__ import annotations

import argparse
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from stepline.local.stage.deployed import HOME, write_private
from stepline.local.stage.service import LOOPBACK
from stepline.ports.channel import Role
from stepline.settings import Settings

PORT: Final = 4567
AUDIENCE: Final = "stepline"
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


def mint(
    user: str,
    *,
    issuer_url: str,
    tenant: str = "local",
    project: str = "default",
    role: Role = "user",
    ttl_s: int = 3600,
    home: Path = HOME,
) -> str:
    """Return a signed token for this user, tenant and project; an admin's names the role as a group."""
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
    return jwt.encode(claims, load_key(home), algorithm=_ALGORITHM, headers={"kid": _KEY_ID})


def key_set(key: rsa.RSAPrivateKey) -> dict[str, Any]:
    """Return the public half as a JSON Web Key Set."""
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": _KEY_ID, "alg": _ALGORITHM, "use": "sig"}]}


def discovery(issuer_url: str) -> dict[str, Any]:
    """Return the provider's metadata."""
    return {
        "issuer": issuer_url,
        "jwks_uri": f"{issuer_url}/jwks.json",
        "id_token_signing_alg_values_supported": [_ALGORITHM],
        "subject_types_supported": ["public"],
        "response_types_supported": ["id_token"],
    }


def make_server(port: int, home: Path = HOME) -> ThreadingHTTPServer:
    """Return a server for the issuer's two documents; port 0 picks a free one."""
    pages: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = pages.get(self.path, b"")
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer((LOOPBACK, port), Handler)
    url = f"http://{LOOPBACK}:{server.server_address[1]}"
    pages["/.well-known/openid-configuration"] = json.dumps(discovery(url)).encode()
    pages["/jwks.json"] = json.dumps(key_set(load_key(home))).encode()
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description="Loopback OpenID Connect issuer of the local stage.")
    parser.add_argument("--port", type=int, default=PORT)
    parser.add_argument("--home", type=Path, default=HOME)
    arguments = parser.parse_args()
    make_server(arguments.port, arguments.home).serve_forever()


if __name__ == "__main__":
    main()
