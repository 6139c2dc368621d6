"""A process dies, or an answer is lost, at every boundary of an import: the conversation is there whole, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.contract.fault.driver import NOTHING, Plan, UnsettledError
from tests.contract.fault.moving import ImportingDriver, Whole, broken_import, whole_of
from tests.contract.test_fault_harness import every_plan, is_sampled
from tests.support.budget import SOAK
from tests.support.moved_conversation import exported, said


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A run logs what goes wrong in it, and there are hundreds."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("slow", [False, True], ids=["at once", "a batch at a time"])
def test_an_import_is_whole_or_absent_after_a_crash_at_any_call(slow: bool) -> None:
    documents = exported(said().ports)
    driver = ImportingDriver(documents, NOTHING, slow=slow).run()
    plain = whole_of(driver)
    assert broken_import(driver, plain) == []
    assert {"log.put in import", "artifacts.put in import", "memory.add in import"} <= set(driver.trace)

    def play(plan: Plan) -> list[str]:
        return problems(documents, plan, plain, slow=slow)

    plans = [plan for plan in every_plan(driver.trace) if SOAK or is_sampled(plan, driver.trace)]
    found = {(plan, driver.trace[plan.at]): play(plan) for plan in plans}
    assert {at: broken for at, broken in found.items() if broken} == {}


def problems(documents, plan: Plan, plain: Whole, *, slow: bool) -> list[str]:  # type: ignore[no-untyped-def]
    run = ImportingDriver(documents, plan, slow=slow)
    try:
        return broken_import(run.run(), plain)
    except UnsettledError as unsettled:
        return [str(unsettled)]
