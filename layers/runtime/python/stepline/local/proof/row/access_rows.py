"""Identity: which tokens the websocket and the HTTP API refuse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import urlsplit

import jwt
import urllib3
from cryptography.hazmat.primitives.asymmetric import rsa
from websockets.exceptions import InvalidHandshake, InvalidStatus
from websockets.sync.client import connect

from stepline.adapters.http_pool import make_pool
from stepline.errors import DependencyError
from stepline.local.client import LOOPBACK_NAMES
from stepline.local.client.websocket import OPEN_TIMEOUT_S
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import ProvedStage

OPENED: Final = 101
REFUSED: Final = (401, 403)
KEY_BITS: Final = 2048
EXPIRED_S: Final = -600
"""The lifetime of a token that expired ten minutes ago, more than the difference of two clocks."""


def prove_own(stage: ProvedStage, _conversation: str) -> Evidence:
    """Open both entry points with the user's own token."""
    found = knock(stage, stage.caller.token())
    judge_opened(found)
    return found


def prove_none(stage: ProvedStage, _conversation: str) -> Evidence:
    """Knock without a token."""
    return _refused(stage, "")


def prove_foreign(stage: ProvedStage, _conversation: str) -> Evidence:
    """Knock with the user's own claims, signed by a key that the issuer does not have."""
    return _refused(stage, sign_anew(stage.caller.token()))


def prove_expired(stage: ProvedStage, _conversation: str) -> Evidence:
    """Knock with a token of the stage's issuer that has expired."""
    return _refused(stage, stage.mint("user", EXPIRED_S))


def _refused(stage: ProvedStage, token: str) -> Evidence:
    found = knock(stage, token)
    judge_refused(found)
    return found


def judge_opened(statuses: Mapping[str, int]) -> None:
    """Require that both entry points opened."""
    require(statuses == {"websocket": OPENED, "http": 200}, f"the user's own token is refused: {statuses}")


def judge_refused(statuses: Mapping[str, int]) -> None:
    """Require that both entry points refused the caller, and did not fail instead."""
    odd = {door: status for door, status in statuses.items() if status not in REFUSED}
    require(not odd, f"neither 401 nor 403: {odd}")


def sign_anew(token: str) -> str:
    """Return a token with the same claims and key id, signed by a key of our own."""
    claims = jwt.decode(token, options={"verify_signature": False})
    key = rsa.generate_private_key(public_exponent=65537, key_size=KEY_BITS)
    headers = {"kid": str(jwt.get_unverified_header(token).get("kid", ""))}
    return jwt.encode(claims, key, algorithm="RS256", headers=headers)


def knock(stage: ProvedStage, token: str) -> dict[str, int]:
    """Return the HTTP status with which each entry point answers this token; "" sends none."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"{stage.caller.api_url.rstrip('/')}/v1/conversations?limit=1"
    return {"websocket": _knock_socket(stage.caller.url, headers), "http": _knock_api(url, headers)}


def _knock_socket(url: str, headers: Mapping[str, str]) -> int:
    proxy: Literal[True] | None = None if urlsplit(url).hostname in LOOPBACK_NAMES else True
    try:
        with connect(
            url,
            additional_headers=headers,
            compression=None,
            proxy=proxy,
            open_timeout=OPEN_TIMEOUT_S,
            legacy=False,
        ):
            return OPENED
    except InvalidStatus as error:
        return error.response.status_code
    except (InvalidHandshake, OSError) as error:
        raise DependencyError(f"the websocket does not answer: {error}", code="socket_unreachable") from error


def _knock_api(url: str, headers: Mapping[str, str]) -> int:
    pool = urllib3.PoolManager() if urlsplit(url).hostname in LOOPBACK_NAMES else make_pool(url)
    try:
        return pool.request("GET", url, headers=headers, timeout=OPEN_TIMEOUT_S, retries=False).status
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise DependencyError("the API does not answer", code="api_unreachable") from error
