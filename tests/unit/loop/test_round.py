"""Rounds of several actions, from the model's text to the log and back to the model."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import ModelStreamBroken
from stepline.log.journal import Journal
from stepline.model.entry import Closed, Decided, Deferred, Resulted
from stepline.model.ids import call_id
from stepline.model.program.execution import Run
from stepline.protocol.decision.fanout import FanoutRule
from tests.support.conversation import LANE, Conversation, text_of
from tests.support.faulty_log import LosingLog
from tests.support.generation import PROGRAM, answer_of, answered, called, decided, said, start_tag, tagged

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


def several(*decisions: dict[str, Any] | str, codes: dict[int, str] | None = None) -> str:
    """Return a generation of these decisions; `codes` are the programs after some of them."""
    parts = [tagged("thinking", "Let me see.")]
    for index, one in enumerate(decisions):
        parts += [decided(one), tagged("code", (codes or {}).get(index, ""))]
    return "\n".join(parts)


class FanoutConversation(Conversation):
    """A conversation whose rounds may take several actions."""

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
        return text_of(self.model.requests[index])

    def codes(self) -> list[str]:
        return [notice.code for notice in self.decided.notices]


# --- several actions


@pytest.mark.parametrize("piece_chars", [1, 13, 10_000])
def test_actions_run_in_order_each_under_its_own_name(piece_chars: int) -> None:
    text = several(write("a.md"), read("fi:turn_x.outputs/n.md"), plan("one"), plan("two"))
    conversation = FanoutConversation(Say(text=text, piece_chars=piece_chars), answered("done"))
    conversation.run()
    turn = conversation.entries(Closed)[-1].turn
    results = conversation.entries(Resulted)
    assert [entry.tool_id for entry in results] == ["react.write", "react.read", "react.plan", "react.plan"]
    assert [entry.call_id for entry in results] == [call_id(turn, 0, index) for index in range(4)]
    assert {entry.iteration for entry in results} == {0}
    assert len(conversation.model.requests) == 2


def test_each_result_is_a_separate_batch_that_the_next_round_shows() -> None:
    conversation = FanoutConversation(several(write("a.md"), write("b.md")), answered("done"))
    conversation.run()
    assert conversation.kinds()[1:4] == [["Decided"], ["Resulted"], ["Resulted"]]
    assert "outputs/a.md" in conversation.prompt()
    assert "outputs/b.md" in conversation.prompt()


def test_each_dropped_action_gets_a_notice_and_the_others_run() -> None:
    text = several(write("a.md"), write("a.md", "other"), answer_of("Too early."), "{", write("b.md"))
    conversation = FanoutConversation(text, answered("done"))
    conversation.run()
    first = conversation.entries(Decided)[0]
    assert conversation.ran() == [("react.write", "ok"), ("react.write", "ok")]
    assert [notice.code for notice in first.notices] == [
        f"{MANY}same_file_collision",
        f"{MANY}final_answer_after_non_neutral",
        f"{MANY}invalid_item",
    ]
    assert [notice.extra["index"] for notice in first.notices] == [2, 3, 4]
    assert (first.accepted, first.answer, first.raw) == (True, "", "")
    seen = conversation.prompt(1)
    for notice in first.notices:
        assert f"Action {notice.extra['index']} was not run" in seen
        assert f".{notice.extra['parent_tool_call_id']}.notice]" in seen
    assert seen.count("[PROTOCOL VIOLATION]") == 3


def test_a_round_of_which_nothing_is_left_is_refused_and_tried_once_more() -> None:
    conversation = FanoutConversation(several(write(""), "{"), answered("done"))
    following = conversation.decide()
    assert (following.route, following.iteration, conversation.decided.accepted) == ("decide", 1, False)
    assert (conversation.state.round_retries, conversation.codes()) == (
        1,
        ["bad_params", f"{MANY}invalid_item"],
    )
    assert conversation.decided.raw


def test_the_same_call_runs_once_a_round() -> None:
    conversation = FanoutConversation(
        several(read("fi:turn_x.outputs/n.md"), read("fi:turn_x.outputs/n.md")), answered("done")
    )
    conversation.run()
    assert len(conversation.ran()) == 1
    assert [notice.code for notice in conversation.entries(Decided)[0].notices] == [f"{MANY}duplicate"]


def test_a_cap_of_the_deployment_ends_the_generation_at_the_first_action_too_many() -> None:
    rule = FanoutRule(mode="safe_fanout", max_actions=2)
    tail = "never generated " * 500
    conversation = FanoutConversation(
        several(write("a.md"), write("b.md"), write("c.md", tail)), answered("done"), rule=rule
    )
    conversation.decide()
    entry = conversation.decided
    assert ([action.params["path"] for action in entry.actions], entry.stop_reason) == (
        ["a.md", "b.md"],
        "aborted",
    )
    assert conversation.codes() == [f"{MANY}too_many_actions"]


# --- single actions


@pytest.mark.parametrize("piece_chars", [1, 10_000])
def test_a_second_action_of_a_single_action_round_is_refused(piece_chars: int) -> None:
    conversation = FanoutConversation(
        Say(text=several(write("a.md"), write("b.md")), piece_chars=piece_chars),
        answered("done"),
        rule=FanoutRule(),
    )
    conversation.run()
    first = conversation.entries(Decided)[0]
    assert conversation.ran() == [("react.write", "ok")]
    assert [notice.code for notice in first.notices] == [f"{MANY}too_many_actions"]
    assert first.accepted
    assert "b.md" not in conversation.prompt(1)


# --- an answer beside neutral actions


def test_neutral_actions_beside_an_answer_run_before_the_end() -> None:
    conversation = FanoutConversation(
        several(plan("look"), answer_of("All done.", suggested_followups=["More?"]))
    )
    step = conversation.decide()
    assert (step.route, conversation.decided.action, conversation.decided.answer) == (
        "act",
        "complete",
        "All done.",
    )
    step = conversation.act(step)
    assert (step.route, step.iteration) == ("close", 0)
    conversation.close(step)
    (closing,) = conversation.entries(Closed)
    assert (closing.outcome, closing.answer, closing.followups) == ("completed", "All done.", ("More?",))
    assert (conversation.ran(), conversation.state.status) == ([("react.plan", "ok")], "idle")


def test_an_event_after_such_an_answer_reopens_the_turn() -> None:
    conversation = FanoutConversation(several(answer_of("All done."), plan("look")), answered("Now really."))
    step = conversation.act(conversation.decide())
    conversation.send("wait", id="second")
    step = conversation.close(step)
    assert (step.route, step.iteration, conversation.state.ends) == ("decide", 1, False)
    (deferred,) = conversation.entries(Deferred)
    assert deferred.answer == "All done."
    conversation.drive(step)
    assert conversation.entries(Closed)[-1].answer == "Now really."
    assert conversation.prompt().count("All done.") == 1


def test_an_answer_without_a_listener_is_recorded_like_any_other() -> None:
    summary = tagged("summary", "Goal: to look")
    conversation = FanoutConversation(
        several(answer_of("All done."), plan("look")) + summary, answered("Now really.") + summary
    )
    step = conversation.act(conversation.decide())
    conversation.send("wait", id="second")
    conversation.drive(conversation.close(step))
    blocks = conversation.history.load(Journal(conversation.ports, LANE, "test")).blocks()
    recorded = {kind: [block.text for block in blocks if block.type == kind] for kind in ANSWERS}
    assert recorded == {kind: ["All done.", "Now really."] for kind in ANSWERS}
    assert [block.text for block in blocks if "working.summary" in block.path] == ["Goal: to look"] * 2


def test_a_retry_after_the_last_action_continues_to_the_close() -> None:
    log = LosingLog()
    conversation = FanoutConversation(several(answer_of("All done."), plan("look"), plan("tell")), log=log)
    step = conversation.decide()
    log.lose(True, True)
    first = conversation.act(step)
    assert (conversation.act(step), conversation.ran()) == (first, [("react.plan", "ok")] * 2)
    assert conversation.decide(step).route == "close"
    conversation.close(first)
    assert len(conversation.entries(Closed)) == 1


def test_the_last_round_takes_an_answer_and_drops_the_neutral_action_beside_it() -> None:
    conversation = FanoutConversation(
        several(plan("look"), answer_of("Done as far as it goes.")), max_iterations=1
    )
    conversation.run()
    assert (conversation.ran(), conversation.entries(Closed)[-1].answer) == ([], "Done as far as it goes.")
    assert conversation.codes() == ["last_round_requires_answer"]


# --- answers that were seen


def test_an_answer_the_user_has_seen_is_never_tried_again() -> None:
    broken = '{"action": "complete", "final_answer": "All done.", oops'
    conversation = FanoutConversation(several(plan("look"), broken, plan("tell")))
    inbox = conversation.listen()
    step = conversation.decide()
    assert conversation.decided.answer == "All done."
    assert (conversation.decided.accepted, len(conversation.decided.actions)) == (True, 2)
    assert conversation.codes()[0] == "answer_kept_from_stream"
    conversation.close(conversation.act(step))
    assert conversation.entries(Closed)[-1].answer == "All done."
    assert len(conversation.model.requests) == 1
    assert b"All done." in b"".join(inbox)


def test_a_model_that_fails_after_its_answer_is_not_asked_again() -> None:
    text = several(plan("look"), answer_of("All done.")) + (start_tag("summary") + "Goal: to loo")
    gone = ModelStreamBroken("gone", code="stream_cut")
    conversation = FanoutConversation(Fail(error=gone, text=text, after_chars=len(text)))
    conversation.run()
    assert (conversation.ran(), conversation.entries(Closed)[-1].answer) == (
        [("react.plan", "ok")],
        "All done.",
    )
    assert (conversation.decided.stop_reason, conversation.codes()) == ("cut", ["generation_truncated"])
    assert len(conversation.model.requests) == 1


def test_a_shown_answer_counts_despite_a_refused_sibling() -> None:
    conversation = FanoutConversation(several(answer_of("All done."), write("late.md")))
    conversation.run()
    assert (conversation.ran(), conversation.entries(Closed)[-1].answer) == ([], "All done.")


def test_an_answer_with_unescaped_quotes_is_recorded_whole() -> None:
    conversation = FanoutConversation(
        said('{"action": "complete", "final_answer": "he said "yes", then left"}')
    )
    conversation.run()
    assert conversation.entries(Closed)[-1].answer == 'he said "yes", then left'
    assert conversation.codes() == ["decision_repaired"]


# --- programs


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_program_may_be_at_any_position_of_a_round(at: int) -> None:
    conversation = FanoutConversation(answered("done"))
    conversation.programs(lambda _job: Run(returncode=0))
    conversation.agent = replace(conversation.agent, fanout=FANOUT)
    decisions = [write("a.md"), write("b.md")]
    decisions.insert(at, run("outputs/c.csv"))
    conversation.model = conversation.model.__class__(
        several(*decisions, codes={at: "print(1)"}), answered("done")
    )
    conversation.run()
    tools = [tool for tool, _ in conversation.ran()]
    expected = ["react.write", "react.write"]
    expected.insert(at, PROGRAM)
    assert tools == expected
    assert [action.code for action in conversation.entries(Decided)[0].actions][at] == "print(1)"
    assert conversation.entries(Closed)[-1].answer == "done"


def test_the_files_of_a_program_collide_with_those_of_a_write() -> None:
    conversation = FanoutConversation()
    conversation.programs(lambda _job: Run(returncode=0))
    conversation.agent = replace(conversation.agent, fanout=FANOUT)
    conversation.model.add(several(write("outputs/c.csv"), run("c.csv"), codes={1: "print(1)"}))
    conversation.decide()
    assert conversation.codes() == [f"{MANY}same_file_collision"]


# --- strictness


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("Sure, I will! ", "decision_preamble_before_first_channel"),
        (tagged("code", "x"), "decision_first_channel_not_thinking"),
    ],
)
def test_a_wrong_beginning_costs_one_notice_and_one_more_try_and_ends_the_call_at_once(
    head: str, code: str
) -> None:
    conversation = FanoutConversation(head + answered("first" * 200), answered("second"))
    inbox = conversation.listen()
    conversation.run()
    first = conversation.entries(Decided)[0]
    assert ([notice.code for notice in first.notices], first.accepted) == ([code], False)
    assert conversation.entries(Closed)[-1].answer == "second"
    assert b"firstfirst" not in b"".join(inbox)
    # W14: a call that we ended is billed.
    assert (first.stop_reason, len(first.raw) < 60) == ("aborted", True)
    assert first.usage is not None
    assert first.usage.estimated
    assert first.usage.input_tokens > 0
    assert code in conversation.prompt(1)


def test_a_tolerated_leading_word_costs_only_a_notice() -> None:
    conversation = FanoutConversation("Sure! " + answered("first"), strict=False)
    conversation.run()
    assert conversation.entries(Closed)[-1].answer == "first"
    assert conversation.codes() == ["decision_preamble_before_first_channel"]


def test_a_turn_of_wrong_beginnings_ends_after_its_tries_and_says_so() -> None:
    conversation = FanoutConversation(*["Sure! "] * 3, round_retries=2)
    conversation.run()
    conversation.model.assert_read()
    assert conversation.entries(Closed)[-1].code == "model_protocol"


# --- plans


def test_the_notes_of_every_decision_acknowledge_the_plan() -> None:
    conversation = FanoutConversation(
        called("react.plan", {"steps": ["look", "tell"]}),
        several(write("a.md", notes="✓ [1] looked"), write("b.md", notes="… [2] telling")),
        several(plan("another", notes="✓ [2] told"), write("c.md", notes="✓ [2] told")),
        answered("done"),
    )
    conversation.run()
    decisions = conversation.entries(Decided)
    assert decisions[1].notes == "✓ [1] looked\n… [2] telling"
    assert dict(decisions[1].plan.status) == {"1": "done", "2": "in_progress"}
    assert decisions[2].plan is None
