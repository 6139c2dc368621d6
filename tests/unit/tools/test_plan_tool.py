from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.plan_steps import STEP_MARKS, Plan
from stepline.tools.plan import apply_acks, parse_acks
from tests.unit.tools.conftest import TS, TURN, ToolConversation

LATER = "2026-11-21T11:00:00.000Z"


def make(conversation: ToolConversation, *steps: str) -> str:
    output = conversation.call("react.plan", {"steps": list(steps or ("a", "b"))})
    return output.plans[-1].plan_id


def current(conversation: ToolConversation) -> list[str]:
    return [plan.plan_id for plan in conversation.plans.values() if plan.current]


def test_a_new_plan_is_current_and_named_after_its_call(conversation):
    output = conversation.call("react.plan", {"mode": "new", "steps": [" measure ", "compare"]})
    (plan,) = output.plans
    (result,) = output.blocks
    assert plan.plan_id == f"plan:{TURN}:{result.call_id[3:11]}"
    assert plan.steps == ("measure", "compare")
    assert plan.status == {"1": "pending", "2": "pending"}
    assert (plan.origin_turn_id, plan.last_turn_id) == (TURN, TURN)
    assert plan.current
    assert plan.is_open()
    assert f"latest_snapshot_ref: ar:plan.latest:{plan.plan_id}\n" in result.text
    assert "□ [1] measure\n□ [2] compare\n" in result.text


def test_a_second_plan_becomes_current_and_the_first_stays_open(conversation):
    first, second = make(conversation), make(conversation)
    assert current(conversation) == [second]
    assert conversation.plans[first].is_open()


def test_an_older_plan_can_be_activated_again(conversation):
    first, second = make(conversation), make(conversation)
    output = conversation.call("react.plan", {"mode": "activate", "plan_id": first})
    assert [plan.plan_id for plan in output.plans] == [second, first]
    assert current(conversation) == [first]


def test_a_replaced_plan_is_closed_and_names_its_successor(conversation):
    first = make(conversation)
    output = conversation.call("react.plan", {"mode": "replace", "plan_id": first, "steps": ["c"]})
    made = output.plans[-1].plan_id
    assert conversation.plans[first].superseded_by_plan_id == made
    assert not conversation.plans[first].is_open()
    assert current(conversation) == [made]


def test_replacing_an_older_plan_leaves_one_current_plan(conversation):
    first, second = make(conversation), make(conversation)
    output = conversation.call("react.plan", {"mode": "replace", "plan_id": first, "steps": ["c"]})
    assert current(conversation) == [output.plans[-1].plan_id]
    assert conversation.plans[second].is_open()


def test_closing_another_plan_keeps_the_current_one(conversation):
    first, second = make(conversation), make(conversation)
    output = conversation.call("react.plan", {"mode": "close", "plan_id": first})
    assert output.blocks[0].meta["code"] == "plan_closed"
    assert not conversation.plans[first].is_open()
    assert current(conversation) == [second]


def complete(conversation: ToolConversation, plan_id: str) -> None:
    plan = apply_acks(conversation.plans[plan_id], {1: "done", 2: "failed"}, TURN, TS)
    assert plan is not None
    conversation.plans[plan_id] = plan


def test_a_complete_plan_can_be_closed_but_not_activated(conversation):
    plan_id = make(conversation)
    complete(conversation, plan_id)
    refused = conversation.call("react.plan", {"mode": "activate", "plan_id": plan_id})
    assert refused.error is not None
    assert refused.error["code"] == "protocol_violation.plan_target_missing"
    assert conversation.call("react.plan", {"mode": "close", "plan_id": plan_id}).status == "ok"


@pytest.mark.parametrize(
    ("params", "code"),
    [
        ({}, "protocol_violation.plan_steps"),
        ({"mode": "replace", "plan_id": "plan_x"}, "protocol_violation.plan_steps"),
        ({"mode": "replace", "steps": ["a"]}, "protocol_violation.plan_target_required"),
        ({"mode": "activate"}, "protocol_violation.plan_target_required"),
        ({"mode": "activate", "plan_id": "plan_x"}, "protocol_violation.plan_target_missing"),
        ({"mode": "close", "plan_id": "plan_x"}, "protocol_violation.plan_target_missing"),
        ({"steps": []}, "bad_params"),
        ({"steps": ["a", " "]}, "bad_params"),
        ({"mode": "pause", "steps": ["a"]}, "bad_params"),
    ],
)
def test_a_refused_call_changes_no_plan(conversation, params, code):
    make(conversation)
    before = dict(conversation.plans)
    output = conversation.call("react.plan", params)
    assert output.error is not None
    assert output.error["code"] == code
    assert output.plans == ()
    assert conversation.plans == before


def test_a_closed_plan_is_not_closed_twice(conversation):
    plan_id = make(conversation)
    conversation.call("react.plan", {"mode": "close", "plan_id": plan_id})
    again = conversation.call("react.plan", {"mode": "close", "plan_id": plan_id})
    assert again.error is not None
    assert again.error["code"] == "protocol_violation.plan_target_missing"


calls = st.lists(
    st.tuples(st.sampled_from(["new", "activate", "replace", "close"]), st.integers(0, 5)), max_size=12
)


@given(calls)
def test_at_most_one_plan_is_current_and_it_is_open_after_any_calls(sequence):
    conversation = ToolConversation()
    for mode, which in sequence:
        known = [*conversation.plans, "plan_unknown"]
        steps = {} if mode in ("activate", "close") else {"steps": ["a"]}
        target = {} if mode == "new" else {"plan_id": known[which % len(known)]}
        conversation.call("react.plan", {"mode": mode, **target, **steps})
        assert len(current(conversation)) <= 1
        assert all(conversation.plans[plan_id].is_open() for plan_id in current(conversation))


@pytest.mark.parametrize(
    ("notes", "acks"),
    [
        ("✓ [1] measured", {1: "done"}),
        ("✗ [2]\n… [3] on it\n□ 4. later", {2: "failed", 3: "in_progress", 4: "pending"}),
        ("  - ✓ [1] as a list\n* ✓ 2) too", {1: "done", 2: "done"}),
        ("✓\ufe0f [1] with a variation selector", {1: "done"}),
        ("… [1]\n✓ [1]", {1: "done"}),
        ("so far: ✓ [1]", {}),
        ("✓ measured 3 things", {}),
        ("✓ 3.5 seconds", {}),
        ("✓ [x] [1]", {}),
        ("✓ [1000]", {}),
        ("", {}),
    ],
)
def test_progress_is_a_line_that_begins_with_a_mark_and_a_number(notes, acks):
    assert parse_acks(notes) == acks


def plan_of(*status: str) -> Plan:
    return Plan(
        plan_id="plan_a",
        steps=tuple(f"step {n}" for n in range(len(status))),
        status={str(n): word for n, word in enumerate(status, 1)},
        created_ts=TS,
        last_ts=TS,
        origin_turn_id=TURN,
        last_turn_id=TURN,
    )


def test_progress_is_a_new_snapshot_with_its_time():
    plan = apply_acks(plan_of("pending", "pending"), {2: "done"}, TURN, LATER)
    assert plan is not None
    assert plan.status == {"1": "pending", "2": "done"}
    assert (plan.last_ts, plan.last_ack_ts, plan.last_ack_turn_id) == (LATER, LATER, TURN)


@pytest.mark.parametrize("acks", [{}, {1: "done"}, {0: "done"}, {3: "done"}])
def test_a_report_without_a_change_adds_no_snapshot(acks):
    assert apply_acks(plan_of("done", "pending"), acks, TURN, LATER) is None


def test_a_closed_plan_accepts_no_progress():
    assert apply_acks(plan_of("done", "failed"), {1: "pending"}, TURN, LATER) is None


@given(st.dictionaries(st.integers(1, 9), st.sampled_from(sorted(STEP_MARKS))))
def test_progress_is_read_in_the_notation_it_is_written_in(acks):
    notes = "\n".join(f"{STEP_MARKS[status]} [{step}] words" for step, status in acks.items())
    assert parse_acks(notes) == acks
