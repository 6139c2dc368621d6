"""An ordinary turn's cost: its parts are the measured usage, and the other costs use the same counts."""

import math
import re

import pytest

from bench.ordinary_turn import ROUNDS, STREAM_S, measure
from bench.paced import stream_for
from bench.turn_cost import BOUND, FUNCTIONS, TURNS, beside, parts, price, price_asked, rows
from docs.build import DOCS
from stepline.adapters.relay import FIRST_S, POST_FIRST_S, POST_LATER_S, STORE_S
from stepline.model.tenancy.aws_price import UNITS
from stepline.model.tenancy.consumption import Consumption


@pytest.fixture(scope="module")
def turn():
    return measure()


@pytest.fixture(scope="module")
def found(turn):
    return {part.name: part.usd for part in parts(turn)}


def test_a_turn_is_one_message_and_the_states_of_its_rounds(turn):
    assert [call.function for call in turn.calls] == ["socket", "decide", "act", "decide", "close"]
    assert set(FUNCTIONS) == {call.function for call in turn.calls}
    assert turn.starts == 1


def test_every_unit_of_the_table_has_its_partition(turn):
    for call in turn.calls:
        assert sum(touch.units for touch in call.touches if touch.is_write) == call.bill["write"]
        assert 2 * sum(touch.units for touch in call.touches if not touch.is_write) == call.bill["read_x2"]


def test_an_open_turn_is_in_the_index_of_open_lanes_until_its_end(turn):
    first, *between, last = turn.calls
    marked = [[touch.units for touch in call.touches if touch.index_name == "GSI3"] for call in (first, last)]
    assert marked == [[2], [1]]
    assert not [touch for call in between for touch in call.touches if touch.index_name == "GSI3"]


def test_everything_that_a_receipt_prices_is_in_a_part(turn, found):
    priced = {
        "table, written": turn.total("write") * UNITS["write unit"].usd,
        "table, read": turn.total("read_x2") / 2 * UNITS["read unit"].usd,
        "posts of events": turn.total("post") * UNITS["post"].usd,
        "states of the machine": turn.transitions * UNITS["transition"].usd,
        "objects": turn.total("put") * UNITS["S3 put"].usd + turn.total("get") * UNITS["S3 get"].usd,
    }
    assert {name: found[name] for name in priced} == pytest.approx(priced)
    assert all(usd > 0 for usd in found.values())
    unpriced = {"searches", "fetches", "embeddings", "post_bytes", "function_ms", *_tasks()}
    counted = {
        "invocations",
        "mb_ms",
        "transitions",
        "read_units_x2",
        "write_units",
        "object_puts",
        "object_gets",
        "posts",
    }
    assert counted == set(Consumption.__struct_fields__) - unpriced


def _tasks():
    return (name for name in Consumption.__struct_fields__ if name.startswith(("exec_", "task_")))


def test_the_relay_posts_and_stores_a_stream_at_its_own_pace(turn):
    assert turn.stream == stream_for(STREAM_S)
    assert turn.stream.posts == round(FIRST_S / POST_FIRST_S + (STREAM_S - FIRST_S) / POST_LATER_S)
    assert turn.stream.rows == math.ceil(STREAM_S / STORE_S) - 1  # the decision holds the last


def test_a_second_device_costs_its_posts(turn):
    both = measure(devices=2)
    shown = 2 * turn.stream.posts * ROUNDS
    posts = {part.name: part.much for part in parts(both)}
    assert posts["posts of running text"] == f"{shown} frames"
    more = (both.total("post") - turn.total("post") + shown / 2) * UNITS["post"].usd
    assert price(both) - price(turn) == pytest.approx(more, rel=0.05)


def test_a_limit_costs_holds_and_charges(turn):
    limited = measure(limited=True)
    kinds = [
        {touch.partition.partition("#")[0] for call in one.calls for touch in call.touches}
        for one in (turn, limited)
    ]
    assert kinds[1] - kinds[0] == {"SLOT"}
    assert price(limited) > price(turn)


def test_a_bound_of_the_stage_costs_the_writes_of_a_slot(turn):
    bound = measure(open_turns=BOUND)
    places = [
        touch.units
        for call in (bound.calls[0], bound.calls[-1])
        for touch in call.touches
        if touch.is_write and touch.partition.startswith("SLOT#")
    ]
    assert places == [2, 2]
    assert price(bound) > price(turn)


def test_an_idle_client_costs_its_minutes_and_its_pings(turn):
    (ping,) = [one for one in beside(turn) if one.name.endswith("its pings")]
    assert turn.ping.bill["post"] == 1
    assert "write" not in turn.ping.bill
    assert ping.usd == pytest.approx(730 * 15 * price_asked(turn.ping))


def test_the_bench_row_has_the_parts_of_the_page(turn):
    (row,) = rows()
    assert row.value == pytest.approx(sum(row.peers.values()), abs=0.001)
    page = (DOCS / "reference/cost.md").read_text()
    said = dict(re.findall(r"^\| ([^|]+) \| [^|]+ \| ([\d.]+) \|$", page, re.MULTILINE))
    assert {name.replace("`", ""): float(usd) for name, usd in said.items()} == row.peers
    assert row.value == round(price(turn) * TURNS, 4)
