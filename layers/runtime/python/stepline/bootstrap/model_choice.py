"""Choice of the model client from the settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.provider.client import ProviderClient
from stepline.bootstrap.choice import provider_of, roles_of
from stepline.errors import ModelRefused
from stepline.settings import KEYED

if TYPE_CHECKING:
    from stepline.ports.clock import Meter
    from stepline.settings import Settings


def model_of(settings: Settings, meter: Meter | None = None) -> ProviderClient:
    """Return the model client, whose attempts `meter` counts; the provider's transport is not imported yet.

    Raises ModelRefused `model_credentials`: the settings have neither the provider's key nor a secret that holds it.
    """
    has_key = settings.anthropic_api_key or settings.model_secret_arn
    if settings.model_provider in KEYED and not has_key:
        raise ModelRefused(
            "there is no API key for the model: set ANTHROPIC_API_KEY; a server named by ANTHROPIC_BASE_URL may accept any value",
            code="model_credentials",
        )
    return ProviderClient(provider_of(settings), roles=roles_of(settings), meter=meter)
