"""Progress that the model reports on its plans in its notes, from the generation to the log."""

from __future__ import annotations

from stepline.model.entry import Decided, Resulted
from tests.support.conversation import Conversation
from tests.support.generation import answered, called

READ = {"paths": ["fi:turn_x.outputs/a.md"]}


def planned(*rounds: str) -> Conversation:
    conversation = Conversation(*rounds, answered("done"))
    conversation.send("go")
    conversation.run()
    conversation.model.assert_read()
    return conversation


def reports(conversation: Conversation) -> list[dict[str, str] | None]:
    return [dict(entry.plan.status) if entry.plan else None for entry in conversation.entries(Decided)]


def steps(*names: str, **fields: object) -> str:
    return called("react.plan", {"steps": list(names), **fields})


def test_progress_applies_only_to_the_current_plan() -> None:
    conversation = planned(
        steps("old"), steps("one", "two"), called("react.read", READ, notes="✓ [1] one\n✓ [2] two")
    )
    old, new = conversation.timeline().plans.values()
    assert (old.steps, dict(old.status)) == (("old",), {"1": "pending"})
    assert dict(new.status) == {"1": "done", "2": "done"}


def test_without_a_current_plan_progress_is_only_a_note() -> None:
    first = planned(
        steps("one"), called("react.plan", {"mode": "close", "plan_id": "?"}), called("react.read", READ)
    )
    assert reports(first) == [None] * 4
    conversation = Conversation(called("react.read", READ, notes="✓ [1] one"), answered("done"))
    conversation.send("go")
    conversation.run()
    assert reports(conversation) == [None, None]
    assert conversation.timeline().plans == {}


def test_a_step_that_the_plan_does_not_have_changes_nothing() -> None:
    conversation = planned(steps("one"), called("react.read", READ, notes="✓ [0] x\n✓ [2] x\n✓ [99] x"))
    assert reports(conversation) == [None, None, None]
    assert not [block for block in conversation.timeline().blocks() if block.type == "react.plan.ack"]


def test_the_round_that_changes_plans_reports_no_progress() -> None:
    again = called("react.plan", {"steps": ["two"]}, notes="✓ [1] one")
    conversation = planned(steps("one"), again)
    assert reports(conversation) == [None, None, None]
    assert all(dict(plan.status) == {"1": "pending"} for plan in conversation.timeline().plans.values())


def test_a_report_without_news_makes_no_snapshot() -> None:
    same = called("react.read", READ, notes="✓ [1] one")
    conversation = planned(steps("one", "two"), same, same)
    assert reports(conversation) == [None, {"1": "done", "2": "pending"}, None, None]
    found = [
        block for block in conversation.timeline().blocks() if block.type in ("react.plan", "react.plan.ack")
    ]
    assert [block.type for block in found] == ["react.plan", "react.plan.ack", "react.plan"]


def test_a_settled_plan_closes_and_no_other_becomes_current() -> None:
    conversation = planned(
        steps("old"), steps("one"), called("react.read", READ, notes="✗ [1] it cannot be done")
    )
    assert [plan.is_open() for plan in conversation.timeline().plans.values()] == [True, False]
    assert [plan.current for plan in conversation.timeline().plans.values()] == [False, True]


def test_a_call_without_a_plan_is_a_result_and_the_turn_continues() -> None:
    conversation = planned(called("react.plan", {"mode": "activate", "plan_id": "plan:nobody"}))
    (result,) = conversation.entries(Resulted)
    assert result.error["code"] == "protocol_violation.plan_target_missing"
    assert conversation.state.status == "idle"


def test_a_plan_continues_in_the_next_turn() -> None:
    conversation = planned(steps("one", "two"))
    conversation.model.add(called("react.read", READ, notes="✓ [1] one"), answered("more"))
    conversation.send("go on", id="m2")
    conversation.run()
    (plan,) = conversation.timeline().plans.values()
    assert (dict(plan.status), plan.last_turn_id) == (
        {"1": "done", "2": "pending"},
        conversation.timeline().turns[1],
    )
    assert conversation.timeline().resolve(f"ar:plan.latest:{plan.plan_id}")[0].turn_id == plan.last_turn_id
