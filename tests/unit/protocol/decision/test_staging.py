"""What a decision stages for the next round: paths and skills, in the layout `journal` only."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.protocol.decision.read import RoundVerdict
from stepline.protocol.decision.staging import STAGED_MAX, name_artifact
from tests.unit.protocol.decision.read_generation import (
    FANOUT,
    codes,
    complete,
    generation,
    judge,
    plan,
    ran,
    read,
    search,
    write,
)

TURN = "turn_20261121T101500_ab12cd"
CHART, TABLE = f"fi:{TURN}.outputs/chart.png", f"fi:{TURN}.outputs/table.csv"


def staged(*decisions: Any, **rules: Any) -> RoundVerdict:
    return judge(generation(*decisions), stage=name_artifact, **rules)


def test_a_call_stages_paths_and_skills_in_their_order_and_each_once():
    verdict = staged(read("a", show_artifacts=[CHART, TABLE, CHART], show_skills=["lab.charts"]))
    assert (verdict.show_artifacts, verdict.show_skills) == ((CHART, TABLE), ("lab.charts",))
    assert (codes(verdict), ran(verdict)) == ([], ["react.read"])


@pytest.mark.parametrize(
    "written", ["so:sources_pool[1,3-5]", "sources_pool[1,3-5]", " sources_pool[1,3-5] "]
)
def test_rows_of_the_pool_may_be_named_without_their_family(written: str):
    assert staged(read("a", show_artifacts=[written])).show_artifacts == ("so:sources_pool[1,3-5]",)


@pytest.mark.parametrize("written", ["lab.charts", "sk:lab.charts", " sk:lab.charts"])
def test_a_skill_is_named_by_its_id_or_its_path(written: str):
    assert staged(read("a", show_skills=[written])).show_skills == ("lab.charts",)


@pytest.mark.parametrize("value", [None, [], ""])
def test_an_empty_field_stages_nothing(value: Any):
    verdict = staged(read("a", show_artifacts=value, show_skills=value))
    assert (verdict.show_artifacts, verdict.show_skills, codes(verdict)) == ((), (), [])


@pytest.mark.parametrize(
    "bad", ["../../etc/passwd", "nowhere", "fi:", 7, {"path": CHART}, ["x"], "x" * 5_000]
)
def test_an_invalid_path_costs_a_notice_and_the_rest_counts(bad: Any):
    verdict = staged(read("a", show_artifacts=[CHART, bad]))
    assert (verdict.show_artifacts, ran(verdict)) == ((CHART,), ["react.read"])
    (notice,) = verdict.notices
    assert (notice.code, notice.extra) == ("staging_invalid", {"field": "show_artifacts", "dropped": 1})
    assert len(notice.message) < 900


@pytest.mark.parametrize("bad", ["", "a b", "sk:", 7, "fi:x"])
def test_an_invalid_skill_costs_a_notice(bad: Any):
    verdict = staged(read("a", show_skills=["lab.charts", bad]))
    assert (verdict.show_skills, codes(verdict)) == (("lab.charts",), ["staging_invalid"])


def test_a_path_that_is_not_in_a_list_counts_as_one():
    assert staged(read("a", show_artifacts=CHART)).show_artifacts == (CHART,)


def test_a_round_stages_a_limited_number_and_reports_the_rest():
    many = [f"fi:{TURN}.outputs/{n}.csv" for n in range(STAGED_MAX + 2)]
    verdict = staged(read("a", show_artifacts=many))
    assert verdict.show_artifacts == tuple(many[:STAGED_MAX])
    assert [(one.code, one.extra["dropped"]) for one in verdict.notices] == [("staging_too_many", 2)]


def test_an_answer_stages_nothing_and_still_counts():
    verdict = staged(complete("Done.", show_artifacts=[CHART], show_skills=["lab.charts"]))
    assert (verdict.accepted, verdict.show_artifacts, verdict.show_skills) == (True, (), ())
    assert codes(verdict) == ["staging_with_answer"]


def test_a_round_without_a_call_stages_nothing():
    verdict = staged({"action": "call_tool", "show_artifacts": [CHART]})
    assert (verdict.accepted, verdict.show_artifacts) == (False, ())
    assert codes(verdict) == ["missing_tool_id"]


def test_a_refused_call_stages_nothing():
    verdict = staged(write(path="a", other=1) | {"show_artifacts": [CHART]})
    assert (verdict.accepted, verdict.show_artifacts) == (False, ())


def test_several_decisions_of_a_round_stage_together_and_within_the_same_bound():
    first = [f"fi:{TURN}.outputs/{n}.csv" for n in range(STAGED_MAX - 1)]
    verdict = staged(
        search("a") | {"show_artifacts": first},
        read("b", show_artifacts=[first[0], CHART, TABLE], show_skills=["lab.charts"]),
        plan("c", show_skills=["lab.charts", "lab.tables"]),
        fanout=FANOUT,
    )
    assert ran(verdict) == ["web_tools.web_search", "react.read", "react.plan"]
    assert verdict.show_artifacts == (*first, CHART)
    assert verdict.show_skills == ("lab.charts", "lab.tables")


def test_a_path_of_the_bundles_own_is_known_by_its_namespace():
    def name(written: str) -> str:
        return name_artifact(written, ("shop",))

    verdict = judge(generation(read("a", show_artifacts=["shop:orders/7"])), stage=name)
    assert verdict.show_artifacts == ("shop:orders/7",)


def test_in_the_layout_timeline_the_fields_are_unknown_and_ignored():
    verdict = judge(generation(read("a", show_artifacts=[CHART, 7], show_skills="x")))
    assert (verdict.show_artifacts, verdict.show_skills, codes(verdict)) == ((), (), [])
    assert verdict.accepted
