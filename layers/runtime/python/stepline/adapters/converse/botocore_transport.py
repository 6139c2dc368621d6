"""Converse calls through botocore, which every function that stores anything has loaded: it signs them and reads their frames.

Source: docs.aws.amazon.com/bedrock, "ConverseStream"; botocore's model of the service.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from botocore import exceptions as foreign
from botocore.eventstream import ParserError
from urllib3.exceptions import HTTPError
from urllib3.exceptions import TimeoutError as SilenceError

from stepline.adapters.aws.client import connect
from stepline.adapters.provider.error import is_wrong_tls, map_answer, parse_waits
from stepline.adapters.provider.wire import Timeouts
from stepline.errors import (
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)

_TABLE: Final[tuple[tuple[type[Exception], type[SteplineError], str], ...]] = (
    (foreign.ConnectTimeoutError, ModelUnreachable, "model_unreachable"),
    (foreign.ReadTimeoutError, ModelTimeout, "model_timeout"),
    (foreign.EndpointConnectionError, ModelUnreachable, "model_unreachable"),
    (foreign.SSLError, ModelUnreachable, "model_unreachable"),
    (foreign.ConnectionClosedError, ModelStreamBroken, "stream_cut"),
    (foreign.HTTPClientError, ModelUnreachable, "model_unreachable"),
    (foreign.ParamValidationError, ModelRefused, "model_refused"),
    (foreign.BotoCoreError, ModelRefused, "model_credentials"),
    (UnicodeEncodeError, ModelRefused, "unencodable_text"),
    (ParserError, ModelStreamBroken, "stream_malformed"),
    (SilenceError, ModelTimeout, "model_timeout"),
    (HTTPError, ModelStreamBroken, "stream_cut"),
)
"""Errors of botocore and its connections, the narrower ones first."""

_FRAMES: Final = "eventstream"
"""A word in the content type of each stream."""

logger = logging.getLogger(__name__)


class ConverseTransport:
    """One client of Bedrock, whose own retries are off."""

    api_key = ""

    def __init__(self, *, endpoint: str, timeouts: Timeouts, guarded: bool = False) -> None:
        """Create the client; nothing is sent.

        `guarded`: the endpoint is called only while its host leads to public addresses. Raises ModelRefused without a region, or
        for an endpoint that the guard refuses.
        """
        self._check = _guard(endpoint) if guarded else _no_check
        with _mapped():
            self._client = connect(
                "bedrock-runtime", read_timeout_s=timeouts.read_s, attempts=1, endpoint=endpoint or None
            )

    def send(self, call: Mapping[str, Any]) -> ConverseAnswer:
        """Send a call and return the answer, whose head has arrived. Raises ModelRefused for one that is no stream."""
        self._check()
        with _mapped():
            _check_texts(call)
            answer = self._client.converse_stream(**call)
        if _FRAMES not in answer["ResponseMetadata"]["HTTPHeaders"].get("content-type", _FRAMES):
            answer["stream"].close()
            place = self._client.meta.endpoint_url
            raise ModelRefused(f"{place} answered without a stream: it is no address of Bedrock")
        return ConverseAnswer(answer["stream"])

    def close(self) -> None:
        """Close the kept connections."""
        self._client.close()


class ConverseAnswer:
    """A streamed answer."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Yield the events as they arrive."""
        with _mapped():
            yield from self._stream

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()

    def shut_down(self) -> None:
        """Shut the socket down: unlike closing it, that wakes a thread that reads from it."""
        try:
            vars(self._stream)["_raw_stream"].shutdown()
        except (OSError, RuntimeError, ValueError) as error:  # it ended at the same moment
            logger.debug("connection already closed", extra={"error": type(error).__name__})


def _no_check() -> None: ...


def _guard(endpoint: str) -> Callable[[], object]:
    """Return the check of an endpoint before each call."""
    from stepline.adapters.provider.guarded_pool import pin_public, read_public  # noqa: PLC0415 -- few rows have an endpoint

    return partial(pin_public, read_public(endpoint))


def _check_texts(call: Mapping[str, Any]) -> None:
    """Raise UnicodeEncodeError for half a surrogate pair: botocore would escape it, and the service cannot read it."""
    for blocks in (call.get("system", ()), *(message["content"] for message in call["messages"])):
        for block in blocks:
            block.get("text", "").encode()


@contextmanager
def _mapped() -> Iterator[None]:
    """Raise botocore's errors as ours."""
    try:
        yield
    except foreign.ClientError as error:
        said, about = error.response.get("Error", {}), error.response.get("ResponseMetadata", {})
        raise map_answer(
            status=about.get("HTTPStatusCode", 200),
            kind=said.get("Code", ""),
            message=said.get("Message", ""),
            retry_after_s=parse_waits(about.get("HTTPHeaders", {})),
        ) from error
    except Exception as error:
        for kind, ours, code in _TABLE:
            if isinstance(error, foreign.SSLError) and is_wrong_tls(error):
                raise ModelRefused(f"the server's TLS is refused: {error}") from error
            if isinstance(error, kind):
                raise ours(f"{type(error).__name__}: {error}", code=code) from error
        raise
