"""The state of sign-ins: pending forms, codes, sessions and refresh tokens, in memory only.

Everything is named by a random text that only one browser has. A code and a form can be used once. Source: RFC 6749
(OAuth 2.0), RFC 7636 (PKCE), RFC 9700 (security best current practice).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

FORM_S: Final = 600
CODE_S: Final = 60
SESSION_S: Final = 12 * 3600
KEPT_MAX: Final = 1000
_VERIFIER: Final = re.compile(r"[A-Za-z0-9._~-]{43,128}")

Kept = TypeVar("Kept")
Clock = Callable[[], float]


@dataclass(frozen=True)
class Authorization:
    """A sign-in request whose client and redirect address are registered."""

    client_id: str
    redirect_uri: str
    state: str
    nonce: str
    challenge: str


@dataclass(frozen=True)
class AuthorizationGrant:
    """The sign-in that issued a code or a refresh token: `session` names a session that must not have ended."""

    session: str
    user: str
    nonce: str = ""


class RefusedGrantError(Exception):
    """A code or a refresh token that is invalid."""


class ExpiringStore(Generic[Kept]):
    """Values under random names, each for a limited time; if there are too many, the oldest is dropped."""

    def __init__(self, ttl_s: float, clock: Clock) -> None:
        self._ttl_s, self._clock = ttl_s, clock
        self._kept: dict[str, tuple[float, Kept]] = {}
        self._lock = threading.Lock()

    def put(self, value: Kept, *, name: str = "") -> str:
        """Keep a value; return its name, a random one unless it is given."""
        name = name or secrets.token_urlsafe(32)
        with self._lock:
            while len(self._kept) >= KEPT_MAX:
                del self._kept[next(iter(self._kept))]
            self._kept[name] = (self._clock() + self._ttl_s, value)
        return name

    def get(self, name: str) -> Kept | None:
        """Return a value, None if it does not exist or is no longer valid."""
        with self._lock:
            until, value = self._kept.get(name, (0.0, None))
        return value if until > self._clock() else None

    def take(self, name: str) -> Kept | None:
        """Return a value, as `get` does, and remove it: two threads never get the same one."""
        with self._lock:
            until, value = self._kept.pop(name, (0.0, None))
        return value if until > self._clock() else None


class SignIns:
    """The issuer's memory of sign-ins."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self.forms: ExpiringStore[Authorization] = ExpiringStore(FORM_S, clock)
        self._owners: ExpiringStore[bool] = ExpiringStore(SESSION_S, clock)
        self._sessions: ExpiringStore[str] = ExpiringStore(SESSION_S, clock)  # the user of each
        self._codes: ExpiringStore[tuple[Authorization, AuthorizationGrant]] = ExpiringStore(CODE_S, clock)
        self._spent: ExpiringStore[str] = ExpiringStore(
            SESSION_S, clock
        )  # the session for which a used code was issued
        self._refreshes: ExpiringStore[AuthorizationGrant] = ExpiringStore(SESSION_S, clock)

    def admit_owner(self) -> str:
        """Return the random name of a browser that has presented the owner's key."""
        return self._owners.put(True)

    def is_owner(self, name: str) -> bool:
        """Return True for the name of such a browser, for half a day."""
        return self._owners.get(name) is True

    def begin(self, user: str) -> str:
        """Begin a session; return its name."""
        return self._sessions.put(user)

    def user_of(self, session: str) -> str:
        """Return the user of a session, "" if there is none."""
        return self._sessions.get(session) or ""

    def end(self, session: str) -> None:
        """End a session, and with it its codes and refresh tokens."""
        self._sessions.take(session)

    def grant_code(self, asked: Authorization, session: str) -> str:
        """Return a code for the user of a session."""
        grant = AuthorizationGrant(session=session, user=self.user_of(session), nonce=asked.nonce)
        return self._codes.put((asked, grant))

    def redeem(self, code: str, *, client_id: str, redirect_uri: str, verifier: str) -> AuthorizationGrant:
        """Return the grant of a code; it is used up, also by a request that is refused.

        A code that is used twice was stolen at some point: the session that it belongs to is ended. Raises
        RefusedGrantError.
        """
        found = self._codes.take(code)
        if found is None:
            if session := self._spent.take(code):
                self.end(session)
            raise RefusedGrantError
        asked, grant = found
        self._spent.put(grant.session, name=code)
        if (client_id, redirect_uri) != (asked.client_id, asked.redirect_uri) or not _answers(
            asked.challenge, verifier
        ):
            raise RefusedGrantError
        return self._alive(grant)

    def allow_refresh(self, grant: AuthorizationGrant) -> str:
        """Return a refresh token, which can be used once."""
        return self._refreshes.put(AuthorizationGrant(session=grant.session, user=grant.user))

    def refresh(self, token: str) -> AuthorizationGrant:
        """Return the grant of a refresh token; it is used up. Raises RefusedGrantError."""
        grant = self._refreshes.take(token)
        if grant is None:
            raise RefusedGrantError
        return self._alive(grant)

    def revoke(self, token: str) -> None:
        """Forget a refresh token."""
        self._refreshes.take(token)

    def _alive(self, grant: AuthorizationGrant) -> AuthorizationGrant:
        if self.user_of(grant.session) != grant.user:
            raise RefusedGrantError
        return grant


def _answers(challenge: str, verifier: str) -> bool:
    """Return True if the challenge was made from this verifier. Source: RFC 7636 §4.6."""
    if not _VERIFIER.fullmatch(verifier):
        return False
    made = urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=")
    return hmac.compare_digest(made, challenge.encode())
