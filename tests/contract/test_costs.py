import pytest
from msgspec.structs import replace

from stepline.adapters.aws.metering.item_size import item_bytes, write_units
from stepline.adapters.aws.table import cost_pk
from stepline.model.tenancy.consumption import Consumption, InvocationCost

FIRST = InvocationCost(
    turn="turn_1",
    function="decide",
    at="2026-11-26T00:00:00.000Z",
    used=Consumption(invocations=1, function_ms=1200, mb_ms=614_400, transitions=2, write_units=3),
    epoch=1,
    visit=0,
    route="close",
)
SECOND = replace(FIRST, function="close", at="2026-11-26T00:00:02.000Z", visit=1, route="done")
ELSEWHERE = InvocationCost(
    turn="", function="api", at="2026-11-26T00:00:01.000Z", used=Consumption(invocations=1)
)


def seen(rows):
    return [(row.turn, row.function, row.epoch, row.visit, row.route) for row in rows]


@pytest.fixture
def kept(backend, lane):
    for cost in (SECOND, FIRST, ELSEWHERE):
        backend.costs.put(lane, cost)
    return backend.costs


def test_rows_come_back_oldest_first(kept, lane):
    assert seen(kept.of(lane)) == seen([FIRST, ELSEWHERE, SECOND])


def test_the_rows_of_a_turn_are_found_alone(kept, lane):
    assert seen(kept.of(lane, turn="turn_1")) == seen([FIRST, SECOND])
    assert seen(kept.of(lane, turn="")) == seen([ELSEWHERE])
    assert not kept.of(lane, turn="turn_10")


def test_two_invocations_that_end_at_once_have_a_row_each(backend, lane):
    for _ in range(2):
        backend.costs.put(lane, FIRST)
    assert len(backend.costs.of(lane)) == 2


def test_each_conversation_has_separate_costs(kept, lane):
    assert kept.of(replace(lane, conversation=f"{lane.conversation}0")) == []


def test_a_row_counts_the_write_by_which_it_is_put(aws, lane):
    aws.ledger.begin(0)
    aws.costs.put(lane, FIRST)
    (row,) = aws.costs.of(lane)
    assert row.used.write_units == FIRST.used.write_units + 1
    (item,) = aws.table.query("pk = :pk", {":pk": {"S": cost_pk(lane)}})
    assert write_units(item_bytes(item)) == 1
