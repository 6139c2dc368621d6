"""A process dies, or an answer is lost, at every boundary of a conversation that is deleted: only its tombstone is left."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.contract.fault.deleted import DELETIONS, DeletingDriver, broken_deletion
from tests.contract.fault.driver import NOTHING, Plan, Scenario, UnsettledError
from tests.contract.fault.scenario import SHARES
from tests.contract.test_fault_harness import every_plan, is_sampled
from tests.support.budget import SOAK
from tests.support.draw import share


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A run logs what goes wrong in it, and there are hundreds."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def play(scenario: Scenario, plan: Plan) -> tuple[list[str], list[str]]:
    """Play a scenario by a plan; return its boundaries, and what is broken."""
    driver = DeletingDriver(scenario, plan)
    try:
        driver.run()
    except UnsettledError as unsettled:
        return driver.trace, [str(unsettled)]
    return driver.trace, broken_deletion(driver)


@pytest.mark.parametrize("scenario", share(DELETIONS, SHARES), ids=lambda scenario: scenario.name)
def test_a_deletion_is_complete_after_a_crash_at_any_call(scenario: Scenario) -> None:
    trace, problems = play(scenario, NOTHING)
    assert problems == []
    plans = [plan for plan in every_plan(trace) if SOAK or is_sampled(plan, trace)]
    found = {(plan, trace[plan.at]): play(scenario, plan)[1] for plan in plans}
    assert {at: broken for at, broken in found.items() if broken} == {}
