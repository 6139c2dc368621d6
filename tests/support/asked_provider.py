"""Clients of the Messages wire, as tests ask it: over HTTP, through the SDK, and as Bedrock."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from stepline.adapters.anthropic.provider import AnthropicProvider, BedrockProvider
from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.roles import Retry, plan_roles
from stepline.ports.clock import Meter
from stepline.ports.model import ModelProvider, RoleChoice

QUICK: Final = Retry(base_s=0.001, cap_s=0.001)
NO_CHOICE: Final[Mapping[str, RoleChoice]] = MappingProxyType({})


def ask_anthropic(
    base_url: str = "",
    chosen: Mapping[str, RoleChoice] = NO_CHOICE,
    *,
    retry: Retry = QUICK,
    meter: Meter | None = None,
    **fields: Any,
) -> ProviderClient:
    """Return a client of the API at a URL, with a key unless `fields` have another."""
    provider = AnthropicProvider(base_url=base_url, **{"api_key": lambda: "key", **fields})
    return _client(provider, chosen, retry, meter)


def ask_bedrock(
    base_url: str,
    chosen: Mapping[str, RoleChoice] = NO_CHOICE,
    *,
    retry: Retry = QUICK,
    region: str = "eu-central-1",
) -> ProviderClient:
    """Return a client of Bedrock at a URL."""
    return _client(BedrockProvider(base_url=base_url, region=region), chosen, retry, None)


def _client(
    provider: ModelProvider, chosen: Mapping[str, RoleChoice], retry: Retry, meter: Meter | None
) -> ProviderClient:
    roles = plan_roles(provider.default_model, chosen)
    return ProviderClient(provider, roles=roles, retry=retry, meter=meter)
