"""Model calls over urllib3, which the AWS clients load anyway: one POST of JSON, and its streamed answer.

Source: platform.claude.com, "Versions", "Authentication" and "Streaming messages".
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import urllib3
from urllib3 import exceptions as foreign

from stepline.adapters.http_pool import make_pool
from stepline.adapters.provider.error import is_wrong_tls, map_body
from stepline.adapters.provider.wire import KEY_PLACE, Timeouts
from stepline.errors import (
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)

ERROR_MAX_BYTES: Final = 64 * 1024
"""The maximum bytes of an error response to read."""
ERROR_STATUS: Final = 400
HEAD_BYTES: Final = 64
"""The first bytes of an answer, by which server-sent events and JSON are known."""
_STREAMED: Final = "text/event-stream"
_FIELD: Final = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:data|event|id|retry)?:")
"""The beginning of server-sent events: a field or a comment."""
KEY_CHARS: Final = 8
"""A key of at least this length is never part of an error's text, though some servers repeat it."""

if TYPE_CHECKING:
    from stepline.adapters.provider.guarded_pool import GuardedPool

logger = logging.getLogger(__name__)


class HttpTransport:
    """One pool of connections to a provider's API, or to a compatible server, through the environment's proxy.

    A write may take as long as a connect on a new connection, and as long as a read on a kept one.
    """

    def __init__(
        self,
        *,
        url: str,
        api_key: str,
        headers: Mapping[str, str],
        read: Callable[[Iterable[bytes]], Iterator[Any]],
        knows: Callable[[Any], bool],
        timeouts: Timeouts,
        guarded: bool = False,
    ) -> None:
        """Create the pool; nothing is sent.

        `read` decodes the events of an answer, and `knows` returns True for one of the protocol. `guarded`: only a public address is called. Raises ModelUnreachable for an
        invalid URL, ModelRefused for one that the guard refuses.
        """
        self.api_key = api_key
        self._url = url
        self._headers = headers
        self._read = read
        self._knows = knows
        self._timeout = urllib3.Timeout(connect=timeouts.connect_s, read=timeouts.read_s)
        with _mapped(ModelUnreachable, "model_unreachable"):
            self._pool: GuardedPool | urllib3.PoolManager = _guard(url) if guarded else make_pool(url)

    def send(self, call: Mapping[str, Any]) -> HttpAnswer:
        """Send a call and return the answer, whose head has arrived.

        A redirect is an error: it would send the key to another server.
        """
        with _mapped(ModelUnreachable, "model_unreachable"):
            response = self._pool.request(
                "POST",
                self._url,
                body=_encode(call),
                headers={
                    "accept": "application/json",
                    "accept-encoding": "identity",
                    "content-type": "application/json",
                    "user-agent": "stepline",
                    **self._headers,
                },
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=self._timeout,
            )
            page = response.headers.get("content-type", "").startswith("text/html")
            if response.status == 200 and not page:
                return HttpAnswer(response, self._url, self._read, self._knows)
            try:
                body = response.read(ERROR_MAX_BYTES)
            finally:
                response.close()
        if response.status == 200:
            raise ModelRefused(f"{self._url} answered with a web page: it is no address of a model's API")
        if response.status < ERROR_STATUS:
            raise ModelRefused(f"{self._url} answered with status {response.status}, as no model's API does")
        raise _refused(response, body, self.api_key)

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()


class HttpAnswer:
    """A streamed answer."""

    def __init__(
        self,
        response: urllib3.BaseHTTPResponse,
        url: str,
        read: Callable[[Iterable[bytes]], Iterator[Any]],
        knows: Callable[[Any], bool],
    ) -> None:
        self._response = response
        self._url = url
        self._read = read
        self._knows = knows
        self._head = b""

    def __iter__(self) -> Iterator[Any]:
        """Yield the events as they arrive, to the end of the response, so that its connection is kept.

        Raises ModelRefused after an answer to its end that another service sent.
        """
        decoded = known = False
        with _mapped(ModelStreamBroken, "stream_cut"):
            for event in self._read(self._chunks()):
                decoded, known = True, known or self._knows(event)
                yield event
        if not known and self._is_foreign(decoded=decoded):
            raise ModelRefused(f"{self._url} answered as no model's API does: it is no address of one")

    def _chunks(self) -> Iterator[bytes]:
        for chunk in iter(self._response.read1, b""):
            self._head += chunk[: HEAD_BYTES - len(self._head)]
            yield chunk

    def _is_foreign(self, *, decoded: bool) -> bool:
        """Return True if an answer without an event of the protocol is no stream that broke off.

        A JSON object that cannot be `decoded` broke off.
        """
        if _STREAMED in self._response.headers.get("content-type", ""):
            return False
        if self._head.lstrip().startswith(b"{"):
            return decoded
        return not _FIELD.match(self._head)

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        self._response.close()

    def shut_down(self) -> None:
        """Shut the socket down: unlike closing it, that wakes a thread that reads from it."""
        try:
            self._response.shutdown()
        except (OSError, RuntimeError, ValueError) as error:  # it ended at the same moment
            logger.debug("connection already closed", extra={"error": type(error).__name__})


def _guard(url: str) -> GuardedPool:
    from stepline.adapters.provider.guarded_pool import GuardedPool  # noqa: PLC0415 -- few providers have one

    return GuardedPool(url)


def _encode(call: Mapping[str, Any]) -> bytes:
    """Return the body: `extra_body` is the SDK's name for fields that it does not know."""
    fields = {name: value for name, value in call.items() if name != "extra_body"}
    try:
        return msgspec.json.encode({**fields, **call.get("extra_body", {})})
    except UnicodeEncodeError as error:
        raise ModelRefused("the request holds half a surrogate pair", code="unencodable_text") from error


def _refused(response: urllib3.BaseHTTPResponse, data: bytes, key: str) -> SteplineError:
    text = data.decode("utf-8", "replace").strip()
    text = text.replace(key, KEY_PLACE) if len(key) >= KEY_CHARS else text
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = text
    return map_body(response.status, body, response.headers, message=text)


@contextmanager
def _mapped(otherwise: type[ModelUnreachable | ModelStreamBroken], code: str) -> Iterator[None]:
    """Raise urllib3's errors as ours; `otherwise` is for errors other than timeouts and formats, with its `code`."""
    try:
        yield
    except foreign.HTTPError as error:
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, foreign.SSLError) and is_wrong_tls(error):
            raise ModelRefused(f"the server's TLS is refused: {error}") from error
        if isinstance(error, foreign.NewConnectionError | foreign.ConnectTimeoutError):
            raise ModelUnreachable(words) from error
        if isinstance(error, foreign.TimeoutError):
            raise ModelTimeout(words) from error
        if isinstance(error, foreign.DecodeError):
            raise ModelStreamBroken(words, code="stream_malformed") from error
        raise otherwise(words, code=code) from error
