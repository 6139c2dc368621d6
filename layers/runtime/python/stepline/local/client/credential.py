"""Client credentials: a token for each new connection, and tickets that renew an open one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import jwt

from stepline.errors import AuthError, DependencyError


class Credential:
    """Tokens of one user. `expires_at` is the expiry of the last token, in epoch seconds."""

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
        """Return a ticket for a fresh token. Raises AuthError, DependencyError."""
        return fetch_ticket(self._api_url, self.token())


def read_expiry(token: str) -> float:
    """Return a token's expiry in epoch seconds; infinity if it is unreadable, since the server checks it anyway."""
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
    # The full API client loads the types of all endpoints, which a chat shorter than a token's lifetime does not need.
    from stepline.local.client.api_transport import ApiError
    from stepline.local.client.http_api import HttpApi

    with closing(HttpApi(api_url, lambda: token)) as api:
        try:
            return api.make_ticket().ticket
        except ApiError as error:
            if error.status in (401, 403):
                raise AuthError(f"the API refused the token with {error.status}") from error
            raise DependencyError(f"the API answered {error.status}", code="api_unreachable") from error
