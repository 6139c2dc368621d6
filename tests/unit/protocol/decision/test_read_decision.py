import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.decision import Action, ParsedDecision
from stepline.protocol.decision.notice import MESSAGE_CHARS_MAX, make_notice
from tests.support.generation import end_tag, start_tag, tagged
from tests.unit.protocol.decision.read_generation import (
    CONTRACT,
    READ,
    RUN,
    TOOLS,
    Spec,
    call,
    codes,
    complete,
    generation,
    judge,
    run,
    write,
)


def test_a_call_becomes_one_action_with_the_callers_id() -> None:
    verdict = judge(generation(call(notes="reading"), thinking=" I look. "))
    assert verdict.accepted
    assert verdict.actions == (
        Action(call_id="tc_0", tool_id="react.read", params={"paths": ["ar:plan.latest"]}),
    )
    assert verdict.decision is not None
    assert verdict.decision.notes == "reading"
    assert (verdict.thinking, verdict.notices) == (("I look.",), ())


def test_a_field_of_another_type_is_refused_with_its_value() -> None:
    (notice,) = judge(generation(complete(notes=["x"]))).notices
    assert "notes must be a string or null, it was ['x']. " in notice.message


def test_parameters_in_another_order_are_refused_with_the_order_to_write_them_in() -> None:
    write = {"tool_id": "react.write", "params": {"content": "x", "path": "a.md"}}
    (notice,) = judge(generation(call(write))).notices
    assert "stood in another order than path, channel, content, kind. " in notice.message
    assert notice.extra["order"] == "path, channel, content, kind"


@pytest.mark.parametrize("action", ["complete", "exit"])
def test_an_answer_carries_its_followups_and_summary(action: str) -> None:
    decision = {"action": action, "final_answer": "A\n", "suggested_followups": ["Go on"], "tool_call": None}
    verdict = judge(generation(decision, summary="Goal: x"))
    assert verdict.decision == ParsedDecision(
        action=action, final_answer="A\n", suggested_followups=("Go on",)
    )
    assert (verdict.summary, verdict.actions, verdict.notices) == ("Goal: x", (), ())


def test_a_call_that_runs_code_gets_the_exact_program() -> None:
    verdict = judge(generation(call(RUN), code="\nprint('</channel:thinking>')\n"))
    assert verdict.actions[0].code == verdict.code == "\nprint('</channel:thinking>')\n"


@pytest.mark.parametrize("contract", [CONTRACT, json.dumps(CONTRACT), [None, *CONTRACT]])
def test_a_contract_is_a_list_or_its_json_text(contract: Any) -> None:
    assert judge(generation(run(contract=contract), code="print(1)")).accepted


REFUSED = {
    "": "action_schema_error",
    "Hello.": "decision_preamble_before_first_channel",
    "<channel:think": "decision_missing_protocol_channels",
    tagged("thinking", "a"): "action_schema_error",
    "Sure! " + generation(complete()): "decision_preamble_before_first_channel",
    generation(complete()).removeprefix(tagged("thinking", "Hm.") + "\n"): (
        "decision_first_channel_not_thinking"
    ),
    generation("call_tool"): "no_json_candidate",
    generation(json.dumps(complete()) * 2): "multi_decision_in_one_channel",
    generation('{"action": "complete", "final_answer": "half'): "json_decode_error",
    generation(json.dumps(call())[:-1]): "json_decode_error",
    generation({"action": "answer"}): "invalid_action",
    generation({"notes": "x"}): "invalid_action",
    generation({"action": ["call_tool"]}): "invalid_action",
    generation(complete(notes=["x"])): "decision_validate_error",
    generation(call("react.read")): "decision_validate_error",
    generation(call({"tool_id": 7, "params": {}})): "decision_validate_error",
    generation(complete(None)): "final_answer_required",
    generation(complete(" \n")): "final_answer_required",
    generation(complete(tool_call=READ)): "tool_call_with_final_answer",
    generation(call(None)): "missing_tool_id",
    generation(call({"params": {"paths": []}})): "missing_tool_id",
    generation(call({"tool_id": "react.raed", "params": {}})): "unknown_tool_id",
    generation(call({"tool_id": "ctx_tools.fetch_ctx", "params": {}})): "tool_not_allowed_in_react",
    generation(call({"tool_id": "react.read", "params": ["a"]})): "bad_params",
    generation(call({"tool_id": "react.read", "params": {}})): "bad_params",
    generation(call({"tool_id": "react.read", "params": {"paths": [], "mode": 1}})): "bad_params",
    generation(write(content="c", path="p")): "path_not_first",
    generation(write(path="p", content="c", channel="canvas")): "channel_not_second",
    generation(write(path="p", channel="canvas", kind="file", content="c")): "content_not_third",
    generation(
        write(path="p", channel="canvas", content="c", scratchpad=True, kind="file")
    ): "kind_not_fourth",
    generation(call({"tool_id": "react.patch", "params": {"patch": "p", "path": "p"}})): "path_not_first",
    generation(call({"tool_id": "react.patch", "params": {"path": "p", "patch": "p", "channel": "c"}})): (
        "channel_not_second"
    ),
    generation(call({"tool_id": "react.patch", "params": {"path": "p", "kind": "file", "patch": "p"}})): (
        "patch_not_third"
    ),
    generation(call(), code="print(1)"): "code_channel_without_single_exec",
    generation(call(RUN)): "code_channel_missing",
    generation(run(), code="a"): "missing_contract",
    generation(run(contract=[]), code="a"): "missing_contract",
    generation(run(contract=" \n"), code="a"): "missing_contract",
    generation(run(contract="outputs/a.csv"), code="a"): "invalid_contract",
    generation(run(contract='{"filename": "a"}'), code="a"): "invalid_contract",
    generation(run(contract=["outputs/a.csv"]), code="a"): "invalid_contract",
    generation(run(contract={"a": "outputs/a.csv"}), code="a"): "invalid_contract",
    generation(run(contract=CONTRACT, language="R"), code="a"): "bad_params",
    generation(call(RUN), code="a") + tagged("code", "b"): "code_channel_without_single_exec",
}


@pytest.mark.parametrize(
    ("text", "code"), REFUSED.items(), ids=lambda value: value[-60:] if value else "empty"
)
def test_a_refused_decision_runs_nothing_and_says_why(text: str, code: str) -> None:
    verdict = judge(text)
    assert codes(verdict) == [code]
    assert not verdict.accepted
    assert (verdict.decision, verdict.actions, verdict.summary) == (None, (), "")


TOLERATED = {
    "Sure! " + generation(complete()): "decision_preamble_before_first_channel",
    generation(complete()) + "That is all.": "text_outside_channels",
    generation(complete()).removeprefix(tagged("thinking", "Hm.") + "\n"): (
        "decision_first_channel_not_thinking"
    ),
    generation(json.dumps(call())[:-1]): "decision_repaired",
    generation(json.dumps(complete()) + '{"action": "comp'): "multi_decision_in_one_channel",
    generation(complete()) + tagged("plan", "1."): "unknown_channel",
    generation(complete()).replace(end_tag("thinking"), ""): "channel_not_closed",
    generation(complete(notes="✓ [1] done\nAnd more.")): "final_answer_with_notes",
    generation(complete(suggested_followups=["a", 7])): "suggested_followups_dropped",
    generation(complete(suggested_followups="a")): "suggested_followups_dropped",
    generation(dict(reversed(complete().items()))): "identity_not_first",
    generation(call(dict(reversed(READ.items())))): "identity_not_first",
    generation(
        call({"tool_id": RUN["tool_id"], "params": {"prog_name": "a", "contract": CONTRACT}}), code="x"
    ): ("params_not_as_documented"),
    generation(call(final_answer="Done.")): "final_answer_with_tool_call",
    generation(complete(), code="print(1)"): "code_channel_without_single_exec",
}


@pytest.mark.parametrize(("text", "code"), TOLERATED.items(), ids=lambda value: value[-60:])
def test_a_correctable_error_is_corrected_and_reported(text: str, code: str) -> None:
    verdict = judge(text, strict=False)
    assert verdict.accepted
    assert codes(verdict) == [code]


def test_an_answer_may_acknowledge_the_last_step_of_a_plan() -> None:
    verdict = judge(generation(complete(notes="✓ [3] read back")))
    assert verdict.decision is not None
    assert (verdict.decision.notes, codes(verdict)) == ("✓ [3] read back", [])


def test_an_answer_beside_a_call_is_dropped_and_the_tool_runs() -> None:
    verdict = judge(generation(call(final_answer="Done.")))
    assert verdict.decision is not None
    assert verdict.decision.final_answer is None
    assert [one.tool_id for one in verdict.actions] == ["react.read"]


def test_other_notes_beside_an_answer_are_dropped() -> None:
    verdict = judge(generation(complete(notes="One more thing.")))
    assert verdict.decision == ParsedDecision(action="complete", final_answer="Done.")


def test_an_empty_call_beside_an_answer_is_none() -> None:
    assert judge(generation(complete(tool_call={"tool_id": "", "params": {}}))).notices == ()


def test_unknown_keys_are_ignored() -> None:
    assert judge(generation(complete(reasoning="because"))).notices == ()


def test_a_tolerant_judge_drops_a_short_preamble_and_no_long_one() -> None:
    for chars, accepted in ((200, True), (201, False)):
        verdict = judge("x" * chars + generation(complete()), strict=False)
        assert (verdict.accepted, codes(verdict)) == (accepted, ["decision_preamble_before_first_channel"])
        assert verdict.notices[0].extra["preamble_chars"] == chars


def test_a_text_without_channels_is_refused_in_tolerant_mode_too() -> None:
    assert codes(judge("Hello.", strict=False)) == ["decision_missing_protocol_channels"]


def test_the_last_round_accepts_only_an_answer() -> None:
    assert codes(judge(generation(call()), last_round=True)) == ["last_round_requires_answer"]
    assert judge(generation(complete()), last_round=True).accepted


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "cut", "too_long"])
def test_a_cut_decision_is_reported_as_cut_and_not_as_invalid_json(reason: str) -> None:
    text = generation(write(path="p", channel="canvas", content="long"))
    verdict = judge(text[: text.index("long")], stop_reason=reason)
    assert (verdict.accepted, codes(verdict)) == (False, ["generation_truncated"])
    assert verdict.notices[0].extra["parser_error"].startswith("json_decode_error")


def test_a_cut_after_the_decision_does_no_harm() -> None:
    text = generation(complete(), summary="Goal: a long summary")
    verdict = judge(text[: text.index("a long")], stop_reason="max_tokens")
    assert (verdict.accepted, codes(verdict)) == (True, ["generation_truncated"])


def test_a_cut_program_does_not_run() -> None:
    text = generation(call(RUN), code="print(1)\nprint(2)")
    verdict = judge(text[: text.index("nt(2)")], stop_reason="max_tokens")
    assert (verdict.accepted, codes(verdict)) == (False, ["generation_truncated"])


def test_a_shown_answer_counts_even_if_its_decision_is_refused() -> None:
    verdict = judge(
        generation('{"action": "complete", "final_answer": "Done.", oops'), streamed_answer="Done."
    )
    assert (verdict.accepted, verdict.salvaged) == (True, True)
    assert verdict.decision == ParsedDecision(action="complete", final_answer="Done.")
    assert codes(verdict) == ["answer_kept_from_stream"]
    assert verdict.notices[0].extra["reason"] == "json_decode_error"


def test_a_partial_answer_counts_only_in_the_last_round() -> None:
    text = generation(complete("half an answer"))
    text = text[: text.index(" an answer")]
    for last_round in (False, True):
        verdict = judge(text, stop_reason="max_tokens", streamed_answer="half", last_round=last_round)
        assert verdict.accepted is verdict.salvaged is last_round


def test_a_notice_with_an_unknown_code_is_an_error() -> None:
    with pytest.raises(ValueError, match="unlisted"):
        make_notice("no_such_code", "x")


def test_a_wrong_order_without_a_specific_code_has_the_general_one() -> None:
    spec = Spec(("a", "b"), frozenset({"a", "b"}))
    text = generation(call({"tool_id": "x.y", "params": {"b": 1, "a": 2}}))
    assert codes(judge(text, tools={"x.y": spec}, allowed={"x.y"})) == ["params_out_of_order"]


def test_a_notice_has_a_bounded_size() -> None:
    huge = "ü" * 100_000
    for text in (
        huge,
        f"{huge}{generation(complete())}",
        generation(f'{{"action": "{huge}'),
        generation({"action": huge}),
        generation(call({"tool_id": huge, "params": {}})),
        generation(call({"tool_id": huge, "params": [huge]})),
        generation(call({"tool_id": "react.read", "params": {huge: 1}})),
        generation(complete(notes=[huge])),
        generation(complete(tool_call={"tool_id": huge})),
        (f"<channel:{'x' * 48}>" + end_tag("x")) * 5000 + generation(complete()),
        generation(call(), call({"tool_id": huge, "params": {huge: 1}}), f'{{"action": "{huge}'),
    ):
        for strict in (True, False):
            for notice in judge(text, strict=strict).notices:
                assert len(notice.message) <= MESSAGE_CHARS_MAX
                assert len(json.dumps(notice.extra, ensure_ascii=False)) <= 4000


PARTS = st.sampled_from(
    [
        *(
            start_tag("thinking"),
            end_tag("thinking"),
            start_tag("action"),
            end_tag("action"),
            start_tag("code"),
        ),
        *(
            end_tag("code"),
            start_tag("plan"),
            '{"action": "complete"',
            ', "final_answer": "x"',
            "}",
            '"call_tool"',
        ),
        *(
            json.dumps(call()),
            json.dumps(complete()),
            json.dumps(call(RUN)),
            '{"action":',
            "null",
            "[",
            "{",
            "```json\n",
        ),
    ]
)


@given(
    text=st.lists(PARTS | st.text(max_size=4), max_size=12).map("".join),
    last_round=st.booleans(),
    stop_reason=st.sampled_from(["end_turn", "max_tokens"]),
    streamed=st.sampled_from(["", "seen"]),
    strict=st.booleans(),
)
def test_any_text_has_a_verdict(
    text: str, last_round: bool, stop_reason: str, streamed: str, strict: bool
) -> None:
    verdict = judge(
        text, last_round=last_round, stop_reason=stop_reason, streamed_answer=streamed, strict=strict
    )
    assert verdict.accepted == (verdict.decision is not None)
    assert verdict.accepted or verdict.notices
    if verdict.decision:
        assert bool(verdict.actions) == (verdict.decision.action == "call_tool")
        assert bool(verdict.actions) != bool(verdict.decision.final_answer)
    assert not (last_round and verdict.actions)


@pytest.mark.parametrize(("old", "new"), [("react.stream", "react.write"), ("react.file", "react.write")])
def test_an_old_name_of_a_tool_answers_with_the_new_one(old: str, new: str) -> None:
    (notice,) = judge(generation(call({"tool_id": old, "params": {}}))).notices
    assert (notice.code, notice.extra["renamed_to"]) == ("unknown_tool_id", new)
    assert f"{old} is now {new}." in notice.message


def test_an_old_name_whose_tool_is_not_there_answers_with_the_catalogue() -> None:
    (notice,) = judge(generation(call({"tool_id": "react.memory_read", "params": {}}))).notices
    assert "renamed_to" not in notice.extra
    assert "react.memsearch" not in notice.message
    known = {**TOOLS, "react.memsearch": Spec()}
    (notice,) = judge(
        generation(call({"tool_id": "react.memory_read", "params": {}})), tools=known, allowed=set(known)
    ).notices
    assert notice.extra["renamed_to"] == "react.memsearch"
