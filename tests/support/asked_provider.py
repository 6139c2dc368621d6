"""Clients of each wire, as tests ask them: Messages over HTTP, through the SDK and as Bedrock, and chat completions."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from stepline.adapters.anthropic.client import AnthropicModelClient
from stepline.adapters.anthropic.provider import AnthropicProvider, BedrockProvider
from stepline.adapters.chat.provider import ChatProvider
from stepline.adapters.converse.provider import ConverseProvider
from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import Retry, Timeouts, plan_roles
from stepline.ports.clock import Meter
from stepline.ports.model import RoleChoice

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
    roles = plan_roles(AnthropicProvider.default_model, chosen)
    fields = {"api_key": lambda: "key", **fields}
    return AnthropicModelClient(roles=roles, base_url=base_url, retry=retry, meter=meter, **fields)


def ask_bedrock(
    base_url: str,
    chosen: Mapping[str, RoleChoice] = NO_CHOICE,
    *,
    retry: Retry = QUICK,
    region: str = "eu-central-1",
) -> ProviderClient:
    """Return a client of Bedrock at a URL."""
    provider = BedrockProvider(base_url=base_url, region=region)
    return ProviderClient(provider, roles=plan_roles(provider.default_model, chosen), retry=retry)


def ask_chat(
    base_url: str,
    chosen: Mapping[str, RoleChoice] = NO_CHOICE,
    *,
    retry: Retry = QUICK,
    meter: Meter | None = None,
    **fields: Any,
) -> ProviderClient:
    """Return a client of chat completions at a URL whose model reads files, with a key unless `fields` have another."""
    provider = ChatProvider(
        base_url=base_url, **{"api_key": lambda: "key", "takes": ("pictures", "documents"), **fields}
    )
    return ProviderClient(
        provider, roles=plan_roles(provider.default_model, chosen), retry=retry, meter=meter
    )


def ask_converse(
    base_url: str,
    chosen: Mapping[str, RoleChoice] = NO_CHOICE,
    *,
    retry: Retry = QUICK,
    timeouts: Timeouts | None = None,
) -> ProviderClient:
    """Return a client of Bedrock's Converse at a URL."""
    provider = ConverseProvider(base_url=base_url, timeouts=timeouts)
    return ProviderClient(provider, roles=plan_roles(provider.default_model, chosen), retry=retry)
