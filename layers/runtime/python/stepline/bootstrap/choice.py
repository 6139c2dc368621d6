"""What the settings choose: limits, caps, the model, and where programs run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepline.adapters.anthropic import AnthropicModelClient
from stepline.adapters.aws.secret import secret_text
from stepline.adapters.model_call import plan_roles
from stepline.bundle.round_cap import resolve_round_cap
from stepline.loop.port import Policy
from stepline.model.execution import Limits, RuntimeProfile
from stepline.settings import Settings
from stepline.tools.context import ReadCaps, fit_read_caps

if TYPE_CHECKING:
    from stepline.bundle.descriptor import Descriptors

WINDOW_TOKENS = 200_000
"""The context window of the models we map by default."""


def policy(settings: Settings) -> Policy:
    """Return the loop's limits as the deployment sets them."""
    rounds = resolve_round_cap(
        props=settings.bundle_props, assembly=settings.assembly, variable=settings.max_iterations
    )
    return Policy(max_iterations=rounds, turn_deadline_s=settings.turn_deadline_s)


def execution_runtime(
    settings: Settings, descriptors: Descriptors | None = None
) -> tuple[RuntimeProfile, Limits] | None:
    """Return where programs run and within which limits; None for a deployment that runs none.

    The active bundle's descriptor counts after its properties, and the assembly's where the setting is empty.
    """
    if settings.exec_mode == "none":
        return None
    default = RuntimeProfile(
        mode=settings.exec_mode,
        image=settings.exec_image,
        container_strategy=settings.exec_strategy,
        network_mode=settings.exec_network_mode,
        descriptor_payload_scope=settings.descriptor_payload_scope,
    )
    from stepline.bundle.runtime_profile import resolve_runtime  # noqa: PLC0415 - only where programs run

    limits = Limits(timeout_s=settings.exec_timeout_s)
    profile, limits = resolve_runtime(
        settings.bundle_props,
        settings.assembly or (descriptors.assembly if descriptors else {}),
        default,
        descriptor=descriptors.config if descriptors else {},
        limits=limits,
    )
    return None if profile.mode == "none" else (profile, limits)


def read_caps(settings: Settings) -> ReadCaps:
    """Return how much a read may show, as the deployment sets it."""
    return fit_read_caps(
        max_chars=settings.read_visible_max_chars,
        max_tokens=settings.read_visible_max_tokens,
        max_bytes=settings.read_visible_max_bytes,
        context_fraction=settings.read_visible_context_fraction,
        window_tokens=WINDOW_TOKENS,
    )


def model_of(settings: Settings) -> AnthropicModelClient:
    """Return the model client; nothing of the provider's SDK is imported yet."""
    return AnthropicModelClient(
        roles=plan_roles(settings.model_provider, settings.model_roles),
        api_key=lambda: settings.anthropic_api_key or secret_text(settings.model_secret_arn),
        base_url=settings.anthropic_base_url if settings.model_provider == "anthropic" else "",
    )
