import msgspec
import pytest

from stepline.model.block import Produced
from stepline.model.entry import Contributed
from stepline.model.plan_steps import Plan
from stepline.rendering.plan_text import (
    NOTE_CHARS,
    contributed_plans,
    current_plan,
    plan_facts,
    plan_history,
    read_plan,
    render_steps,
)
from tests.support.log_builder import LogBuilder

AT = "2026-11-21T10:00:00.000Z"


def made(name: str, *statuses: str, **fields) -> Plan:
    return Plan(
        **{
            "plan_id": name,
            "steps": tuple(f"step of {name}" for _ in statuses),
            "status": {str(n): status for n, status in enumerate(statuses, 1)},
            "created_ts": AT,
            "last_ts": AT,
            "origin_turn_id": "turn_1",
            "last_turn_id": "turn_1",
            "current": False,
            **fields,
        }
    )


def test_closing_lists_open_plans_except_the_current_one():
    plans = [
        made("over", "done", "failed"),
        made("shut", "pending", closed_ts=AT),
        made("gone", "pending", superseded_ts=AT, closed_ts=AT),
        made("left", "in_progress"),
        made("now", "pending", current=True),
    ]
    facts = plan_history(plans, {"left": "about\nto " + "x" * 300})
    assert [(fact.plan_id, fact.tag) for fact in facts] == [
        ("over", "complete"),
        ("shut", "closed"),
        ("gone", "superseded"),
        ("left", "unfinished"),
    ]
    assert facts[0].steps == (("done", "step of over"), ("failed", "step of over"))
    assert facts[0].snapshot_ref == "ar:plan.latest:over"
    assert facts[3].note.startswith("about to xxx")
    assert len(facts[3].note) == NOTE_CHARS


def test_a_complete_plan_is_no_longer_current():
    over = made("over", "done", current=True)
    assert current_plan([over]) is None
    assert [fact.tag for fact in plan_history([over])] == ["complete"]


def test_a_step_without_a_status_is_pending():
    plan = made("p", "done", steps=("one", "two\nlines"))
    assert render_steps(plan) == "✓ [1] one\n□ [2] two lines"
    facts = plan_facts(plan)
    assert (facts["steps"], facts["done"], facts["pending"], facts["open"]) == (2, 1, 1, True)


def test_a_written_plan_snapshot_reads_back():
    plan = made("p", "done", "pending", current=True)
    assert read_plan(msgspec.to_builtins(plan)) == plan


def test_a_snapshot_with_steps_as_objects_is_accepted():
    steps = [{"n": 1, "label": "Gather", "status": "done"}, {"n": 2, "label": "Draft", "status": "pending"}]
    plan = read_plan({"plan_id": "plan_abc", "origin_turn_id": "turn_001", "steps": steps})
    assert (plan.steps, plan.status) == (("Gather", "Draft"), {"1": "done", "2": "pending"})
    assert (plan.origin_turn_id, plan.last_turn_id, plan.is_open()) == ("turn_001", "turn_001", True)


@pytest.mark.parametrize(
    "odd",
    [
        {"steps": ["a"]},
        {"plan_id": "p", "steps": [7]},
        {"plan_id": "p", "steps": 7},
        {"plan_id": "p", "steps": ["a"], "status": {"1": "begun"}},
        {"plan_id": "p", "steps": [{"n": 1}]},
        {"plan_id": 7, "steps": ["a"]},
    ],
)
def test_an_invalid_plan_snapshot_is_rejected(odd):
    with pytest.raises(msgspec.ValidationError):
        read_plan(odd)


def test_a_plan_that_a_bundle_contributes_is_a_plan_and_anything_else_is_text():
    blocks = [
        Produced(type="react.plan", text='{"plan_id": "plan_b", "steps": [{"n": 1, "label": "Go"}]}'),
        Produced(type="react.plan", text="not JSON"),
        Produced(type="react.plan", text='["a list"]'),
        Produced(type="note", text='{"plan_id": "other", "steps": []}'),
    ]
    (plan,) = contributed_plans(Contributed(turn="turn_7", at=AT, blocks=tuple(blocks)))
    assert (plan.plan_id, plan.steps, plan.last_turn_id, plan.last_ts) == ("plan_b", ("Go",), "turn_7", AT)


def test_a_contributed_plan_is_found_by_its_alias():
    log = LogBuilder()
    log.message("go")
    path = f"ar:{log.turn}.react.plan.plan_b"
    text = '{"plan_id": "plan_b", "steps": ["Go"]}'
    block = Produced(type="react.plan", path=path, mime="application/json", text=text)
    log.put(log.state, Contributed(turn=log.turn, at=log.at, blocks=(block,)))
    timeline = log.timeline()
    assert timeline.plans["plan_b"].steps == ("Go",)
    assert timeline.resolve("ar:plan.latest:plan_b")[0].text == text
