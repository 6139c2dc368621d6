from msgspec.structs import replace

from stepline.model.tenancy.aws_price import UNITS, price_consumption, sum_lines
from stepline.model.tenancy.consumption import Consumption, InvocationCost, add_all, count_unreported


def cost(function, visit, *, attempt=0, route="decide", lost=0, epoch=1):
    at = f"2026-11-26T00:00:{visit:02}.{attempt:03}Z"
    return InvocationCost(
        turn="turn_1",
        function=function,
        at=at,
        used=Consumption(invocations=1),
        epoch=epoch,
        visit=visit,
        attempt=attempt,
        route=route,
        lost=lost,
    )


DECIDED = cost("decide", 0, route="act")
ACTED = cost("act", 1, route="decide")
ANSWERED = cost("decide", 2, route="close")
CLOSED = cost("close", 3, route="done")
TURN = [DECIDED, ACTED, ANSWERED, CLOSED]


def test_counts_are_added_field_by_field():
    rows = [Consumption(invocations=1, mb_ms=512), Consumption(invocations=1, read_units_x2=3)]
    assert add_all(rows) == Consumption(invocations=2, mb_ms=512, read_units_x2=3)
    assert add_all([]) == Consumption()


def test_no_attempt_is_unreported_if_every_attempt_of_a_turn_reported():
    assert count_unreported(TURN, epochs=[1]) == 0


def test_a_retry_shows_the_unreported_attempts_before_it():
    assert count_unreported([replace(DECIDED, attempt=2), *TURN[1:]]) == 2


def test_an_attempt_that_failed_and_reported_is_not_missed():
    failed = replace(DECIDED, route="")
    assert count_unreported([failed, replace(DECIDED, attempt=1), *TURN[1:]]) == 0


def test_an_invocation_that_was_repeated_is_one_attempt():
    assert count_unreported([DECIDED, *TURN]) == 0


def test_a_visit_without_a_row_is_missed():
    assert count_unreported([DECIDED, ANSWERED, CLOSED]) == 1


def test_lost_attempts_are_counted_by_the_state_that_caught_them():
    caught = cost("close", 0, route="done", lost=3)
    assert count_unreported([caught]) == 3
    assert count_unreported([replace(DECIDED, route="", attempt=1), caught]) == 3


def test_an_execution_that_ended_during_its_turn_has_an_unreported_invocation():
    again = [replace(row, epoch=7) for row in TURN]
    assert count_unreported([DECIDED, *again], epochs=[1, 7]) == 1
    assert count_unreported(again, epochs=[1, 7]) == 1


def test_a_running_execution_has_no_unreported_attempt():
    assert count_unreported([DECIDED], epochs=[1], running=1) == 0
    assert count_unreported([replace(TURN[0], turn="", epoch=0)], epochs=[1], running=1) == 0


def test_turns_outside_functions_have_no_unreported_attempt():
    assert count_unreported([], epochs=[1, 5]) == 0


def test_no_unreported_attempt_is_assumed_after_a_failed_attempt():
    assert count_unreported([*TURN[:3], replace(CLOSED, route="")]) == 0
    assert count_unreported([DECIDED, replace(ACTED, route="")], epochs=[1]) == 0


def test_each_unit_that_was_used_has_a_line_and_its_list_price():
    used = Consumption(invocations=2, mb_ms=1024 * 1000, read_units_x2=3, write_units=4, object_puts=1)
    lines = {line.what: line for line in price_consumption(used)}
    assert {name: line.quantity for name, line in lines.items()} == {
        "function call": 2,
        "function time": 1,
        "read unit": 1.5,
        "write unit": 4,
        "S3 put": 1,
    }
    assert lines["function time"].nanos == round(UNITS["function time"].usd * 1_000_000_000)
    assert sum_lines(tuple(lines.values())) == sum(line.nanos for line in lines.values())


def test_a_price_of_the_deployment_overrides_that_of_the_table():
    used = Consumption(searches=2, posts=1_000)
    assert {line.what: line.nanos for line in price_consumption(used)} == {"post": 1_000_000, "search": 0}
    priced = price_consumption(used, {"search": 0.005, "post": 0.0})
    assert {line.what: line.nanos for line in priced} == {"post": 0, "search": 10_000_000}
