"""What was promised of accounts: everything spent is charged once, and nothing is held when a conversation rests."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from stepline.model.tenancy.limits import Limits, ScopeLimits, scopes_of
from tests.contract.fault.simulation import LANE, USER, Simulation

SCOPES: Final = scopes_of(LANE.tenant, LANE.project, USER)
LIMITED: Final = ScopeLimits(user=Limits(turns_at_once=1, tokens_day=10**9, usd_month=10**6))
"""Every round holds, every turn takes a slot, and nothing is ever refused."""


def charged(simulation: Simulation) -> Iterator[str]:
    """Yield what is charged wrong, and what is left of turns that have ended."""
    state = simulation.state
    spent = (state.input_tokens + state.output_tokens, state.stored_bytes)
    months = [simulation.ports.accounts.used(SCOPES, at) for at in _months(simulation)]
    for used in zip(*months, strict=True):
        if (sum(month.tokens_month for month in used), used[-1].storage_bytes) != spent:
            yield "an account that says what was not spent"
        if any(month.held_tokens or month.held_usd for month in used):
            yield "a hold of no round"
    if simulation.log.taken_slots(SCOPES[0]) or simulation.log.held_slots(LANE):
        yield "a slot of no turn"


def _months(simulation: Simulation) -> list[datetime]:
    """Return a time of each month since the conversation began: a long pause leads into another one."""
    now = simulation.clock.now()
    begun = (
        datetime.fromtimestamp(simulation.state.begun_ms / 1000, UTC) if simulation.state.begun_ms else now
    )
    days = range((now - begun).days + 1)
    return list({f"{at:%Y-%m}": at for at in (*(begun + timedelta(days=day) for day in days), now)}.values())
