"""Messages calls through the `anthropic` SDK: for Bedrock, whose requests it signs.

It is also a second transport to the Anthropic API, for comparison with the first. Its stream is read like that of the
first, because the SDK builds events without checking their shape. Importing this module loads the SDK, which takes a
second of CPU.
"""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import anthropic
import httpx2  # comes with the SDK

from stepline.adapters.anthropic.aws_frames import is_framed, read_frames
from stepline.adapters.anthropic.message_fold import WireEvent, read_wire_events
from stepline.adapters.provider.error import is_wrong_tls, map_body
from stepline.adapters.provider.wire import Timeouts
from stepline.errors import (
    DependencyError,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)

MODULES: Final = ("httpcore2",)
"""The modules that the SDK's first client loads."""

logger = logging.getLogger(__name__)


class SdkTransport:
    """One client of the SDK, whose own retries are off."""

    def __init__(self, client: Any, *, api_key: str = "") -> None:
        """Store the SDK's client; `bedrock` and `direct` create one."""
        self._client = client
        self.api_key = api_key

    @classmethod
    def direct(cls, *, api_key: str, base_url: str, timeouts: Timeouts) -> Self:
        """Return a transport to the Anthropic API, or to a compatible server."""
        client = anthropic.Anthropic(api_key=api_key, base_url=base_url, **_shared(timeouts))
        return cls(client, api_key=api_key)

    @classmethod
    def bedrock(cls, *, region: str, base_url: str, timeouts: Timeouts) -> Self:
        """Return a transport to Bedrock; an empty region or URL comes from the environment."""
        return cls(
            anthropic.AnthropicBedrock(
                aws_region=region or None, base_url=base_url or None, **_shared(timeouts)
            )
        )

    def send(self, call: Mapping[str, Any]) -> SdkAnswer:
        """Send a call and return the answer, whose head has arrived. Raises errors mapped by `map_sdk_error`."""
        with _mapped():
            return SdkAnswer(self._client.messages.create(**call))

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()


class SdkAnswer:
    """A response that the SDK has opened and not read."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[WireEvent]:
        """Yield all events, from Bedrock's frames or a server's stream. Raises errors mapped by `map_sdk_error`."""
        with _mapped():
            chunks = filter(None, self._stream.response.iter_bytes())
            first = next(chunks, b"")
            read = read_frames if is_framed(first) else read_wire_events
            yield from read(itertools.chain((first,), chunks))

    def close(self) -> None:
        """Close the response."""
        self._stream.close()

    def shut_down(self) -> None:
        """Shut the socket down: unlike closing it, that wakes a thread that reads from it."""
        network = self._stream.response.extensions.get("network_stream")
        sock = network.get_extra_info("socket") if network is not None else None
        if isinstance(sock, socket.socket):
            try:
                socket.socket.shutdown(
                    sock, socket.SHUT_RDWR
                )  # below TLS, whose shutdown would wait for the peer
            except OSError as error:  # it ended at the same moment
                logger.debug("connection already closed", extra={"errno": error.errno})


def _shared(timeouts: Timeouts) -> dict[str, Any]:
    timeout = httpx2.Timeout(
        connect=timeouts.connect_s, read=timeouts.read_s, write=timeouts.write_s, pool=timeouts.connect_s
    )
    return {"timeout": timeout, "max_retries": 0, "open_telemetry": False}


@contextmanager
def _mapped() -> Iterator[None]:
    """Raise errors of the SDK and its transport as ours; others pass."""
    try:
        yield
    except Exception as error:
        mapped = map_sdk_error(error)
        if mapped is None:
            raise
        raise mapped from error


def map_sdk_error(error: Exception) -> SteplineError | None:
    """Map an error raised by the `anthropic` SDK or its dependencies; return None for any other."""
    if isinstance(error, anthropic.APIStatusError):
        return map_body(error.status_code, error.body, error.response.headers, message=error.message)
    if isinstance(error, anthropic.APIConnectionError) and (refused := _find_refusal(error.__cause__)):
        return refused
    table: tuple[tuple[type[Exception], type[SteplineError], str], ...] = (
        (httpx2.ConnectTimeout, ModelUnreachable, "model_unreachable"),
        (anthropic.APITimeoutError, ModelTimeout, "model_timeout"),
        (anthropic.APIConnectionError, ModelUnreachable, "model_unreachable"),
        (httpx2.InvalidURL, ModelUnreachable, "model_unreachable"),
        (anthropic.APIError, ModelStreamBroken, "stream_malformed"),
        (anthropic.CredentialsError, ModelRefused, "model_credentials"),
        (anthropic.WorkloadIdentityError, ModelRefused, "model_credentials"),
        (anthropic.AnthropicError, DependencyError, "model_unavailable"),
        (httpx2.TimeoutException, ModelTimeout, "model_timeout"),
        (httpx2.HTTPError, ModelStreamBroken, "stream_cut"),
        (httpx2.StreamError, ModelStreamBroken, "stream_cut"),
        (UnicodeEncodeError, ModelRefused, "unencodable_text"),
        (ValueError, ModelStreamBroken, "stream_malformed"),  # invalid JSON or UTF-8 in an event
    )
    connecting = isinstance(error.__cause__, httpx2.ConnectTimeout)  # the SDK only says "timed out"
    cause = error.__cause__ if connecting else error
    for foreign, ours, code in table:
        if isinstance(cause, foreign):
            return ours(_words(error), code=code)
    if type(error).__module__ == "botocore.eventstream":
        return ModelStreamBroken(_words(error), code="stream_malformed")
    if type(error).__module__.startswith("botocore."):
        return ModelRefused(_words(error), code="model_credentials")
    return None


def _find_refusal(cause: BaseException | None) -> ModelRefused | None:
    """Return the refusal that a failed connection means, if no later attempt can succeed."""
    if isinstance(cause, RuntimeError):
        # The Bedrock client signs inside the attempt and reports missing credentials as a RuntimeError.
        return ModelRefused(_words(cause), code="model_credentials")
    if cause is not None and is_wrong_tls(cause):
        return ModelRefused(f"the server's TLS is refused: {cause}")
    return None


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
