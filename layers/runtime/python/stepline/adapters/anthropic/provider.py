"""The Messages protocol as a ModelProvider: for the Anthropic API, any compatible server, and Bedrock.

A transport sends a call and yields the events of its answer: `provider/http_transport` for the Anthropic API,
`sdk_transport` for Bedrock. This module imports neither of them, nor the modules that plan and read a call: the first
call, or `warm`, loads those that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.anthropic.family import cache_minimum, find_refusals
from stepline.adapters.provider.wire import Timeouts, Transport, WireProvider
from stepline.errors import ModelRefused
from stepline.ports.model import MediaKind, ModelRequest, RoleChoice

if TYPE_CHECKING:
    from stepline.adapters.anthropic.message_fold import MessageFold

DEFAULT_BASE_URL: Final = "https://api.anthropic.com"
API_VERSION: Final = "2026-10-21"
"""The version that the SDK also sends; a test compares them."""


class AnthropicProvider(WireProvider):
    """The Anthropic API, or a compatible server."""

    default_model: str = "claude-sonnet-5-5"
    traced_as: str = "anthropic"
    older: bool = False
    """Some of its models are served under an older version of the API."""

    def __init__(
        self, *, by_sdk: bool = False, takes: Sequence[MediaKind] | None = None, **configured: Any
    ) -> None:
        """Store the configuration, see `WireProvider`; nothing is imported or sent.

        `by_sdk`: calls go through the SDK. `takes` are the kinds of files that the server reads, None for all.
        """
        super().__init__(**configured)
        self._by_sdk = by_sdk
        self._takes = takes

    @property
    def plan(self) -> Callable[[ModelRequest, RoleChoice], Mapping[str, Any]]:
        from stepline.adapters.anthropic.call import plan_call  # noqa: PLC0415 -- few functions call one

        return partial(plan_call, older=self.older, takes=self._takes)

    def fold(self) -> MessageFold:
        from stepline.adapters.anthropic.message_fold import MessageFold  # noqa: PLC0415 -- as above

        return MessageFold()

    def find_refusals(self, role: RoleChoice) -> list[str]:
        return find_refusals(role)

    def cache_minimum(self, model: str, own: Mapping[str, int]) -> int:
        return cache_minimum(model, own)

    def connect(self) -> Transport:
        key, base_url = self.api_key(), self._base_url or DEFAULT_BASE_URL
        if not key and (self._by_sdk or base_url.startswith(DEFAULT_BASE_URL)):
            raise ModelRefused("no API key for the model's provider", code="model_credentials")
        if self._by_sdk:
            from stepline.adapters.anthropic.sdk_transport import SdkTransport  # noqa: PLC0415 -- loads the SDK

            return SdkTransport.direct(api_key=key, base_url=base_url, timeouts=self.timeouts)
        from stepline.adapters.anthropic.message_fold import is_known, read_wire_events  # noqa: PLC0415 -- as above
        from stepline.adapters.provider.http_transport import HttpTransport  # noqa: PLC0415 -- loads urllib3

        return HttpTransport(
            url=f"{base_url.rstrip('/')}/v1/messages",
            api_key=key,
            headers={"anthropic-version": API_VERSION, **self.headers(key)},
            read=read_wire_events,
            knows=is_known,
            timeouts=self.timeouts,
            guarded=self._guarded,
        )


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

        return SdkTransport.bedrock(region=self._region, base_url=self._base_url, timeouts=self.timeouts)
