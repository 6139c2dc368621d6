"""ModelClient for the Anthropic API (or any compatible server) and for Bedrock.

A transport sends a call and yields the events of its answer: `http_transport` for the Anthropic API,
`sdk_transport` for Bedrock. All that they have in common is here: roles, retries and `abort`. This module
imports neither: `warm` loads the one it needs in a thread while the caller reads the conversation, and the first
call waits for that thread. Retries happen here, never in a transport, and only before the first text was yielded;
after that the caller, who has recorded text, handles a failure.

`PendingHead` waits for the head of a response in a thread of its own, so that the caller may give up. A
provider reads the whole prompt before it answers, and a thread that waits for the head cannot be woken, since
a transport exposes its socket only with the response.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from typing import Any, Final, Protocol, Self

from msgspec.structs import replace

from stepline.adapters.anthropic.call import (
    DEFAULT_ROLE,
    ModelRole,
    Retry,
    Timeouts,
    draw_wait_s,
    fall_back,
    plan_call,
)
from stepline.adapters.anthropic.message_fold import MessageFold, WireEvent
from stepline.errors import ModelRateLimited, ModelRefused, ModelStreamBroken, SteplineError
from stepline.metrics import FACTS_UNREAD, MODEL_ASKS, MODEL_RATE_LIMITS
from stepline.model.usage import Usage
from stepline.ports.clock import Meter
from stepline.ports.model import Completion, ModelRequest

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
UNAUTHORIZED: Final = 401

logger = logging.getLogger(__name__)


class Answer(Protocol):
    """A streamed answer, whose head has come."""

    def __iter__(self) -> Iterator[WireEvent]:
        """Yield its events. Raises SteplineError."""
        ...

    def close(self) -> None: ...

    def shut_down(self) -> None:
        """Wake a thread that waits for the next event; callable from another thread."""
        ...


class Transport(Protocol):
    """The connections to a provider, under one key of it; "" where it has none."""

    api_key: str

    def send(self, call: Mapping[str, Any]) -> Answer:
        """Send the arguments of `plan_call`. Raises SteplineError."""
        ...

    def close(self) -> None: ...


class AnthropicModelClient:
    """Serves roles with their models; one transport per provider, created on first use and kept."""

    def __init__(
        self,
        *,
        roles: Mapping[str, ModelRole],
        api_key: Callable[[], str] = str,
        base_url: str = "",
        aws_region: str = "",
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        by_sdk: bool = False,
        meter: Meter | None = None,
    ) -> None:
        """Store the configuration; nothing is imported or sent.

        `api_key` is called when a transport is created, and again when the provider refuses its key. `by_sdk`: the
        Anthropic API, too, is called through the SDK. `meter` counts every try, those that meet the provider's
        rate, and the facts beside an answer that could not be read.
        """
        self._roles = dict(roles)
        self._api_key = api_key
        self._base_url = base_url
        self._aws_region = aws_region
        self._retry = retry or Retry()
        self._timeouts = timeouts or Timeouts()
        self._by_sdk = by_sdk
        self._meter = meter
        self._transports: dict[str, Transport] = {}
        self._lock = threading.Lock()

    def warm(self, role: str = DEFAULT_ROLE) -> threading.Thread:
        """Start loading and creating the transport of a role.

        A failure is raised by the first call instead.
        """
        thread = threading.Thread(target=self._warm, args=(self._role(role).provider,), daemon=True)
        thread.start()
        return thread

    def stream(self, request: ModelRequest) -> AnthropicStream:
        """Prepare a call of the role's model. Raises ModelRefused if neither the role nor `*` is mapped."""
        role = self._role(request.role)
        role = fall_back(role) if request.declined else role
        return AnthropicStream(
            connect=lambda: self._transport(role.provider),
            renew=lambda refused: self._renew(role.provider, refused),
            request=request,
            role=role,
            retry=self._retry,
            meter=self._meter,
        )

    def close(self) -> None:
        """Close the kept connections."""
        with self._lock:
            for transport in self._transports.values():
                transport.close()
            self._transports.clear()

    def _role(self, name: str) -> ModelRole:
        role = self._roles.get(name) or self._roles.get(DEFAULT_ROLE)
        if role is None:
            raise ModelRefused(f"no model serves the role {name}", code="unknown_role", role=name)
        return role

    def _warm(self, provider: str) -> None:
        try:
            self._transport(provider)
        except SteplineError as error:
            logger.info("model client not ready", extra={"code": error.reason})

    def _transport(self, provider: str) -> Transport:
        with self._lock:
            if provider not in self._transports:
                self._transports[provider] = self._connect(provider)
            return self._transports[provider]

    def _renew(self, provider: str, refused: Transport | None) -> bool:
        """Read the key again; return True if it is another one than the transport's whose key was refused.

        The next call then makes its transport with it. Raises what reading it raises.
        """
        with self._lock:
            if provider == "bedrock":
                return False  # no key of ours: it signs with the role of the process
            if refused is None or refused not in self._transports.values():
                return True  # another call has renewed it
            if refused.api_key == self._api_key():
                return False
            del self._transports[provider]  # open streams end by themselves, and it with them
            return True

    def _connect(self, provider: str) -> Transport:
        if provider == "bedrock":
            from stepline.adapters.anthropic.sdk_transport import SdkTransport  # noqa: PLC0415 -- loads the SDK

            return SdkTransport.bedrock(
                region=self._aws_region, base_url=self._base_url, timeouts=self._timeouts
            )
        key = self._api_key()
        if not key:
            raise ModelRefused("no API key for the model's provider", code="model_credentials")
        place = {"api_key": key, "base_url": self._base_url or DEFAULT_BASE_URL}
        if self._by_sdk:
            from stepline.adapters.anthropic.sdk_transport import SdkTransport  # noqa: PLC0415 -- loads the SDK

            return SdkTransport.direct(**place, timeouts=self._timeouts)
        from stepline.adapters.anthropic.http_transport import HttpTransport  # noqa: PLC0415 -- loads urllib3

        return HttpTransport(**place, timeouts=self._timeouts)


class AnthropicStream:
    """One call. Iterated in one thread; `abort` may be called from another."""

    def __init__(
        self,
        *,
        connect: Callable[[], Transport],
        renew: Callable[[Transport | None], bool],
        request: ModelRequest,
        role: ModelRole,
        retry: Retry,
        meter: Meter | None = None,
    ) -> None:
        """Prepare the call; `connect` returns the transport and may block while it loads.

        `renew` is told of a transport whose key was refused, and returns True if there is a newer key.
        """
        self._connect = connect
        self._renew = renew
        self._transport: Transport | None = None
        self._request = request
        self._role = role
        self._retry = retry
        self._meter = meter
        self._fold = MessageFold(request, role)
        self._aborted = threading.Event()
        self._failed = False
        self._tries: tuple[Usage, ...] = ()
        self._head: PendingHead | None = None
        self._answer: Answer | None = None

    def __enter__(self) -> Self:
        """Return self; nothing is sent yet."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the connection; leaving in mid-stream counts as aborted."""
        if not (self._fold.ended or self._fold.too_long or self._failed):
            self._aborted.set()
        self._close()

    def abort(self) -> None:
        """Stop: no further delta, no further try.

        Wakes a thread that waits for the response, an event or a retry.
        """
        self._aborted.set()
        head = self._head
        if head is not None:
            head.give_up()
        self._shut_down()

    def completion(self) -> Completion:
        """Return the completion so far; a try that was never sent has no cost."""
        completion = replace(self._fold.completion(aborted=self._aborted.is_set()), tries=self._tries)
        return completion if self._head is not None else replace(completion, usage=Usage())

    def __iter__(self) -> Iterator[str]:
        """Yield the text, with retries until the first text was yielded."""
        began = time.monotonic()
        for attempt in range(self._retry.tries):
            told = False
            try:
                for text in self._attempt():
                    told = told or bool(text)
                    yield text
            except SteplineError as error:
                self._failed = True
                if isinstance(error, ModelRateLimited):
                    self._count(MODEL_RATE_LIMITS)
                wait_s = None if told else self._wait_s(error, attempt, time.monotonic() - began)
                if wait_s is None:
                    raise
                self._failed = False
                logger.info("model call tried again", extra={"code": error.reason, "wait_s": wait_s})
                self._begin_again(attempt + 1)
                if self._aborted.wait(wait_s):
                    return
            else:
                return

    def _count(self, name: str) -> None:
        if self._meter is not None:
            self._meter.count(name)

    def _count_unread(self) -> None:
        if unread := self._fold.facts.unread:
            logger.info("facts beside an answer were not read", extra={"facts": sorted(unread)})
            if self._meter is not None:
                self._meter.count(FACTS_UNREAD, unread.total())

    def _wait_s(self, error: SteplineError, attempt: int, elapsed_s: float) -> float | None:
        """Return the seconds to wait before the next try; None to give up. A new key is tried at once."""
        last = attempt + 1 >= self._retry.tries
        if error.context.get("status") == UNAUTHORIZED and not last and self._renew(self._transport):
            return 0.0
        return draw_wait_s(self._retry, error, attempt=attempt, elapsed_s=elapsed_s)

    def _begin_again(self, retries: int) -> None:
        """Count what the failed try has used, and go back to where nothing is sent."""
        self._tries = (*self._tries, self._fold.completion(aborted=False).usage)
        self._fold = MessageFold(self._request, self._role, retries=retries)
        self._head = None

    def _attempt(self) -> Iterator[str]:
        with closing(self._events()) as events:
            for event in events:
                text = self._fold.take(event)
                if text or event.kind == "message_start":
                    yield text
                if self._fold.too_long:
                    logger.warning("an answer beyond its bound was ended")
                    return
        if rest := self._fold.close():
            yield rest
        if not (self._fold.ended or self._aborted.is_set()):
            raise ModelStreamBroken("the answer ended before it was complete", code="stream_cut")

    def _events(self) -> Generator[WireEvent, None, None]:
        """Yield all events of the answer; otherwise the connection could not be reused."""
        try:
            if not self._aborted.is_set():
                self._count(MODEL_ASKS)
                head = self._head = PendingHead(self._send)
                if self._aborted.is_set():  # aborted in between, when there was no head to give up
                    head.give_up()
                self._answer = head.wait()
            events: Iterator[WireEvent] = iter(self._answer or ())
            while not self._aborted.is_set():
                event = next(events, None)
                if event is None:
                    return
                yield event
        except Exception as error:
            if self._aborted.is_set() or self._fold.ended:
                return
            if not isinstance(error, SteplineError):
                logger.exception("model call failed in a way we do not know")
            raise
        finally:
            self._close()
            self._count_unread()

    def _send(self) -> Answer:
        self._transport = self._connect()
        return self._transport.send(plan_call(self._request, self._role))

    def _close(self) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.close()

    def _shut_down(self) -> None:
        answer = self._answer
        if answer is not None:
            answer.shut_down()


class PendingHead:
    """One request. `wait` sends it; `give_up` may be called from another thread, and closes a later response."""

    def __init__(self, send: Callable[[], Any]) -> None:
        """Prepare the request; `send` returns the response, which has a `close`."""
        self._send = send
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._given_up = False
        self._response: Any = None
        self._error: BaseException | None = None

    def wait(self) -> Any:
        """Send the request; return the response, or None if it was given up first.

        Raises the errors of `send`.
        """
        if not self._over.is_set():
            threading.Thread(target=self._run, name="model-head", daemon=True).start()
        self._over.wait()
        if self._error is not None:
            raise self._error
        return self._response

    def give_up(self) -> None:
        """Wake the waiting thread without a response."""
        with self._lock:
            self._given_up = True
        self._over.set()

    def _run(self) -> None:
        response, error = None, None
        try:
            response = self._send()
        except BaseException as raised:  # noqa: BLE001 - `wait` raises it, in the caller's thread
            error = raised
        with self._lock:
            late = self._given_up
            if not late:
                self._response, self._error = response, error
        self._over.set()
        if late and response is not None:
            response.close()
        elif late:
            logger.info("call failed when nobody waited for it", extra={"error": type(error).__name__})
