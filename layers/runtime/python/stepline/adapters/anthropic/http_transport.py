"""Messages calls over urllib3, which the AWS clients load anyway: only the streaming part of the API.

Source: platform.claude.com, "Versions", "Authentication" and "Streaming messages".
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import urllib3
from urllib3 import exceptions as foreign

from stepline.adapters.anthropic.error import map_body
from stepline.adapters.anthropic.message_fold import WireEvent
from stepline.adapters.anthropic.server_sent import read_wire_events
from stepline.adapters.http_pool import make_pool
from stepline.adapters.provider.roles import Timeouts
from stepline.errors import (
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)

API_VERSION: Final = "2026-10-21"
"""The version that the SDK also sends; a test compares them."""
ERROR_MAX_BYTES: Final = 64 * 1024
"""The maximum bytes of an error response to read."""

logger = logging.getLogger(__name__)


class HttpTransport:
    """One pool of connections to the Anthropic API, or to a compatible server, through the environment's proxy.

    A write may take as long as a connect on a new connection, and as long as a read on a kept one.
    """

    def __init__(self, *, api_key: str, base_url: str, timeouts: Timeouts) -> None:
        """Create the pool; nothing is sent. Raises ModelUnreachable for an invalid URL."""
        self.api_key = api_key
        self._url = f"{base_url.rstrip('/')}/v1/messages"
        self._timeout = urllib3.Timeout(connect=timeouts.connect_s, read=timeouts.read_s)
        with _mapped(ModelUnreachable, "model_unreachable"):
            self._pool = make_pool(self._url)

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
                    "anthropic-version": API_VERSION,
                    "authorization": f"Bearer {self.api_key}",
                    "content-type": "application/json",
                    "user-agent": "stepline",
                },
                preload_content=False,
                redirect=False,
                retries=False,
                timeout=self._timeout,
            )
            if response.status == 200:
                return HttpAnswer(response)
            try:
                body = response.read(ERROR_MAX_BYTES)
            finally:
                response.close()
        raise _refused(response, body)

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()


class HttpAnswer:
    """A streamed answer."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self._response = response

    def __iter__(self) -> Iterator[WireEvent]:
        """Yield the events as they arrive, to the end of the response, so that its connection is kept."""
        with _mapped(ModelStreamBroken, "stream_cut"):
            yield from read_wire_events(iter(self._response.read1, b""))

    def close(self) -> None:
        """Close the connection, unless the answer was read to its end."""
        self._response.close()

    def shut_down(self) -> None:
        """Shut the socket down: unlike closing it, that wakes a thread that reads from it."""
        try:
            self._response.shutdown()
        except (OSError, RuntimeError, ValueError) as error:  # it ended at the same moment
            logger.debug("connection already closed", extra={"error": type(error).__name__})


def _encode(call: Mapping[str, Any]) -> bytes:
    """Return the body: `extra_body` is the SDK's name for fields that it does not know."""
    fields = {name: value for name, value in call.items() if name != "extra_body"}
    try:
        return msgspec.json.encode({**fields, **call.get("extra_body", {})})
    except UnicodeEncodeError as error:
        raise ModelRefused("the request holds half a surrogate pair", code="unencodable_text") from error


def _refused(response: urllib3.BaseHTTPResponse, data: bytes) -> SteplineError:
    text = data.decode("utf-8", "replace").strip()
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
        if isinstance(error, foreign.NewConnectionError | foreign.ConnectTimeoutError):
            raise ModelUnreachable(words) from error
        if isinstance(error, foreign.TimeoutError):
            raise ModelTimeout(words) from error
        if isinstance(error, foreign.DecodeError):
            raise ModelStreamBroken(words, code="stream_malformed") from error
        raise otherwise(words, code=code) from error
