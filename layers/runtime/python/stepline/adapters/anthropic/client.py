"""A ModelClient of the Anthropic API for programs without a deployment's settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import Retry, Timeouts
from stepline.ports.clock import Meter
from stepline.ports.model import RoleChoice


class AnthropicModelClient(ProviderClient):
    """Serves roles with the Anthropic API, or with a compatible server at `base_url`."""

    def __init__(
        self,
        *,
        roles: Mapping[str, RoleChoice],
        api_key: Callable[[], str] = str,
        base_url: str = "",
        retry: Retry | None = None,
        timeouts: Timeouts | None = None,
        by_sdk: bool = False,
        meter: Meter | None = None,
    ) -> None:
        """Store the configuration, see `AnthropicProvider` and `ProviderClient`; nothing is imported or sent."""
        provider = AnthropicProvider(api_key=api_key, base_url=base_url, timeouts=timeouts, by_sdk=by_sdk)
        super().__init__(provider, roles=roles, retry=retry, meter=meter)
