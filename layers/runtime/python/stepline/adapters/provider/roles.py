"""The model of each role, the limits of a call, and the waits between its attempts: values and pure functions."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

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
from stepline.ports.model import DEFAULT_ROLE, RoleChoice

RETRIED: Final = (
    ModelOverloaded,
    ModelRateLimited,
    ModelUnreachable,
    ModelTimeout,
    ModelStreamBroken,
    DependencyError,
)

_random = random.SystemRandom()


class Retry(Value):
    """Full jitter: wait a random time up to `base_s`·2ⁿ, at most `cap_s`.

    No attempt begins later than `budget_s` after the first, nor after a requested wait longer than
    `retry_after_max_s`: Step Functions, which waits for free, retries then.
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


def plan_roles(default_model: str, chosen: Mapping[str, RoleChoice]) -> dict[str, RoleChoice]:
    """Return the roles of a deployment; `*` is always included, and its model serves roles that name none."""
    choices = {DEFAULT_ROLE: RoleChoice(), **chosen}
    default = replace(choices[DEFAULT_ROLE], model=choices[DEFAULT_ROLE].model or default_model)
    return {
        role: choice if choice.model else replace(choice, model=default.model, family=default.family)
        for role, choice in choices.items()
    }


def fall_back(role: RoleChoice) -> RoleChoice:
    """Return the role with its fallback in place of its model, and the defaults of the fallback's family."""
    model, family = (role.fallback, role.fallback_family) if role.fallback else (role.model, role.family)
    return RoleChoice(model=model, family=family, max_tokens=role.max_tokens, cache_ttl=role.cache_ttl)


def draw_wait_s(retry: Retry, error: SteplineError, *, attempt: int, elapsed_s: float) -> float | None:
    """Draw the seconds to wait before the attempt after `attempt` (from 0); None to give up."""
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
