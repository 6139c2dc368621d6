"""What was promised of accounts: everything spent is charged once, and nothing is held when a conversation rests."""

from __future__ import annotations

from collections.abc import Iterator
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
    for used in simulation.ports.accounts.used(SCOPES, simulation.clock.now()):
        if (used.tokens_month, used.storage_bytes) != spent:
            yield "an account that says what was not spent"
        if used.held_tokens or used.held_usd:
            yield "a hold of no round"
    if simulation.log.taken_slots(SCOPES[0]) or simulation.log.held_slots(LANE):
        yield "a slot of no turn"
