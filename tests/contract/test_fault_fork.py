"""A process dies, or an answer is lost, at every boundary of a conversation that is forked: both continue, or both go."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.contract.fault.driver import NOTHING, Plan, Scenario, UnsettledError
from tests.contract.fault.forked import FORKINGS, ForkingDriver, broken_fork
from tests.contract.test_fault_harness import every_plan, is_sampled
from tests.support.budget import SOAK
from tests.support.draw import share

STRIDE = 9
"""A landing plays every plan at the boundaries of the fork and of the deletion, and those at each ninth other boundary."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A run logs what goes wrong in it, and there are hundreds."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def play(scenario: Scenario, plan: Plan, *, deletes: bool) -> tuple[list[str], list[str]]:
    """Play a scenario by a plan; return its boundaries, and what is broken."""
    driver = ForkingDriver(scenario, plan, deletes=deletes)
    try:
        driver.run()
    except UnsettledError as unsettled:
        return driver.trace, [str(unsettled)]
    return driver.trace, broken_fork(driver)


@pytest.mark.parametrize("deletes", [False, True], ids=["continued", "deleted"])
@pytest.mark.parametrize("scenario", share(FORKINGS, 3), ids=lambda scenario: scenario.name)
def test_a_fork_and_its_origin_are_complete_after_a_crash_at_any_call(
    scenario: Scenario, deletes: bool
) -> None:
    trace, problems = play(scenario, NOTHING, deletes=deletes)
    assert problems == []
    assert any("in fork" in where for where in trace)
    beyond = [at for at, where in enumerate(trace) if "fork" in where or "delete" in where]
    plans = [plan for plan in every_plan(trace) if SOAK or plan.at in beyond or is_sampled(plan, trace)]
    plans = [plan for plan in plans if SOAK or plan.at in beyond or plan.at % STRIDE == 0]
    found = {(plan, trace[plan.at]): play(scenario, plan, deletes=deletes)[1] for plan in plans}
    assert {at: broken for at, broken in found.items() if broken} == {}
