"""The arguments of a model call: the model of a role, the request, and the waits between tries.

Values and pure functions.

The minimum length of a cached prompt is chosen by the beginning of the model's name. Source:
platform.claude.com, "Prompt caching".
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from stepline.errors import (
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)
from stepline.model.base import Value
from stepline.ports.model import ModelRequest, Part

DEFAULT_ROLE: Final = "*"
DEFAULT_MODELS: Final = {"anthropic": "claude-sonnet-5", "bedrock": "global.anthropic.claude-sonnet-5"}
RETRIED: Final = (
    ModelOverloaded,
    ModelRateLimited,
    ModelUnreachable,
    ModelTimeout,
    ModelStreamBroken,
    DependencyError,
)

_random = random.SystemRandom()


class ModelRole(Value):
    """The model that serves a role. `max_tokens` caps a request's own; `temperature` overrides it."""

    model: str
    provider: Literal["anthropic", "bedrock"] = "anthropic"
    max_tokens: int | None = None
    temperature: float | None = None
    thinking: Literal["", "adaptive", "disabled"] = ""


class Retry(Value):
    """Full jitter: wait a random time up to `base_s`·2ⁿ, at most `cap_s`.

    No try begins later than `budget_s` after the first, nor after a provider's wait longer than
    `retry_after_max_s`: then Step Functions, which waits for free, is the better place to retry.
    """

    tries: int = 3
    base_s: float = 0.5
    cap_s: float = 4.0
    retry_after_max_s: float = 8.0
    budget_s: float = 20.0


class Timeouts(Value):
    """Seconds for each part of a call; `read_s` is the longest silence, during which providers send pings."""

    connect_s: float = 5.0
    read_s: float = 60.0
    write_s: float = 30.0


def plan_roles(provider: Literal["anthropic", "bedrock"], models: Mapping[str, str]) -> dict[str, ModelRole]:
    """Return the roles of a deployment from a map of role to model id; `*` is always included."""
    named = {DEFAULT_ROLE: DEFAULT_MODELS[provider], **models}
    return {role: ModelRole(model=model, provider=provider) for role, model in named.items()}


def plan_call(request: ModelRequest, role: ModelRole) -> dict[str, Any]:
    """Return the SDK's arguments for a request: one system list, one user message, and its cache marks."""
    call: dict[str, Any] = {
        "model": role.model,
        "max_tokens": min(request.max_tokens, role.max_tokens or request.max_tokens),
        "messages": [{"role": "user", "content": _blocks(request.content)}],
        "stream": True,
    }
    if system := _blocks(request.system):
        call["system"] = system
    if role.thinking:
        call["thinking"] = {"type": role.thinking}
    temperature = request.temperature if role.temperature is None else role.temperature
    if temperature is not None:
        call["extra_body"] = {"temperature": temperature}  # no longer in the SDK; servers still read it
    return call


def draw_wait_s(retry: Retry, error: SteplineError, *, attempt: int, elapsed_s: float) -> float | None:
    """Draw the seconds to wait before the try after `attempt` (from 0); None to give up."""
    asked = error.context.get("retry_after_s")
    if (
        not isinstance(error, RETRIED)
        or attempt + 1 >= retry.tries
        or (isinstance(asked, int | float) and asked > retry.retry_after_max_s)
    ):
        return None
    wait_s = _random.uniform(0, min(retry.cap_s, retry.base_s * 2.0**attempt))
    if isinstance(asked, int | float):
        wait_s += asked
    return wait_s if elapsed_s + wait_s <= retry.budget_s else None


def _blocks(parts: tuple[Part, ...]) -> list[dict[str, Any]]:
    """Return content blocks; blank parts are left out, since the provider refuses them."""
    mark = {"cache_control": {"type": "ephemeral"}}
    return [
        {"type": "text", "text": part.text, **(mark if part.cache else {})}
        for part in parts
        if part.text.strip()
    ]


DEFAULT_TOKENS: Final = 1024
MINIMUM_TOKENS: Final[Mapping[str, int]] = MappingProxyType(
    {
        # The first match wins, so a version precedes its family.
        "claude-opus-4-8": 1024,
        "claude-opus-4-7": 2048,
        "claude-opus-4-6": 4096,
        "claude-opus-4-5": 4096,
        "claude-opus-4": 1024,
        "claude-opus-5": 512,
        "claude-fable-5": 512,
        "claude-mythos-5": 512,
        "claude-mythos-preview": 2048,
        "claude-haiku-4-5": 4096,
        "claude-haiku-3-5": 2048,
    }
)
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


def cache_minimum(model: str, own: Mapping[str, int] = _NONE) -> int:
    """Return the minimum length of a cached prompt for a model, in tokens.

    A deployment's `own` values take precedence.

    Bedrock's model ids contain the provider's after `anthropic.`.
    """
    name = model.rpartition("anthropic.")[2]
    known = {**own, **{prefix: tokens for prefix, tokens in MINIMUM_TOKENS.items() if prefix not in own}}
    return next((tokens for prefix, tokens in known.items() if name.startswith(prefix)), DEFAULT_TOKENS)
