"""Client credentials: a token for each new connection, and tickets that renew an open one."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

import jwt

from stepline.errors import AuthError, DependencyError

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
TIMEOUT_S: Final = 30
"""A cold authorizer and a cold function start one after the other."""


class Credential:
    """Tokens of one user. `expires_at` is the expiry of the last one, in epoch seconds."""

    def __init__(self, fresh_token: Callable[[], str], api_url: str = "") -> None:
        """Get tokens from `fresh_token`, and tickets from the HTTP API at `api_url`, if set."""
        self._fresh_token = fresh_token
        self._api_url = api_url
        self.expires_at = 0.0

    @property
    def renews(self) -> bool:
        """True if a connection can be renewed while it is open."""
        return bool(self._api_url)

    def token(self) -> str:
        """Return a fresh token."""
        token = self._fresh_token()
        self.expires_at = read_expiry(token)
        return token

    def ticket(self) -> str:
        """Return a ticket of a fresh token. Raises AuthError, DependencyError."""
        return fetch_ticket(self._api_url, self.token())


def read_expiry(token: str) -> float:
    """Return a token's expiry in epoch seconds; infinity if unreadable, since the server checks it anyway."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        return float(claims["exp"])
    except (jwt.PyJWTError, KeyError, TypeError, ValueError):
        return float("inf")


def fetch_ticket(api_url: str, token: str) -> str:
    """Fetch a ticket from the HTTP API.

    Raises:
        AuthError: the token was refused.
        DependencyError: `api_unreachable`.
    """
    # The environment's proxy does not apply to this machine.
    proxies: dict[str, str] | None = {} if urlsplit(api_url).hostname in LOOPBACK else None
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    request = urllib.request.Request(  # noqa: S310 - the deployment's own address
        f"{api_url.rstrip('/')}/v1/socket-tickets",
        method="POST",
        headers={"Authorization": f"Bearer {token}"},
    )
    try:
        with opener.open(request, timeout=TIMEOUT_S) as answer:
            return str(json.load(answer)["ticket"])
    except urllib.error.HTTPError as error:
        with error:
            if error.code in (401, 403):
                raise AuthError(f"the API refused the token with {error.code}") from error
            raise DependencyError(f"the API answered {error.code}", code="api_unreachable") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DependencyError("the API does not answer", code="api_unreachable") from error
