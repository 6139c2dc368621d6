"""Receipts match the counts of AWS, invocation by invocation, over the scenarios of the fault harness, of which
a landing plays its share.

The counts of the other side come from the requests on the wire, from the definition of the state machine and from the scripted
model. A killed attempt leaves no row: its usage is only in AWS's counts, and receipts report the number of such attempts.
"""

from __future__ import annotations

import itertools
import logging
import random
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.tenancy.accounts import DynamoCosts
from stepline.model.tenancy.consumption import Consumption, add_all, count_unreported
from tests.support.aws import create_table, moto
from tests.support.budget import budget
from tests.support.draw import share
from tests.support.spoken_wire import WIRE_COLUMNS, speak_over

from .fault.billing_front import BillingFront
from .fault.driver import FAULTS, NOTHING, THENS, Driver, Plan, Scenario
from .fault.metered_simulation import FUNCTIONS, MeteredDriver
from .fault.scenario import SCENARIOS
from .fault.simulation import LANE

FIELDS = {
    "read_units_x2": "read_x2",
    "write_units": "write",
    "object_puts": "put",
    "object_gets": "get",
    "posts": "post",
    "post_bytes": "post_bytes",
}
"""A field of a receipt → the front's name of it."""
WAYS = tuple(itertools.product(FAULTS, THENS))
STATES = (*(f" in {state}:" for state in FUNCTIONS), " in start task")
KILLS = budget(1, 30)
STORED_SHARES = 5
"""More than the fault harness deals: over moto a run takes twenty times as long."""


@pytest.fixture(params=WIRE_COLUMNS, autouse=True)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The wire over which the model of a scenario is called."""
    return speak_over(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture
def name() -> Iterator[str]:
    found = f"billed-{uuid.uuid4().hex[:8]}"
    with moto():
        create_table(found)
        connect("s3", read_timeout_s=5).create_bucket(Bucket=found)
        yield found


def play(scenario: Scenario, plan: Plan, name: str) -> MeteredDriver:
    front = BillingFront()
    driver = MeteredDriver(scenario, plan, front, name)
    with front.installed(), driver.listening():
        driver.run()
    return driver


def check_receipts(driver: MeteredDriver, name: str) -> None:
    """Compare every row with what its invocation was billed, and their sum with all that was."""
    bills, reported = driver.front.bills, driver.front.rows
    rows = DynamoCosts(Table(name)).of(LANE)
    assert len(rows) == len(reported)
    for caller, row in reported.items():
        counted = {field: bills[caller][kind] for field, kind in FIELDS.items()}
        if caller not in driver.died:  # one that died after its row had counted the next state
            counted["transitions"] = driver.transitions[caller]
        assert {field: getattr(row.used, field) for field in counted} == counted, caller
    total, owed = add_all(row.used for row in rows), Counter[str]()
    for caller in bills.keys() - driver.free - (driver.died - reported.keys()):
        owed.update(bills[caller])
    assert {field: getattr(total, field) for field in FIELDS} == {
        field: owed[kind] for field, kind in FIELDS.items()
    }


def check_unreported(driver: MeteredDriver, name: str) -> None:
    """Compare the attempts that receipts miss with those that were killed before their row was put.

    One that died after its row, with its execution, cannot be distinguished from the next one.
    """
    unheard = [state for state in driver.states if state not in driver.front.rows]
    assert set(unheard) <= driver.died
    epochs = {batch.state.epoch for batch in driver.simulation.batches() if batch.state.epoch}
    late = len(driver.died & driver.front.rows.keys())
    missed = count_unreported(DynamoCosts(Table(name)).of(LANE), epochs=epochs)
    assert len(unheard) <= missed <= len(unheard) + late


def check_calls(driver: MeteredDriver) -> None:
    """Compare the calls in the log with those that the model was asked, and its tokens with theirs.

    A call that the provider refused before it read anything has no tokens, and no record.
    """
    made: Counter[tuple[int, int]] = Counter()
    lost: Counter[int] = Counter()
    for caller, stream in driver.spoken:
        done = stream.completion()
        for usage in (*(one.usage for one in done.tries), *([done.usage] if stream._sent else [])):
            if not (usage.prompt_tokens or usage.output_tokens):
                continue
            if caller in driver.died:
                lost[usage.prompt_tokens] += 1
            else:
                made[usage.prompt_tokens, usage.output_tokens] += 1
    found = Counter(
        {
            (call.usage.prompt_tokens, call.usage.output_tokens): 0
            for batch in driver.simulation.batches()
            for call in batch.calls
        }
    )
    for batch in driver.simulation.batches():
        for call in batch.calls:
            found[call.usage.prompt_tokens, call.usage.output_tokens] += call.count
    assert made - found == Counter()
    more = Counter[int]()
    for (prompt, _), count in (found - made).items():
        more[prompt] += count
    assert more - lost == Counter()


def kills(scenario: Scenario) -> list[Plan]:
    """Return faults at boundaries of the state machine's functions, another choice for each scenario."""
    trace = Driver(scenario).run().trace
    here = [at for at, boundary in enumerate(trace) if any(state in boundary for state in STATES)]
    chance = random.Random(scenario.name)
    chosen = chance.sample(here, min(KILLS, len(here)))
    ways = chance.sample(WAYS, len(WAYS))
    return [
        Plan(at=at, fault=fault, then=then)
        for at, (fault, then) in zip(chosen, itertools.cycle(ways), strict=False)
    ]


@pytest.mark.parametrize("scenario", share(SCENARIOS, STORED_SHARES), ids=lambda scenario: scenario.name)
def test_receipts_of_a_conversation_match_the_counts_of_aws_and_the_model(
    scenario: Scenario, name: str
) -> None:
    driver = play(scenario, NOTHING, name)
    check_receipts(driver, name)
    check_unreported(driver, name)
    check_calls(driver)
    assert not driver.died


@pytest.mark.parametrize("scenario", share(SCENARIOS, STORED_SHARES), ids=lambda scenario: scenario.name)
def test_receipts_say_that_they_miss_the_usage_of_a_killed_attempt(scenario: Scenario) -> None:
    for plan in kills(scenario):
        found = f"billed-{uuid.uuid4().hex[:8]}"
        with moto():
            create_table(found)
            connect("s3", read_timeout_s=5).create_bucket(Bucket=found)
            driver = play(scenario, plan, found)
            check_receipts(driver, found)
            check_unreported(driver, found)
            check_calls(driver)


def test_every_field_that_the_table_and_the_bucket_are_billed_for_is_compared() -> None:
    others = "invocations function_ms mb_ms transitions exec_ms exec_mb_ms task_ms task_vcpu_ms searches fetches embeddings"
    assert set(Consumption.__struct_fields__) == set(FIELDS) | set(others.split())
