"""One call of a search engine's API: its key, its retries, its limits, and its refusals as our errors."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from html import unescape
from typing import Any, Final, NoReturn, TypeVar

import msgspec
import urllib3
from urllib3 import exceptions as foreign

from stepline.adapters.http_pool import make_pool
from stepline.errors import DependencyError

SEARCH_UNAVAILABLE: Final = "search_unavailable"
RATE_LIMITED: Final = "search_rate_limited"
KEY_MISSING: Final = "search_key_missing"
KEY_REFUSED: Final = "search_key_refused"
REFUSED: Final = "search_refused"
MALFORMED: Final = "search_malformed"

TRIES: Final = 3
TIMEOUT_S: Final = 10.0
"""Timeout of the connection, and of each silence in an answer."""
PAUSE_S, PAUSE_MAX_S = 0.5, 4.0
"""The pause between two attempts. If an engine requests a longer pause, there is no further attempt."""
ANSWER_BYTES_MAX: Final = 4 * 1024 * 1024

_QUOTA: Final = frozenset({402, 432, 433})
"""The plan is used up. Source: docs.tavily.com, "Rate limits"."""
_KEY: Final = frozenset({401, 403})

T = TypeVar("T")


class SearchApi:
    """The API of one engine. Thread-safe. No error and no log holds the key."""

    def __init__(
        self,
        name: str,
        base_url: str,
        *,
        key: Callable[[], str] | None = None,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Send requests to `base_url`; `key` is read on the first call, `sleep` waits between attempts."""
        self.name = name
        self._base_url = base_url.rstrip("/")
        self._key = key
        self._timeout_s = timeout_s
        self._sleep = sleep

    @cached_property
    def key(self) -> str:
        """The key. Raises DependencyError `search_key_missing`."""
        key = (self._key() if self._key else "").strip()
        if not key:
            raise DependencyError(f"{self.name} needs a key, and there is none", code=KEY_MISSING)
        return key

    def ask(
        self,
        shape: type[T],
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        fields: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        key_words: Collection[bytes] = (),
    ) -> T:
        """Send a request with `fields` in the address, or with a JSON `body`, and return the answer.

        A refusal that contains one of `key_words` is a refusal of the key. Raises DependencyError.
        """
        status = 0
        for left in reversed(range(TRIES)):
            status, pause_s, data = self._exchange(path, dict(headers or {}), fields, body)
            if status == 200:
                return self._decode(data, shape)
            if not (status == 429 or status >= 500 or status == 0):
                self._refuse(status, data, key_words)
            if not left or pause_s > PAUSE_MAX_S:
                break
            waited_s = PAUSE_S * 2 ** (TRIES - 1 - left)
            self._sleep(pause_s or random.SystemRandom().uniform(waited_s / 2, waited_s))
        code = RATE_LIMITED if status == 429 else SEARCH_UNAVAILABLE
        raise DependencyError(f"{self.name} does not answer now ({status or 'no connection'})", code=code)

    def _exchange(
        self,
        path: str,
        headers: dict[str, str],
        fields: Mapping[str, str] | None,
        body: Mapping[str, Any] | None,
    ) -> tuple[int, float, bytes]:
        """Return the status (0 without an answer), the requested pause, and the answer.

        A redirect is not followed: it would send the key to another server.
        """
        headers |= {"accept": "application/json", "user-agent": "stepline"}
        if body is not None:
            headers["content-type"] = "application/json"
        try:
            response = self._pool.request(
                "GET" if body is None else "POST",
                f"{self._base_url}{path}",
                fields=dict(fields) if fields else None,
                body=None if body is None else msgspec.json.encode(body),
                headers=headers,
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=urllib3.Timeout(connect=self._timeout_s, read=self._timeout_s),
            )
            try:
                data = response.read(ANSWER_BYTES_MAX + 1)
            finally:
                response.close()
        except foreign.HTTPError:
            return 0, 0.0, b""
        return response.status, _seconds(response.headers.get("retry-after", "")), data

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        try:
            return make_pool(self._base_url)
        except foreign.LocationParseError as error:
            raise DependencyError(
                f"{self.name} has no address that can be asked", code=SEARCH_UNAVAILABLE
            ) from error

    def _decode(self, data: bytes, shape: type[T]) -> T:
        if len(data) > ANSWER_BYTES_MAX:
            raise DependencyError(
                f"{self.name} answered with more than {ANSWER_BYTES_MAX} bytes", code=MALFORMED
            )
        try:
            return msgspec.json.decode(data, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DependencyError(f"{self.name} answered with something else", code=MALFORMED) from error

    def _refuse(self, status: int, data: bytes, key_words: Collection[bytes]) -> NoReturn:
        if self._key and (status in _KEY or any(word in data for word in key_words)):
            raise DependencyError(f"{self.name} refuses the key ({status})", code=KEY_REFUSED)
        if status in _QUOTA:
            raise DependencyError(f"the plan at {self.name} is used up ({status})", code=RATE_LIMITED)
        raise DependencyError(f"{self.name} refuses to answer ({status})", code=REFUSED)


def decode_entities(text: str | None) -> str:
    """Return a title or a snippet with its HTML entities decoded."""
    return unescape(text or "").strip()


def _seconds(text: str) -> float:
    return float(text) if text.isascii() and text.isdigit() else 0.0
