"""The exact rows of the bench that are cheap to count, each held to its line in `bench/budget.py`."""

from __future__ import annotations

import pytest

from bench import imports, pages, parked, reads, resume, rounds, store, stream, trips, turn_cost
from bench.budget import BUDGETS, Budget, off_budget
from bench.row import METRICS, Row
from stepline.loop.graph import count_transitions

SWEEPS = 12
"""An hour of the parked day."""


def transitions():
    count = count_transitions("Decide", "act") + count_transitions("Act", "decide")
    return [Row(metric="transitions_per_tool_round", value=count, unit="transitions")]


COUNTED = {
    "round": lambda: store.rows(store.FEW_BLOCKS),
    "bytes": resume.few_rows,
    "stream": stream.rows,
    "turn": turn_cost.rows,
    "transitions": transitions,
    "reads": lambda: reads.rows(reads.SIZES[:2]),
    "parked": lambda: parked.rows(SWEEPS),
    "pages": pages.few_rows,
    "recorded": rounds.rows,
    "trips": trips.rows,
    "modules": imports.module_rows,
}
FEW = {f"page_calls_{page}_{pages.FEW_BLOCKS}" for page in ("list", "events", "fetch")}


@pytest.mark.parametrize("counted", COUNTED)
def test_an_exact_row_keeps_its_budget(counted):
    rows = COUNTED[counted]()
    assert rows
    assert {row.metric for row in rows} <= BUDGETS.keys()
    assert off_budget(rows) == []


def test_every_budget_is_of_a_row_that_is_measured():
    assert BUDGETS.keys() - FEW <= {metric for listed in METRICS.values() for metric in listed}


@pytest.mark.parametrize(
    ("value", "off"), [(101, True), (100, False), (99, False), (98.9, True), (None, False)]
)
def test_a_row_is_off_above_its_budget_and_more_than_the_slack_below(monkeypatch, value, off):
    monkeypatch.setitem(BUDGETS, "calls_per_round_warm", Budget(100, slack=0.01))
    found = off_budget([Row(metric="calls_per_round_warm", value=value, unit="calls")])
    assert bool(found) is off
    assert all("bench/budget.py" in sentence for sentence in found)


def test_a_row_without_a_budget_is_not_held_to_one():
    assert off_budget([Row(metric="web_fetch_ms", value=1e9, unit="ms")]) == []


def test_the_goal_of_a_row_is_its_budget_unless_a_lower_one_is_not_reached_yet():
    assert Budget(7).aim == 7
    assert Budget(7, goal=4).aim == 4
