"""The arguments of a model call: the model of a role, the request, and the waits between tries.

Values and pure functions. A family's defaults are in the table of `family`.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import asdict

from stepline.adapters.anthropic.family import ABOVE_HIGH, UNKNOWN, Family, family_of
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
from stepline.model.decision import Declined
from stepline.model.file.mime import PICTURES
from stepline.model.shorten import shorten
from stepline.ports.model import CacheTtl, Content, Effort, Media, ModelRequest, RoleChoice

Provider: TypeAlias = Literal["anthropic", "bedrock"]

DEFAULT_ROLE: Final = "*"
DEFAULT_MODELS: Final = {"anthropic": "claude-sonnet-5-5", "bedrock": "global.anthropic.claude-sonnet-5-5"}
OLDER_BEDROCK: Final = "bedrock-2023-05-31"
"""The API version of Bedrock's older models; the SDK sends 2026-10-21 to all, which those refuse."""
SMALL_TOKENS: Final = 4_096
"""An answer up to this size is not worth much thinking: a title, a summary, the end of a steered turn."""
ROOM_TOKENS: Final[Mapping[Effort, int]] = MappingProxyType(
    {"low": 4_096, "medium": 8_192, "high": 16_384, "xhigh": 32_768, "max": 32_768}
)
"""Tokens for thinking, by effort, beside those of the text. Only what is used is paid for, but Bedrock counts
`max_tokens` against the account's quota while a call runs."""
EXPLANATION_CHARS: Final = 2_000
"""Kept characters of a provider's explanation."""
RETRIED: Final = (
    ModelOverloaded,
    ModelRateLimited,
    ModelUnreachable,
    ModelTimeout,
    ModelStreamBroken,
    DependencyError,
)

_random = random.SystemRandom()


class ModelRole(RoleChoice):
    """The model that serves a role, and how it is asked."""

    provider: Provider = "anthropic"


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


def plan_roles(provider: Provider, chosen: Mapping[str, RoleChoice]) -> dict[str, ModelRole]:
    """Return the roles of a deployment; `*` is always included, and its model serves those that name none."""
    choices = {DEFAULT_ROLE: RoleChoice(), **chosen}
    default = choices[DEFAULT_ROLE].model or DEFAULT_MODELS[provider]
    return {
        role: ModelRole(**{**asdict(choice), "model": choice.model or default}, provider=provider)
        for role, choice in choices.items()
    }


def fall_back(role: ModelRole) -> ModelRole:
    """Return the role with its fallback in the place of its model, asked as that model's family is."""
    return ModelRole(
        model=role.fallback or role.model,
        max_tokens=role.max_tokens,
        cache_ttl=role.cache_ttl,
        provider=role.provider,
    )


def read_declined(category: str, explanation: str, role: ModelRole) -> Declined:
    """Return the refusal that an answer ended with.

    Source: platform.claude.com, "Stop reasons and fallback".
    """
    return Declined(
        category=category,
        explanation=shorten(explanation, EXPLANATION_CHARS),
        fallback=bool(role.fallback),
    )


def plan_call(request: ModelRequest, role: ModelRole) -> dict[str, Any]:
    """Return the SDK's arguments for a request: one system list, one user message, and its cache marks.

    The request's `max_tokens` is what its text may have; room for thinking that cannot be switched off is
    added. `extra_body` holds what only Bedrock takes, for models served under an older API version.
    """
    family = family_of(role.model)
    plan = plan_thinking(role, family, request.max_tokens)
    limits = (request.max_tokens + plan.room_tokens, role.max_tokens, family.output_tokens)
    call: dict[str, Any] = {
        "model": role.model,
        "max_tokens": min(limit for limit in limits if limit),
        "messages": [{"role": "user", "content": _blocks(request.content, role.cache_ttl)}],
        "stream": True,
    }
    if system := _blocks(request.system, role.cache_ttl):
        call["system"] = system
    if plan.thinking:
        call["thinking"] = dict(plan.thinking)
    if plan.effort:
        call["output_config"] = {"effort": plan.effort}
    if role.provider == "bedrock" and family.older:
        call["extra_body"] = {"anthropic_version": OLDER_BEDROCK}
        if request.temperature is not None and not plan.room_tokens:
            call["extra_body"]["temperature"] = request.temperature
    return call


class ThinkingPlan(Value):
    """The fields of a call that steer thinking, and the tokens it may have beside those of the text."""

    thinking: Mapping[str, str | int] = MappingProxyType({})
    effort: Effort | None = None
    room_tokens: int = 0


def plan_thinking(role: ModelRole, family: Family, text_tokens: int) -> ThinkingPlan:
    """Return how a role's model thinks about an answer of `text_tokens`.

    It does not, where its family can switch that off and the role chose nothing else: the protocol has a
    thinking of its own, which users see while it is written, and for which they would wait twice. Where it
    cannot be switched off, a small answer has low effort. An effort above `high` was chosen to think.
    """
    if isinstance(role.thinking, int):
        budget: dict[str, str | int] = {"type": "enabled", "budget_tokens": role.thinking}
        return ThinkingPlan(thinking=budget, effort=role.effort, room_tokens=role.thinking)
    kind = role.thinking or (None if role.effort in ABOVE_HIGH else family.off)
    sent: dict[str, str | int] = {"type": kind} if kind else {}
    if kind != "adaptive" and (kind or not family.thinks):
        return ThinkingPlan(thinking=sent, effort=role.effort)
    small = text_tokens <= SMALL_TOKENS and role.thinking is None and "low" in family.efforts
    effort = role.effort or ("low" if small else None)
    return ThinkingPlan(thinking=sent, effort=effort, room_tokens=ROOM_TOKENS[effort or family.effort])


def find_refusals(role: ModelRole) -> list[str]:
    """Return the choices for a role that its model refuses, a sentence each."""
    family, name, thinking = family_of(role.model), role.model, role.thinking
    if family is UNKNOWN:
        return []
    found = []
    if isinstance(thinking, int) and not family.budget:
        found.append(f"{name} takes no budget for thinking")
    elif isinstance(thinking, int) and role.max_tokens and role.max_tokens <= thinking:
        found.append(f"max_tokens of {role.max_tokens} leaves no room behind a budget of {thinking}")
    elif isinstance(thinking, str) and thinking not in family.thinking:
        takes = ", ".join(family.thinking) or "a budget in tokens"
        found.append(f"{name} refuses thinking {thinking}; it takes {takes}")
    if role.effort and role.effort not in family.efforts:
        found.append(f"{name} refuses effort {role.effort}; it takes {', '.join(family.efforts) or 'none'}")
    elif role.effort in ABOVE_HIGH and family.capped and thinking in ("disabled", "between_tools"):
        found.append(f"{name} refuses effort {role.effort} with thinking {thinking}")
    if family.output_tokens and (role.max_tokens or 0) > family.output_tokens:
        found.append(f"max_tokens of {role.max_tokens} is above the {family.output_tokens} of {name}")
    return found


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


def _blocks(parts: Sequence[Content], ttl: CacheTtl) -> list[dict[str, Any]]:
    """Return content blocks; blank texts are left out, since the provider refuses them.

    Source: platform.claude.com, "Vision", "PDF support". Bedrock takes the same blocks, with base64 alone.
    """
    mark = {"cache_control": {"type": "ephemeral", **({"ttl": ttl} if ttl != "5m" else {})}}
    return [
        _file(part)
        if isinstance(part, Media)
        else {"type": "text", "text": part.text, **(mark if part.cache else {})}
        for part in parts
        if isinstance(part, Media) or part.text.strip()
    ]


def _file(part: Media) -> dict[str, Any]:
    data, mime = base64.b64encode(part.data).decode("ascii"), part.body.mime
    source = {"type": "base64", "media_type": mime, "data": data}
    return {"type": "image" if mime in PICTURES else "document", "source": source}
