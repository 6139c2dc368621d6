"""The client of the model that the settings name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.anthropic.call import plan_roles
from stepline.adapters.anthropic.client import AnthropicModelClient
from stepline.adapters.aws.secret import secret_text
from stepline.errors import ModelRefused

if TYPE_CHECKING:
    from stepline.ports.clock import Meter
    from stepline.settings import Settings


def model_of(settings: Settings, meter: Meter | None = None) -> AnthropicModelClient:
    """Return the model client, whose tries `meter` counts; nothing that reaches the provider is imported yet.

    Raises ModelRefused `model_credentials`: the settings have neither the provider's key nor a secret with it.
    """
    has_key = settings.anthropic_api_key or settings.model_secret_arn
    if settings.model_provider == "anthropic" and not has_key:
        raise ModelRefused(
            "there is no API key for the model: set ANTHROPIC_API_KEY; a server named by ANTHROPIC_BASE_URL may accept any word",
            code="model_credentials",
        )
    return AnthropicModelClient(
        roles=plan_roles(settings.model_provider, settings.model_roles),
        api_key=lambda: settings.anthropic_api_key or secret_text(settings.model_secret_arn),
        base_url=settings.anthropic_base_url if settings.model_provider == "anthropic" else "",
        meter=meter,
    )
