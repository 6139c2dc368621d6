"""A decision whose text can be read in two ways: the one that was shown and the one that is judged never differ."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepline.protocol.decision.fanout import ASKED_MAX, INVALID_ITEM, TOO_MANY
from tests.support.generation import decided, start_tag, tagged
from tests.unit.protocol.play import RULES, SINGLE, SIZES, TOLERANT, Played, cut, play

ANSWER = {"action": "complete", "final_answer": "Shown."}
READ = {
    "action": "call_tool",
    "notes": "n",
    "tool_call": {"tool_id": "react.read", "params": {"paths": ["a"]}},
}
WRITE = {
    "action": "call_tool",
    "notes": "n",
    "tool_call": {"tool_id": "react.write", "params": {"path": "a.md", "content": "Text."}},
}
PLAN = {
    "action": "call_tool",
    "tool_call": {"tool_id": "react.plan", "params": {"mode": "new", "steps": ["a"]}},
}
OTHER = {"action": "call_tool", "tool_call": {"tool_id": "no.tool", "params": {}}, "notes": "never"}


def generation(*bodies: str) -> str:
    return tagged("thinking", "Hm.") + "".join(map(decided, bodies))


def two(first: Any, second: Any, lead: str = "So ") -> str:
    """Return a body with one object in its prose and another one in a fence."""
    return f"{lead}{json.dumps(first)}\n```json\n{json.dumps(second)}\n```\n"


def play_alike(text: str, rules: Any = RULES, **ends: Any) -> Played:
    played = [play(cut(text, size), rules, **ends) for size in SIZES]
    for one in played[1:]:
        assert (one.verdict, one.texts) == (played[0].verdict, played[0].texts)
    return played[0]


@pytest.mark.parametrize("rules", [RULES, SINGLE, TOLERANT])
@pytest.mark.parametrize("second", [READ, WRITE, PLAN, OTHER])
def test_an_answer_in_the_prose_counts_and_the_call_in_the_fence_does_not_run(second, rules) -> None:
    played = play_alike(generation(two(ANSWER, second)), rules)
    assert played.texts == {"thinking.0": "Hm.", "answer.0": "Shown."}
    assert played.verdict.decision.final_answer == "Shown."
    assert played.verdict.actions == ()
    assert played.codes == ["answer_kept_from_stream"]
    assert played.verdict.notices[0].extra["reason"] == "multi_decision_in_one_channel"


@pytest.mark.parametrize(
    ("second", "code"),
    [
        (ANSWER, "multi_decision_in_one_channel"),
        (WRITE, "multi_decision_in_one_channel"),
        ({"action": "wait", "notes": "never"}, "invalid_action"),
    ],
)
def test_a_call_in_the_prose_and_another_object_in_the_fence_are_both_refused(second, code) -> None:
    played = play_alike(generation(two(READ, second)))
    assert not played.verdict.accepted
    assert played.codes == [code]
    assert played.texts == {"thinking.0": "Hm.", "notes.0": "n"}


def test_an_ambiguous_decision_next_to_another_action_is_treated_the_same() -> None:
    played = play_alike(generation(json.dumps(PLAN), two(READ, ANSWER)))
    assert [action.tool_id for action in played.verdict.actions] == ["react.plan"]
    assert played.codes == ["multi_decision_in_one_channel"]
    assert "answer.1" not in played.texts


def test_the_recorded_one_of_two_equal_decisions_is_shown_in_the_end() -> None:
    played = play_alike(generation(two(ANSWER, {**ANSWER, "final_answer": "Recorded."})))
    assert played.verdict.decision.final_answer == "Recorded."
    assert played.texts == {"thinking.0": "Hm.", "answer.0.r1": "Recorded."}


def test_prose_that_holds_an_object_without_an_action_is_prose() -> None:
    played = play_alike(generation(two({"notes": "never"}, WRITE)))
    assert played.texts == {"thinking.0": "Hm.", "notes.0": "n", "canvas.0": "Text."}
    assert played.codes == []
    assert all("never" not in lane.text for lane in played.lanes.values())


def test_a_whole_answer_counts_despite_a_refusal_and_a_cut_after_it() -> None:
    refused = json.dumps({**ANSWER, "tool_call": {"tool_id": "react.read", "params": {}}})
    played = play_alike(generation(json.dumps(PLAN), refused), stop_reason="max_tokens")
    assert played.verdict.decision.final_answer == "Shown."
    assert [action.tool_id for action in played.verdict.actions] == ["react.plan"]
    assert played.verdict.salvaged


def test_only_plan_marks_of_an_answers_notes_are_shown_and_recorded() -> None:
    notes = "prose\n✓ [1] done\n\n  … [2] next"
    played = play_alike(generation(json.dumps({"action": "complete", "notes": notes, "final_answer": "A."})))
    assert played.texts["notes.0"] == played.verdict.notes == "✓ [1] done\n  … [2] next"
    assert played.codes == ["final_answer_with_notes"]


def test_endless_decisions_are_reported_in_part_and_the_call_ends() -> None:
    played = play_alike(generation(json.dumps(PLAN), *["{"] * 500, json.dumps(ANSWER)))
    assert played.cut == TOO_MANY
    assert [action.tool_id for action in played.verdict.actions] == ["react.plan"]
    assert played.codes == [INVALID_ITEM] * (ASKED_MAX - 1) + [TOO_MANY]


def test_decisions_after_the_first_over_the_limit_are_not_reported() -> None:
    played = play_alike(generation(*[json.dumps(READ)] * 5), SINGLE)
    assert played.codes == [TOO_MANY]


def test_an_answer_that_another_channel_closed_was_not_cut_with_what_follows() -> None:
    refused = json.dumps({**ANSWER, "tool_call": {"tool_id": "react.read", "params": {}}})
    text = generation(json.dumps(PLAN)) + (start_tag("action") + refused + start_tag("thinking") + "And then")
    played = play_alike(text, stop_reason="max_tokens")
    assert played.verdict.salvaged
    assert played.verdict.decision.final_answer == "Shown."


def test_a_cut_decision_over_the_limit_is_reported_as_over_the_limit() -> None:
    text = generation(json.dumps(READ)) + start_tag("action") + json.dumps(WRITE)[:-4]
    assert play_alike(text, SINGLE, stop_reason="max_tokens").codes == [TOO_MANY]


def test_a_whole_answer_counts_even_if_its_channel_was_not_closed() -> None:
    refused = json.dumps({**ANSWER, "tool_call": {"tool_id": "react.read", "params": {}}})
    text = generation() + start_tag("action") + refused
    for reason, stop in (("provider_error", "cut"), ("eof", "max_tokens")):
        played = play_alike(text, reason=reason, stop_reason=stop)
        assert played.verdict.decision.final_answer == "Shown."
    partial = play_alike(text[: text.index("own.")], stop_reason="max_tokens")
    assert not partial.verdict.accepted
