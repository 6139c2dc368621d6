"""The allowance of a user's work: the limits of the user, the project and the tenant, and the one that is reached."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from stepline.log.bindings import Ports
from stepline.model.ids import utc
from stepline.model.tenancy.charge import NOTHING, ROUND_OUTPUT_TOKENS, Amount, nanos_of
from stepline.model.tenancy.limits import (
    Excess,
    LimitCode,
    Limits,
    LimitWindow,
    Scope,
    Used,
    day_end,
    month_end,
    overlaid,
    scopes_of,
)
from stepline.model.usage import Usage

SCARCE: Final = 100
"""The number of concurrent turns that counts as few: if a budget has room for more, they are not counted."""
HELD_S: Final = 60
"""How long to wait for rounds or uploads that hold the rest of a budget."""


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """The accounts to which work is charged, from the user's to the tenant's, and the limits of each."""

    scopes: tuple[Scope, ...]
    limits: tuple[Limits, ...]

    @property
    def has_budget(self) -> bool:
        """True if tokens, dollars or storage are limited."""
        return any(limits.has_budget for limits in self.limits)

    def pairs(self) -> Iterator[tuple[Scope, Limits]]:
        """Yield each account with its limits."""
        return zip(self.scopes, self.limits, strict=True)

    def stopped(self) -> tuple[Excess, str] | None:
        """Return that work is stopped, and the reason; None if it is not."""
        for scope, limits in self.pairs():
            if limits.stopped:
                return Excess(code="stopped", kind=scope.kind), limits.stopped
        return None


def read_allowance(ports: Ports, tenant: str, project: str, user: str) -> Allowance:
    """Return the allowance of a user's work, by one strong read. Raises DependencyError."""
    scopes, defaults = scopes_of(tenant, project, user), ports.policy.limits
    given = ports.accounts.limits(scopes)
    held = (overlaid(defaults.of(scope), one.limits) for scope, one in zip(scopes, given, strict=True))
    return Allowance(scopes=scopes, limits=tuple(held))


def read_used(ports: Ports, allowance: Allowance) -> Mapping[Scope, Used]:
    """Return the use of the accounts that have a budget, by one strong read. Raises DependencyError."""
    scopes = [scope for scope, limits in allowance.pairs() if limits.has_budget]
    return dict(zip(scopes, ports.accounts.used(scopes, ports.clock.now()), strict=True)) if scopes else {}


def find_excess(
    ports: Ports,
    allowance: Allowance,
    *,
    need: Amount = NOTHING,
    size_bytes: int = 0,
    used: Mapping[Scope, Used] | None = None,
) -> Excess | None:
    """Return the limit that leaves no room for this amount; of several, the one that lasts longest.

    An amount of zero counts as one token, one billionth and one byte, so that a reached limit is found. Storage held by
    uploads leaves no room for files, but ends no work. `used` is the accounts' usage, if it was read before. Raises
    DependencyError.
    """
    used, now = read_used(ports, allowance) if used is None else used, ports.clock.now()
    found: list[Excess] = []
    for scope, limits in allowance.pairs():
        if scope in used:
            found += _excesses(scope, limits, used[scope], now, need=need, size_bytes=size_bytes)
    return max(found, key=lambda one: one.retry_after_s or math.inf, default=None)


def _excesses(
    scope: Scope, limits: Limits, used: Used, now: datetime, *, need: Amount, size_bytes: int
) -> Iterator[Excess]:
    storage, held_bytes = limits.storage_bytes, used.held_bytes if size_bytes else 0
    if storage is not None and used.storage_bytes + max(size_bytes, 1) > storage:
        yield Excess(code="limit_storage", kind=scope.kind)
    elif storage is not None and used.storage_bytes + held_bytes + size_bytes > storage:
        yield Excess(code="limit_storage", kind=scope.kind, window="held", retry_after_s=HELD_S)
    for code, window, limit, spent, held, wanted in _budgets(limits, used, need):
        if spent + held + wanted <= limit:
            continue
        if spent + wanted <= limit:
            yield Excess(code=code, kind=scope.kind, window="held", retry_after_s=HELD_S)
        else:
            end = day_end(now) if window == "day" else month_end(now)
            left_s = max(1, math.ceil((end - now).total_seconds()))
            yield Excess(code=code, kind=scope.kind, window=window, retry_after_s=left_s)


def _budgets(
    limits: Limits, used: Used, need: Amount
) -> Iterator[tuple[LimitCode, LimitWindow, int, int, int, int]]:
    """Yield the budgets that are set: code, time, limit, the amounts spent and held, and the amount wanted."""
    tokens, nanos = max(need.tokens, 1), max(need.nanos, 1)
    held_nanos = nanos_of(used.held_usd) or 0
    rows: tuple[tuple[LimitCode, LimitWindow, int | None, int, int, int], ...] = (
        ("limit_tokens", "day", limits.tokens_day, used.tokens_day, used.held_tokens, tokens),
        ("limit_tokens", "month", limits.tokens_month, used.tokens_month, used.held_tokens, tokens),
        ("limit_usd", "day", nanos_of(limits.usd_day), nanos_of(used.usd_day) or 0, held_nanos, nanos),
        ("limit_usd", "month", nanos_of(limits.usd_month), nanos_of(used.usd_month) or 0, held_nanos, nanos),
    )
    for code, window, limit, spent, held, wanted in rows:
        if limit is not None:
            yield code, window, limit, spent, held, wanted


def least_round(ports: Ports) -> Amount:
    """Return the minimum hold of a turn's first round: its output, at the price of the cheapest model here."""
    policy, at = ports.policy, utc(ports.clock.now())
    usage = Usage(output_tokens=ROUND_OUTPUT_TOKENS)
    prices = (policy.prices.nanos(model, usage, at) or 0 for model in policy.models.values())
    return Amount(tokens=ROUND_OUTPUT_TOKENS, nanos=min(prices, default=0))


def turns_within(scope: Scope, limits: Limits, used: Used, need: Amount) -> tuple[int, Excess] | None:
    """Return how many concurrent turns an account's budgets have room for, if they are few, and the limit that decides.

    An open turn counts by the amount that its round holds, or will hold; held amounts therefore belong to open turns.
    """
    rooms = [
        (
            max(0, limit - spent) // wanted,
            Excess(code=code, kind=scope.kind, window="held", retry_after_s=HELD_S),
        )
        for code, _, limit, spent, _, wanted in _budgets(limits, used, need)
    ]
    least = min(rooms, key=lambda room: room[0], default=None)
    return least if least is not None and least[0] < SCARCE else None


def render_left(allowance: Allowance, used: tuple[Used, ...]) -> str:
    """Return the line that shows the model the rest of its budgets; "" if it has none.

    `used` is the usage of each account, in order.
    """
    tokens: list[tuple[int, str]] = []
    nanos: list[tuple[int, str]] = []
    for limits, spent in zip(allowance.limits, used, strict=True):
        for limit, has, when in (
            (limits.tokens_day, spent.tokens_day, "today"),
            (limits.tokens_month, spent.tokens_month, "this month"),
        ):
            if limit is not None:
                tokens.append((max(0, limit - has), when))
        for usd, has_usd, when in (
            (limits.usd_day, spent.usd_day, "today"),
            (limits.usd_month, spent.usd_month, "this month"),
        ):
            if usd is not None:
                nanos.append((max(0, (nanos_of(usd) or 0) - (nanos_of(has_usd) or 0)), when))
    said = []
    if tokens:
        left, when = min(tokens)
        said.append(f"{left} tokens {when}")
    if nanos:
        left, when = min(nanos)
        said.append(f"{left / 1_000_000_000:.2f} US dollars {when}")
    return f"budget left: {', '.join(said)}; end in time" if said else ""
