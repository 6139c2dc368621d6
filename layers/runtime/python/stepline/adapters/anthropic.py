"""ModelClient over the `anthropic` SDK, for the Anthropic API (or any server that speaks it) and for Bedrock.

The SDK costs 1.7 s of CPU to import, so this module does not: `warm` loads it in a thread while the caller reads
the conversation, and the first call waits for that thread. Retries happen here, never in the SDK, and only before
the first text was handed on; afterwards a failure is the caller's, who recorded what he saw.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

from msgspec.structs import replace

from stepline.adapters.message_fold import MessageFold
from stepline.adapters.model_call import (
    DEFAULT_ROLE,
    ModelRole,
    Retry,
    Timeouts,
    draw_wait_s,
    plan_call,
)
from stepline.adapters.model_error import map_sdk_error
from stepline.adapters.model_head import PendingHead
from stepline.errors import DependencyError, ModelRefused, SteplineError
from stepline.model.usage import Usage
from stepline.ports.model import Completion, ModelRequest

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
MODULES: Final = ("anthropic", "httpx2", "httpcore2")
"""The SDK and what its first client loads."""

logger = logging.getLogger(__name__)


class AnthropicModelClient:
    """Serves roles by their models; one SDK client a provider, made on first use and kept."""

    def __init__(
        self,
        *,
        roles: Mapping[str, ModelRole],
        api_key: Callable[[], str] = str,
        base_url: str = "",
        aws_region: str = "",
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
    ) -> None:
        """Keep the wiring; nothing is imported or sent. `api_key` is called once, when the client is made."""
        self._roles = dict(roles)
        self._api_key = api_key
        self._base_url = base_url
        self._aws_region = aws_region
        self._retry = retry or Retry()
        self._timeouts = timeouts or Timeouts()
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def warm(self, role: str = DEFAULT_ROLE) -> threading.Thread:
        """Start loading the SDK and making the client of a role; a failure shows at the first call instead."""
        thread = threading.Thread(target=self._warm, args=(self._role(role).provider,), daemon=True)
        thread.start()
        return thread

    def stream(self, request: ModelRequest) -> AnthropicStream:
        """Prepare a call of the role's model. Raises ModelRefused if neither the role nor `*` is mapped."""
        role = self._role(request.role)
        return AnthropicStream(
            connect=lambda: self._client(role.provider), request=request, role=role, retry=self._retry
        )

    def close(self) -> None:
        """Close the connections that are kept for the next call."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients.clear()

    def _role(self, name: str) -> ModelRole:
        role = self._roles.get(name) or self._roles.get(DEFAULT_ROLE)
        if role is None:
            raise ModelRefused(f"no model serves the role {name}", code="unknown_role", role=name)
        return role

    def _warm(self, provider: str) -> None:
        try:
            self._client(provider)
        except SteplineError as error:
            logger.info("model client not ready", extra={"code": error.reason})

    def _client(self, provider: str) -> Any:
        with self._lock:
            if provider not in self._clients:
                self._clients[provider] = self._connect(provider)
            return self._clients[provider]

    def _connect(self, provider: str) -> Any:
        import anthropic  # noqa: PLC0415 - see the module's docstring
        import httpx2  # noqa: PLC0415 - comes with the SDK

        limits = self._timeouts
        timeout = httpx2.Timeout(
            connect=limits.connect_s, read=limits.read_s, write=limits.write_s, pool=limits.connect_s
        )
        shared: dict[str, Any] = {"timeout": timeout, "max_retries": 0, "open_telemetry": False}
        if provider == "bedrock":
            return anthropic.AnthropicBedrock(
                aws_region=self._aws_region or None, base_url=self._base_url or None, **shared
            )
        key = self._api_key()
        if not key:
            raise ModelRefused("no API key for the model's provider", code="model_credentials")
        return anthropic.Anthropic(api_key=key, base_url=self._base_url or DEFAULT_BASE_URL, **shared)


class AnthropicStream:
    """One call. Iterated in one thread; `abort` may come from another."""

    def __init__(
        self, *, connect: Callable[[], Any], request: ModelRequest, role: ModelRole, retry: Retry
    ) -> None:
        """Prepare the call; `connect` returns the SDK's client and may block while it loads."""
        self._connect = connect
        self._request = request
        self._role = role
        self._retry = retry
        self._fold = MessageFold(request, model=role.model)
        self._aborted = threading.Event()
        self._failed = False
        self._head: PendingHead | None = None
        self._response: Any = None

    def __enter__(self) -> Self:
        """Nothing is sent yet."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Close the connection; a call left in mid-stream counts as aborted."""
        if not (self._fold.ended or self._failed):
            self._aborted.set()
        self._close()

    def abort(self) -> None:
        """Stop: no further delta, no further try. Wakes a thread that waits for the response, an event, or a retry."""
        self._aborted.set()
        if self._head is not None:
            self._head.give_up()
        self._shut_down()

    def completion(self) -> Completion:
        """Return what the call came to; one that was not sent costs nothing."""
        completion = self._fold.completion(aborted=self._aborted.is_set())
        return completion if self._head is not None else replace(completion, usage=Usage())

    def __iter__(self) -> Iterator[str]:
        """Yield the text, trying again while nothing of it was yielded."""
        began = time.monotonic()
        for attempt in range(self._retry.tries):
            self._fold = MessageFold(self._request, model=self._role.model, retries=attempt)
            told = False
            try:
                for text in self._attempt():
                    told = True
                    yield text
            except SteplineError as error:
                wait_s = draw_wait_s(self._retry, error, attempt=attempt, elapsed_s=time.monotonic() - began)
                if told or wait_s is None:
                    self._failed = True
                    raise
                logger.info("model call tried again", extra={"code": error.reason, "wait_s": wait_s})
                if self._aborted.wait(wait_s):
                    return
            else:
                return

    def _attempt(self) -> Iterator[str]:
        for event in self._events():
            try:
                text = self._fold.take(event)
            except (
                AttributeError,
                TypeError,
            ) as error:  # the SDK builds events without looking at their shape
                raise DependencyError(f"not an event we know: {error}", code="stream_malformed") from error
            if text:
                yield text
        if not (self._fold.ended or self._aborted.is_set()):
            raise DependencyError("the answer ended before it was complete", code="stream_cut")

    def _events(self) -> Iterator[Any]:
        """Yield the SDK's events to the very end, or the connection could not be used again."""
        try:
            if not self._aborted.is_set():
                head = self._head = PendingHead(self._send)
                if self._aborted.is_set():  # it came in between, and found no head to give up
                    head.give_up()
                self._response = head.wait()
            while not self._aborted.is_set():
                event = next(self._response, None)
                if event is None:
                    return
                yield event
        except SteplineError:
            raise
        except Exception as error:
            # Whatever the SDK and its transport raise becomes ours here; what neither of them raises passes.
            if self._aborted.is_set() or self._fold.ended:
                return
            mapped = map_sdk_error(error)
            if mapped is None:
                logger.exception("model call failed in a way we do not know")
                raise
            raise mapped from error
        finally:
            self._close()

    def _send(self) -> Any:
        return self._connect().messages.create(**plan_call(self._request, self._role))

    def _close(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    def _shut_down(self) -> None:
        """Shut the socket down: unlike closing it, that wakes a thread which reads from it."""
        response = self._response
        if response is None:
            return
        network = response.response.extensions.get("network_stream")
        sock = network.get_extra_info("socket") if network is not None else None
        if isinstance(sock, socket.socket):
            try:
                socket.socket.shutdown(
                    sock, socket.SHUT_RDWR
                )  # past TLS, which would wait for the other side
            except OSError as error:  # it ended by itself in this moment
                logger.debug("connection already closed", extra={"errno": error.errno})
