"""The form of the results and the check that none is missing; the measured values are not tested."""

from __future__ import annotations

import json

from bench.row import METRICS, Limit, Row, missing, render_table, write_results
from stepline.adapters.aws.metering.item_size import item_bytes

LISTED = [metric for topic in METRICS.values() for metric in topic]
FIELDS = {"metric", "value", "unit", "peers", "limit", "goal", "met"}


def a_row(**fields):
    return Row(**{"metric": "splitter_mb_s_8", "value": 24.0, "unit": "MB/s"} | fields)


def test_a_goal_of_a_speed_is_a_least_value():
    assert a_row(goal=24.0).met is True
    assert a_row(goal=24.1).met is False


def test_a_goal_of_anything_else_is_a_most_value():
    assert a_row(unit="ms CPU", goal=24.0).met is True
    assert a_row(unit="ms CPU", goal=23.9).met is False


def test_a_goal_may_be_a_multiple_of_the_limit_of_the_same_run():
    limit = Limit("find", 30.0)
    assert a_row(limit=limit, goal_times=1.25).met is True  # 24 MB/s, and 30 / 1.25 at least
    assert a_row(limit=limit, goal_times=1.2).met is False
    assert a_row(unit="ms CPU", limit=limit, goal_times=0.8).met is True
    assert a_row(unit="ms CPU", limit=limit, goal_times=0.75).met is False
    assert a_row(limit=None, goal_times=1.2).met is None
    assert "≥ 24 (1.25 x limit)" in render_table([a_row(limit=limit, goal_times=1.25)])


def test_without_a_goal_nothing_is_met_or_missed():
    assert a_row().met is None


def test_an_unmeasured_row_misses_no_goal_and_shows_its_reason():
    row = a_row(value=None, goal=24.0, note="not measured: no Docker")
    assert row.met is None
    assert "none" in render_table([row])
    assert "NOT MET" not in render_table([row])
    assert "no Docker" in render_table([row])


def test_a_row_is_written_with_every_field_it_has_or_lacks(tmp_path):
    path = tmp_path / "results.json"
    write_results([a_row(), a_row(limit=Limit("find", 30.0), peers={"regex": 8.0}, goal=20.0)], path)
    bare, full = json.loads(path.read_text(encoding="utf-8"))
    assert bare.keys() >= FIELDS
    assert (bare["peers"], bare["limit"], bare["goal"], bare["met"]) == ({}, None, None, None)
    assert full["peers"] == {"regex": 8.0}
    assert full["limit"] == {"name": "find", "value": 30.0}
    assert full["met"] is True


def test_every_required_metric_without_a_row_is_missing():
    assert missing([]) == LISTED
    assert missing([a_row(metric=name) for name in LISTED]) == []
    assert missing([a_row(metric=name) for name in LISTED if name != "wru_per_round"]) == ["wru_per_round"]


def test_a_topic_alone_misses_its_own_metrics():
    assert missing([a_row(metric="calls_per_round_warm")], ["store"]) == [
        "calls_per_round_cold",
        "wru_per_round",
    ]


def test_the_list_names_each_metric_once():
    assert len(set(LISTED)) == len(LISTED)


def test_the_table_says_which_goals_are_met_and_keeps_its_columns():
    table = render_table(
        [
            a_row(goal=20.0),
            a_row(metric="resume_cpu_ms_5000", value=40.5, unit="ms CPU", goal=15.5, note="on SQLite"),
        ]
    ).splitlines()
    assert "≥ 20" in table[1]
    assert "NOT MET" not in table[1]
    assert "≤ 15.5" in table[2]
    assert "NOT MET" in table[2]
    assert table[1].index("MB/s") == table[2].index("ms CPU")
    assert table[-1] == "resume_cpu_ms_5000: on SQLite"


def test_an_item_counts_its_names_its_text_and_its_bytes():
    assert item_bytes({"pk": {"S": "größe"}, "body": {"B": b"12345"}}) == 2 + 7 + 4 + 5
