"""The Messages protocol as a ModelProvider: for the Anthropic API, any compatible server, and Bedrock.

A transport sends a call and yields the events of its answer: `http_transport` for the Anthropic API,
`sdk_transport` for Bedrock. This module imports neither of them, nor the modules that plan and read a call: the first
call, or `warm`, loads those that it needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from stepline.adapters.anthropic.family import cache_minimum, find_refusals
from stepline.adapters.provider.roles import Timeouts
from stepline.errors import ModelRefused
from stepline.ports.model import AnswerFacts, ModelRequest, RoleChoice

if TYPE_CHECKING:
    from stepline.adapters.anthropic.message_fold import WireEvent

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"


class WireAnswer(Protocol):
    """A streamed answer whose head has arrived."""

    def __iter__(self) -> Iterator[WireEvent]:
        """Yield the events of the answer. Raises SteplineError."""
        ...

    def close(self) -> None: ...

    def shut_down(self) -> None:
        """Wake a thread that waits for the next event; callable from another thread."""
        ...


class Transport(Protocol):
    """The connections to a provider with one API key; "" if it has none."""

    api_key: str

    def send(self, call: Mapping[str, Any]) -> WireAnswer:
        """Send the arguments of `plan_call`. Raises SteplineError."""
        ...

    def close(self) -> None: ...


class AnthropicProvider:
    """The Anthropic API, or a compatible server; its transport is created on first use and kept."""

    default_model: str = "claude-sonnet-5-5"
    traced_as: str = "anthropic"
    older: bool = False
    """Some of its models are served under an older version of the API."""

    def __init__(
        self,
        *,
        api_key: Callable[[], str] = str,
        base_url: str = "",
        timeouts: Timeouts | None = None,
        by_sdk: bool = False,
    ) -> None:
        """Store the configuration; nothing is imported or sent.

        `api_key` is called when a transport is created, and again when the provider refuses its key. `by_sdk`: calls
        go through the SDK.
        """
        self._api_key = api_key
        self._base_url = base_url
        self._timeouts = timeouts or Timeouts()
        self._by_sdk = by_sdk
        self._kept: Transport | None = None
        self._lock = threading.Lock()

    def call(self, request: ModelRequest, role: RoleChoice) -> MessagesCall:
        return MessagesCall(self, request, role)

    def warm(self) -> None:
        self.transport()

    def find_refusals(self, role: RoleChoice) -> list[str]:
        return find_refusals(role)

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return cache_minimum(model, own)

    def close(self) -> None:
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.close()

    def transport(self) -> Transport:
        """Return the kept transport, or a new one. Raises SteplineError."""
        with self._lock:
            if self._kept is None:
                self._kept = self.connect()
            return self._kept

    def renew(self, refused: Transport | None) -> bool:
        """Read the key again; return True if it differs from the key of the `refused` transport.

        The next call then creates a transport with it. Raises the errors of reading the key.
        """
        with self._lock:
            if refused is None or refused is not self._kept:
                return True  # another call has renewed it
            if refused.api_key == self._api_key():
                return False
            self._kept = None  # it ends with its open streams
            return True

    def connect(self) -> Transport:
        """Return a new transport. Raises SteplineError."""
        key = self._api_key()
        if not key:
            raise ModelRefused("no API key for the model's provider", code="model_credentials")
        place = {"api_key": key, "base_url": self._base_url or DEFAULT_BASE_URL}
        if self._by_sdk:
            from stepline.adapters.anthropic.sdk_transport import SdkTransport  # noqa: PLC0415 -- loads the SDK

            return SdkTransport.direct(**place, timeouts=self._timeouts)
        from stepline.adapters.anthropic.http_transport import HttpTransport  # noqa: PLC0415 -- loads urllib3

        return HttpTransport(**place, timeouts=self._timeouts)


class BedrockProvider(AnthropicProvider):
    """Bedrock, which serves Claude over the same protocol. It needs no key: the process's role signs requests."""

    default_model: str = "global.anthropic.claude-sonnet-5-5"
    traced_as: str = "aws.bedrock"
    older: bool = True

    def __init__(self, *, region: str = "", base_url: str = "", timeouts: Timeouts | None = None) -> None:
        """Store the configuration; an empty region or URL comes from the environment."""
        super().__init__(base_url=base_url, timeouts=timeouts)
        self._region = region

    def renew(self, refused: Transport | None) -> bool:
        return False

    def connect(self) -> Transport:
        from stepline.adapters.anthropic.sdk_transport import SdkTransport  # noqa: PLC0415 -- loads the SDK

        return SdkTransport.bedrock(region=self._region, base_url=self._base_url, timeouts=self._timeouts)


class MessagesCall:
    """One request over the Messages protocol (`ProviderCall`)."""

    def __init__(self, provider: AnthropicProvider, request: ModelRequest, role: RoleChoice) -> None:
        from stepline.adapters.anthropic.message_fold import MessageFold  # noqa: PLC0415 -- few functions call one

        self._provider = provider
        self._request = request
        self._role = role
        self._fold = MessageFold()
        self._transport: Transport | None = None
        self._answer: WireAnswer | None = None

    def send(self) -> None:
        from stepline.adapters.anthropic.call import plan_call  # noqa: PLC0415 -- as above

        self._transport = self._provider.transport()
        self._answer = self._transport.send(plan_call(self._request, self._role, older=self._provider.older))

    def __iter__(self) -> Iterator[str]:
        return map(self._fold.take, self._answer or ())

    @property
    def facts(self) -> AnswerFacts:
        return self._fold.facts()

    def renew(self) -> bool:
        return self._provider.renew(self._transport)

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()

    def shut_down(self) -> None:
        if self._answer is not None:
            self._answer.shut_down()
