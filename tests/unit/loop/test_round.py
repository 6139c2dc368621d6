"""Rounds of several actions, from the model's text to the log and back to the model."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import DependencyError
from stepline.log.journal import Journal
from stepline.loop.close import CAUSES
from stepline.model.entry import Closed, Decided, Deferred, Resulted
from stepline.model.ids import call_id
from stepline.model.program.execution import Run
from stepline.protocol.decision.fanout import FanoutRule
from tests.support.conversation import LANE, PROGRAM, Scene, answered, called, said
from tests.support.faulty_log import LosingLog

FANOUT = FanoutRule(mode="safe_fanout")
MANY = "multi_action_bundle_"
ANSWERS = ("assistant.completion.attempt", "assistant.completion")


def write(path: str, content: str = "x", **fields: Any) -> dict[str, Any]:
    return {
        "action": "call_tool",
        "tool_call": {"tool_id": "react.write", "params": {"path": path, "content": content}},
        **fields,
    }


def read(path: str) -> dict[str, Any]:
    return {"action": "call_tool", "tool_call": {"tool_id": "react.read", "params": {"paths": [path]}}}


def plan(*steps: str, **fields: Any) -> dict[str, Any]:
    return {
        "action": "call_tool",
        "tool_call": {"tool_id": "react.plan", "params": {"steps": list(steps)}},
        **fields,
    }


def run(*files: str) -> dict[str, Any]:
    contract = [{"filename": name, "description": name} for name in files]
    return {"action": "call_tool", "tool_call": {"tool_id": PROGRAM, "params": {"contract": contract}}}


def complete(text: str, **fields: Any) -> dict[str, Any]:
    return {"action": "complete", "final_answer": text, **fields}


def several(*decisions: dict[str, Any] | str, codes: dict[int, str] | None = None) -> str:
    """Return a generation of these decisions; `codes` are the programs behind some of them."""
    parts = ["<channel:thinking>Let me see.</channel:thinking>"]
    for index, one in enumerate(decisions):
        body = one if isinstance(one, str) else json.dumps(one)
        parts.append(f"<channel:ReactDecisionOutV2>{body}</channel:ReactDecisionOutV2>")
        parts.append(f"<channel:code>{(codes or {}).get(index, '')}</channel:code>")
    return "\n".join(parts)


class Stage(Scene):
    """A scene whose rounds may take several actions."""

    def __init__(self, *script: Any, rule: FanoutRule = FANOUT, strict: bool = True, **fields: Any) -> None:
        super().__init__(*script, **fields)
        self.agent = replace(self.agent, fanout=rule, strict=strict)
        self.send("go")

    @property
    def decided(self) -> Decided:
        return self.entries(Decided)[-1]

    def ran(self) -> list[tuple[str, str]]:
        return [(entry.tool_id, entry.status) for entry in self.entries(Resulted)]

    def prompt(self, index: int = -1) -> str:
        return "".join(part.text for part in self.model.requests[index].content)

    def codes(self) -> list[str]:
        return [notice.code for notice in self.decided.notices]


# --- several actions


@pytest.mark.parametrize("piece_chars", [1, 13, 10_000])
def test_actions_run_in_the_order_of_their_decisions_each_under_its_own_name(piece_chars: int) -> None:
    text = several(write("a.md"), read("fi:turn_x.outputs/n.md"), plan("one"), plan("two"))
    stage = Stage(Say(text=text, piece_chars=piece_chars), answered("done"))
    stage.run()
    turn = stage.entries(Closed)[-1].turn
    results = stage.entries(Resulted)
    assert [entry.tool_id for entry in results] == ["react.write", "react.read", "react.plan", "react.plan"]
    assert [entry.call_id for entry in results] == [call_id(turn, 0, index) for index in range(4)]
    assert {entry.iteration for entry in results} == {0}
    assert len(stage.model.requests) == 2


def test_each_result_stands_in_a_batch_of_its_own_and_the_next_round_sees_all() -> None:
    stage = Stage(several(write("a.md"), write("b.md")), answered("done"))
    stage.run()
    assert stage.kinds()[1:4] == [["Decided"], ["Resulted"], ["Resulted"]]
    assert "outputs/a.md" in stage.prompt()
    assert "outputs/b.md" in stage.prompt()


def test_what_is_dropped_costs_one_notice_each_and_the_others_run() -> None:
    text = several(write("a.md"), write("a.md", "other"), complete("Too early."), "{", write("b.md"))
    stage = Stage(text, answered("done"))
    stage.run()
    first = stage.entries(Decided)[0]
    assert stage.ran() == [("react.write", "ok"), ("react.write", "ok")]
    assert [notice.code for notice in first.notices] == [
        f"{MANY}same_file_collision",
        f"{MANY}final_answer_after_non_neutral",
        f"{MANY}invalid_item",
    ]
    assert [notice.extra["index"] for notice in first.notices] == [2, 3, 4]
    assert (first.accepted, first.answer, first.raw) == (True, "", "")
    seen = stage.prompt(1)
    for notice in first.notices:
        assert f"Action {notice.extra['index']} was not run" in seen
        assert f".{notice.extra['parent_tool_call_id']}.notice]" in seen
    assert seen.count("[PROTOCOL VIOLATION]") == 3


def test_a_round_of_which_nothing_is_left_is_refused_and_tried_once_more() -> None:
    stage = Stage(several(write(""), "{"), answered("done"))
    following = stage.decide()
    assert (following.route, following.iteration, stage.decided.accepted) == ("decide", 1, False)
    assert (stage.state.round_retries, stage.codes()) == (1, ["bad_params", f"{MANY}invalid_item"])
    assert stage.decided.raw


def test_the_same_call_runs_once_a_round() -> None:
    stage = Stage(several(read("fi:turn_x.outputs/n.md"), read("fi:turn_x.outputs/n.md")), answered("done"))
    stage.run()
    assert len(stage.ran()) == 1
    assert [notice.code for notice in stage.entries(Decided)[0].notices] == [f"{MANY}duplicate"]


def test_a_cap_of_the_deployment_ends_the_generation_at_the_first_action_too_many() -> None:
    rule = FanoutRule(mode="safe_fanout", max_actions=2)
    tail = "never generated " * 500
    stage = Stage(several(write("a.md"), write("b.md"), write("c.md", tail)), answered("done"), rule=rule)
    stage.decide()
    entry = stage.decided
    assert ([action.params["path"] for action in entry.actions], entry.stop_reason) == (
        ["a.md", "b.md"],
        "aborted",
    )
    assert stage.codes() == [f"{MANY}too_many_actions"]


# --- off


@pytest.mark.parametrize("piece_chars", [1, 10_000])
def test_where_a_round_takes_one_action_the_second_is_refused_with_a_notice(piece_chars: int) -> None:
    stage = Stage(
        Say(text=several(write("a.md"), write("b.md")), piece_chars=piece_chars),
        answered("done"),
        rule=FanoutRule(),
    )
    stage.run()
    first = stage.entries(Decided)[0]
    assert stage.ran() == [("react.write", "ok")]
    assert [notice.code for notice in first.notices] == [f"{MANY}too_many_actions"]
    assert first.accepted
    assert "b.md" not in stage.prompt(1)


# --- an answer beside neutral actions


def test_beside_an_answer_neutral_actions_run_and_then_the_turn_ends() -> None:
    stage = Stage(several(plan("look"), complete("All done.", suggested_followups=["More?"])))
    step = stage.decide()
    assert (step.route, stage.decided.action, stage.decided.answer) == ("act", "complete", "All done.")
    step = stage.act(step)
    assert (step.route, step.iteration) == ("close", 0)
    stage.close(step)
    (closing,) = stage.entries(Closed)
    assert (closing.outcome, closing.answer, closing.followups) == ("completed", "All done.", ("More?",))
    assert (stage.ran(), stage.state.status) == ([("react.plan", "ok")], "idle")


def test_an_event_behind_such_an_answer_reopens_the_turn_as_behind_any_other() -> None:
    stage = Stage(several(complete("All done."), plan("look")), answered("Now really."))
    step = stage.act(stage.decide())
    stage.send("wait", id="second")
    step = stage.close(step)
    assert (step.route, step.iteration, stage.state.ends) == ("decide", 1, False)
    (deferred,) = stage.entries(Deferred)
    assert deferred.answer == "All done."
    stage.drive(step)
    assert stage.entries(Closed)[-1].answer == "Now really."
    assert stage.prompt().count("All done.") == 1


def test_an_answer_that_nobody_saw_begin_is_recorded_like_any_other() -> None:
    summary = "<channel:summary>Goal: to look</channel:summary>"
    stage = Stage(several(complete("All done."), plan("look")) + summary, answered("Now really.") + summary)
    step = stage.act(stage.decide())
    stage.send("wait", id="second")
    stage.drive(stage.close(step))
    blocks = stage.history.load(Journal(stage.ports, LANE, "test")).blocks()
    recorded = {kind: [block.text for block in blocks if block.type == kind] for kind in ANSWERS}
    assert recorded == {kind: ["All done.", "Now really."] for kind in ANSWERS}
    assert [block.text for block in blocks if "working.summary" in block.path] == ["Goal: to look"] * 2


def test_a_retry_between_the_last_action_and_the_close_goes_on_to_the_close() -> None:
    log = LosingLog()
    stage = Stage(several(complete("All done."), plan("look"), plan("tell")), log=log)
    step = stage.decide()
    log.lose(True, True)
    first = stage.act(step)
    assert (stage.act(step), stage.ran()) == (first, [("react.plan", "ok")] * 2)
    assert stage.decide(step).route == "close"
    stage.close(first)
    assert len(stage.entries(Closed)) == 1


def test_the_last_round_takes_an_answer_and_drops_the_neutral_action_beside_it() -> None:
    stage = Stage(several(plan("look"), complete("Done as far as it goes.")), max_iterations=1)
    stage.run()
    assert (stage.ran(), stage.entries(Closed)[-1].answer) == ([], "Done as far as it goes.")
    assert stage.codes() == ["last_round_requires_answer"]


# --- answers that were seen


def test_an_answer_the_user_has_seen_is_never_tried_again() -> None:
    broken = '{"action": "complete", "final_answer": "All done.", oops'
    stage = Stage(several(plan("look"), broken, plan("tell")))
    inbox = stage.listen()
    step = stage.decide()
    assert stage.decided.answer == "All done."
    assert (stage.decided.accepted, len(stage.decided.actions)) == (True, 2)
    assert stage.codes()[0] == "answer_kept_from_stream"
    stage.close(stage.act(step))
    assert stage.entries(Closed)[-1].answer == "All done."
    assert len(stage.model.requests) == 1
    assert b"All done." in b"".join(inbox)


def test_a_model_that_fails_behind_its_answer_is_not_asked_for_another_one() -> None:
    text = several(plan("look"), complete("All done.")) + "<channel:summary>Goal: to loo"
    gone = DependencyError("gone", code="stream_cut")
    stage = Stage(Fail(error=gone, text=text, after_chars=len(text)))
    stage.run()
    assert (stage.ran(), stage.entries(Closed)[-1].answer) == ([("react.plan", "ok")], "All done.")
    assert (stage.decided.stop_reason, stage.codes()) == ("cut", ["generation_truncated"])
    assert len(stage.model.requests) == 1


def test_an_answer_that_was_seen_stands_beside_a_sibling_that_is_refused() -> None:
    stage = Stage(several(complete("All done."), write("late.md")))
    stage.run()
    assert (stage.ran(), stage.entries(Closed)[-1].answer) == ([], "All done.")


def test_an_answer_with_quotes_nobody_escaped_is_recorded_whole() -> None:
    stage = Stage(said('{"action": "complete", "final_answer": "he said "yes", then left"}'))
    stage.run()
    assert stage.entries(Closed)[-1].answer == 'he said "yes", then left'
    assert stage.codes() == ["decision_repaired"]


# --- programs


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_program_may_stand_at_any_place_of_a_round(at: int) -> None:
    stage = Stage(answered("done"))
    stage.programs(lambda _job: Run(returncode=0))
    stage.agent = replace(stage.agent, fanout=FANOUT)
    decisions = [write("a.md"), write("b.md")]
    decisions.insert(at, run("outputs/c.csv"))
    stage.model = stage.model.__class__(several(*decisions, codes={at: "print(1)"}), answered("done"))
    stage.run()
    tools = [tool for tool, _ in stage.ran()]
    expected = ["react.write", "react.write"]
    expected.insert(at, PROGRAM)
    assert tools == expected
    assert [action.code for action in stage.entries(Decided)[0].actions][at] == "print(1)"
    assert stage.entries(Closed)[-1].answer == "done"


def test_the_files_of_a_program_collide_with_those_of_a_write() -> None:
    stage = Stage()
    stage.programs(lambda _job: Run(returncode=0))
    stage.agent = replace(stage.agent, fanout=FANOUT)
    stage.model.add(several(write("outputs/c.csv"), run("c.csv"), codes={1: "print(1)"}))
    stage.decide()
    assert stage.codes() == [f"{MANY}same_file_collision"]


# --- strictness


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("Sure, I will! ", "decision_preamble_before_first_channel"),
        ("<channel:code>x</channel:code>", "decision_first_channel_not_thinking"),
    ],
)
def test_a_wrong_beginning_costs_one_notice_and_one_more_try_and_ends_the_call_at_once(
    head: str, code: str
) -> None:
    stage = Stage(head + answered("first" * 200), answered("second"))
    inbox = stage.listen()
    stage.run()
    first = stage.entries(Decided)[0]
    assert ([notice.code for notice in first.notices], first.accepted) == ([code], False)
    assert stage.entries(Closed)[-1].answer == "second"
    assert b"firstfirst" not in b"".join(inbox)
    # W14: what we ended is not free.
    assert (first.stop_reason, len(first.raw) < 60) == ("aborted", True)
    assert first.usage is not None
    assert first.usage.estimated
    assert first.usage.input_tokens > 0
    assert code in stage.prompt(1)


def test_where_it_is_tolerated_a_leading_word_costs_a_notice_alone() -> None:
    stage = Stage("Sure! " + answered("first"), strict=False)
    stage.run()
    assert stage.entries(Closed)[-1].answer == "first"
    assert stage.codes() == ["decision_preamble_before_first_channel"]


def test_a_turn_of_wrong_beginnings_ends_after_its_tries_and_says_so() -> None:
    stage = Stage(*["Sure! "] * 3, round_retries=2)
    stage.run()
    stage.model.assert_read()
    assert stage.entries(Closed)[-1].answer.startswith(CAUSES["violations"])


# --- plans


def test_the_notes_of_every_decision_acknowledge_the_plan() -> None:
    stage = Stage(
        called("react.plan", {"steps": ["look", "tell"]}),
        several(write("a.md", notes="✓ [1] looked"), write("b.md", notes="… [2] telling")),
        several(plan("another", notes="✓ [2] told"), write("c.md", notes="✓ [2] told")),
        answered("done"),
    )
    stage.run()
    decisions = stage.entries(Decided)
    assert decisions[1].notes == "✓ [1] looked\n… [2] telling"
    assert dict(decisions[1].plan.status) == {"1": "done", "2": "in_progress"}
    assert decisions[2].plan is None
