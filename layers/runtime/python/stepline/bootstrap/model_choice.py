"""Choice of the model client from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.provider.client import ProviderClient
from stepline.bootstrap.choice import provider_of, roles_of
from stepline.errors import ModelRefused
from stepline.ports.model import named_providers
from stepline.settings import KEYED

if TYPE_CHECKING:
    from stepline.ports.clock import Meter
    from stepline.settings import Settings


def model_of(settings: Settings, meter: Meter | None = None) -> ProviderClient:
    """Return the model client, whose attempts `meter` counts; the provider's transport is not imported yet.

    Raises ModelRefused `model_credentials`: a role is served by the default provider, and the settings have neither its key
    nor a secret that holds it; InputError, as `provider_of`.
    """
    roles = roles_of(settings)
    if missing := _missing_key(settings) if "" in named_providers(roles) else "":
        raise ModelRefused(f"there is no API key for the model: {missing}", code="model_credentials")
    return ProviderClient(provider_of(settings), roles=roles, meter=meter)


def _missing_key(settings: Settings) -> str:
    """Return the advice for a default provider without a key; "" if it has one, or needs none."""
    if settings.model_provider not in KEYED or settings.model_secret_arn:
        return ""
    if settings.model_provider == "openai":
        has_key = settings.openai_api_key or settings.openai_base_url
        return "" if has_key else "set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that needs none"
    words = "set ANTHROPIC_API_KEY; a server named by ANTHROPIC_BASE_URL may accept any value"
    return "" if settings.anthropic_api_key else words
