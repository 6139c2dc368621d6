"""Several actions in one round on the deployed stage: what is seen, what runs, what is refused, what is resumed."""

from __future__ import annotations

import pytest

from tests.e2e.mode import several_actions
from tests.e2e.order import check_order, events, terminals
from tests.e2e.pause import pause_before_the_second_action
from tests.e2e.seen_lanes import lanes_of, place
from tests.e2e.stage import Stage, a_word, answer_of, read_until
from tests.e2e.test_generation import decisions_of
from tests.e2e.test_recovery import check_log
from tests.support.script import backwards, together

pytestmark = pytest.mark.emulator

FOUR = ["react.write", "react.read", "react.plan", "react.plan"]


@pytest.fixture(scope="module")
def fanned(deployed):
    """The stage with several actions a round, for all tests of this file."""
    with several_actions(Stage(deployed)):
        yield


@pytest.fixture
def several(fanned, scripted, conversation):
    """The same with a conversation that has a file of an earlier turn; `known` is the word in it."""
    scripted.known = a_word()
    scripted.cursor = check_order(scripted.send(f"write a file older.md with {scripted.known}", conversation))
    return scripted


def results_of(stage, conversation, lines):
    """Return the results of the turn of these lines, in the order of the log."""
    turn = events(lines, "chat.start")[0]["turn_id"]
    return [
        entry
        for batch in stage.log(conversation)
        if batch["state"]["turn"] == turn
        for entry in batch["entries"]
        if entry["kind"] == "result"
    ]


def test_write_read_and_two_plans_stream_and_run_in_their_order(several, conversation):
    word = a_word()
    lines = several.send(together(word), conversation)
    check_order(lines, after=several.cursor)
    assert len(terminals(lines)) == 1
    decision, _answer = decisions_of(several, conversation, lines)
    assert [action["tool_id"] for action in decision["actions"]] == FOUR
    assert decision.get("notices", []) == []
    results = results_of(several, conversation, lines)
    assert [(result["tool_id"], result["status"]) for result in results] == [(tool, "ok") for tool in FOUR]
    assert [result["call_id"] for result in results] == [a["call_id"] for a in decision["actions"]]

    lanes = lanes_of(lines)
    assert all(lane.ended and not lane.aborted for lane in lanes.values())
    canvas = lanes["canvas.0"]
    assert (canvas.facts["marker"], canvas.facts["artifact_name"]) == ("canvas", "outputs/lake.md")
    assert canvas.facts["execution_id"] == decision["actions"][0]["call_id"]
    assert canvas.text == decision["actions"][0]["params"]["content"]
    assert lanes["notes.0"].text == "Writing lake.md"
    assert lanes["notes.0"].facts["marker"] == "timeline_text"
    steps = [action["params"]["steps"] for action in decision["actions"][2:]]
    for lane, planned in zip((lanes["plan.2"], lanes["plan.3"]), steps, strict=True):
        assert lane.facts["marker"] == "timeline_text"
        assert all(step in lane.text for step in planned)

    decided = place(lines, lambda line: line.get("type") == "solver.react.decision")
    assert place(lines, lambda line: line["frame"] == "delta" and line["lane"] == "canvas.0") < decided
    assert events(lines, "solver.react.decision")[0]["data"]["bundle_size"] == 4
    answer = answer_of(lines)
    assert several.known in answer
    assert "outputs/lake.md" in answer
    check_log(several, conversation)


def test_a_write_after_a_read_is_refused_while_the_read_runs(several, conversation):
    word = a_word()
    lines = several.send(backwards(word), conversation)
    check_order(lines, after=several.cursor)
    first, second, _answer = decisions_of(several, conversation, lines)
    assert [action["tool_id"] for action in first["actions"]] == ["react.read"]
    assert [action["tool_id"] for action in second["actions"]] == ["react.write"]
    (notice,) = first["notices"]
    assert notice["code"] == "multi_action_bundle_strategy_incompatible"
    (refused,) = events(lines, "react.tool.rejected")
    assert refused["data"]["code"] == notice["code"]
    assert (refused["data"]["tool_id"], refused["data"]["action_index"]) == ("react.write", 2)
    assert refused["data"]["parent_tool_call_id"] not in [
        result["call_id"] for result in results_of(several, conversation, lines)
    ]
    assert word not in "".join(lane.text for lane in lanes_of(lines).values())
    assert len(terminals(lines)) == 1
    assert several.known in answer_of(lines)


def test_plans_beside_an_answer_run_before_the_turn_ends(several, conversation):
    lines = several.send("Make two plans with two steps each, in one round.", conversation)
    check_order(lines, after=several.cursor)
    (decision,) = decisions_of(several, conversation, lines)
    assert (decision["action"], len(decision["actions"])) == ("complete", 2)
    assert [result["tool_id"] for result in results_of(several, conversation, lines)] == ["react.plan"] * 2
    assert len(terminals(lines)) == 1
    assert place(lines, lambda line: line.get("terminal")) > place(
        lines, lambda line: line.get("type") == "react.tool.result"
    )
    assert lanes_of(lines)["answer.2"].text == answer_of(lines)


def test_a_worker_killed_between_two_actions_repeats_none(several, conversation, tmp_path):
    word = a_word()
    with (
        pause_before_the_second_action(several, tmp_path) as pause,
        several.sending(together(word), conversation) as client,
    ):
        seen = read_until(client, lambda line: line.get("type") == "react.tool.result")
        assert pause.kill() >= 1
        seen += read_until(client, lambda line: line.get("terminal", False))
    check_order(seen, after=several.cursor)
    results = results_of(several, conversation, seen)
    assert [(result["tool_id"], result["status"]) for result in results] == [(tool, "ok") for tool in FOUR]
    assert len(events(seen, "react.tool.result")) == 4
    assert len(terminals(seen)) == 1
    assert several.known in answer_of(seen)
    check_log(several, conversation)
    epoch = events(seen, "chat.start")[0]["n"]
    failures = [event for event in several.history(conversation, epoch) if "Failed" in event["type"]]
    assert "Runtime.ExitError" in str(failures)
