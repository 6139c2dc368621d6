"""The open turns that a stage can have, and the throttles that its gateways need for them."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.local.client.pace import Pace
from stepline.model.tenancy.concurrency import (
    DOORS,
    FREE,
    GATEWAY_BURST,
    GATEWAY_REQUESTS_PER_S,
    IDLE_PING_S,
    NEW_ACCOUNT,
    PING_S,
    UNRESERVED,
    divide,
    plan_http_throttle,
    plan_socket_throttle,
)

PAGE = (Path(__file__).parents[4] / "docs/how-to/deploy.md").read_text()

executions = st.integers(min_value=1, max_value=50_000)


@pytest.mark.parametrize(("concurrency", "turns"), [(1, 1), (5, 1), (10, 6), (50, 46), (100, 96), (221, 96)])
def test_turns_leave_four_executions_free_without_reservations(concurrency, turns):
    division = divide(concurrency)
    assert (division.open_turns, division.reserved) == (turns, {})
    assert concurrency <= FREE or concurrency - turns >= FREE


@pytest.mark.parametrize(
    ("concurrency", "reserved"),
    [
        (222, {"decide": 97, "authorizer": 5, "socket": 10, "api": 10}),
        (1000, {"decide": 700, "authorizer": 20, "socket": 40, "api": 40}),
    ],
)
def test_decide_is_capped_and_entry_functions_are_reserved_if_the_quota_allows(concurrency, reserved):
    division = divide(concurrency)
    assert division.reserved == reserved
    assert division.open_turns == reserved["decide"]


def test_an_unknown_quota_is_that_of_a_new_account():
    assert divide(0) == divide(NEW_ACCOUNT)


@given(executions)
def test_more_executions_never_make_fewer_turns_or_smaller_reservations(concurrency):
    less, more = divide(concurrency), divide(concurrency + 1)
    assert less.open_turns <= more.open_turns
    assert all(more.reserved[name] >= most for name, most in less.reserved.items())


@given(executions)
def test_a_hundred_executions_are_never_reserved_since_aws_refuses_that(concurrency):
    division = divide(concurrency)
    assert not division.reserved or sum(division.reserved.values()) <= concurrency - UNRESERVED
    assert division.reserved.keys() in (set(), {"decide", *DOORS})


@given(executions)
def test_other_functions_keep_a_few_executions_before_none_are_reserved(concurrency):
    division = divide(concurrency)
    others = concurrency - sum(division.reserved.values())
    assert 1 <= division.claimed_most <= others
    assert division.reserved or division.claimed_most >= min(concurrency, division.open_turns)


@pytest.mark.parametrize(
    ("turns", "socket", "http"),
    [(6, (50, 100), (50, 100)), (96, (312, 624), (183, 366)), (700, (1313, 2626), (850, 1700))],
)
def test_gateway_throttles_fit_the_number_of_open_turns(turns, socket, http):
    for throttle, planned in ((plan_socket_throttle(turns), socket), (plan_http_throttle(turns), http)):
        assert (throttle.requests_per_s, throttle.burst) == planned


@given(executions)
def test_no_gateway_throttle_exceeds_the_quota_of_an_account(turns):
    for throttle in (plan_socket_throttle(turns), plan_http_throttle(turns)):
        assert throttle.requests_per_s <= GATEWAY_REQUESTS_PER_S
        assert throttle.requests_per_s <= throttle.burst <= GATEWAY_BURST or throttle.burst == GATEWAY_BURST


def test_clients_ping_as_often_as_the_throttle_counts():
    assert (Pace().ping_every_s, Pace().idle_ping_every_s) == (PING_S, IDLE_PING_S)


def test_the_table_of_the_scale_page_equals_the_deployed_values():
    table = PAGE.partition("| executions at once |")[2].partition("\n\n")[0].replace(",", "")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) == 7
    for concurrency, turns, reserved in rows:
        division = divide(int(concurrency))
        assert division.open_turns == int(turns)
        assert division.reserved == {name: int(most) for name, most in re.findall(r"`(\w+)` (\d+)", reserved)}


def test_the_arithmetic_of_the_page_is_that_of_the_throttles():
    for name, plan in (("websocket", plan_socket_throttle), ("HTTP", plan_http_throttle)):
        (sums,) = re.findall(rf"^\| \*\*{name} API\*\* \|.*$", PAGE, re.MULTILINE)
        written = [int(most) for most in re.findall(r"\*\*(\d+)\*\*", sums.replace(",", ""))]
        assert written == [plan(turns).requests_per_s for turns in (6, 96, 700)]
