import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.decision import Action, ParsedDecision
from stepline.protocol.channel import read_channels
from stepline.protocol.decision import Verdict, read_decision
from stepline.protocol.notice import MESSAGE_CHARS_MAX, NOTICES, make_notice

EXEC = "exec_tools.execute_code_python"


@dataclass(frozen=True)
class Spec:
    """A contract: which parameters there are, and which must be there."""

    key_order: tuple[str, ...] = ()
    known: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    runs_code: bool = False

    def validate(self, params: Any) -> list[str]:
        unknown = [f"{key} is unknown" for key in params if key not in self.known]
        return unknown + [f"{key} is missing" for key in sorted(self.required) if key not in params]

    def misplaced(self, params: Any) -> list[str]:
        ordinals = ("first", "second", "third", "fourth")
        wanted = [key for key in self.key_order if key in params]
        return [
            f"{key}_not_{ordinals[self.key_order.index(key)]}"
            for key, found in zip(wanted, params, strict=False)
            if key != found
        ]


WRITE_KEYS = ("path", "channel", "content", "kind")
TOOLS = {
    "react.read": Spec(known=frozenset({"paths"}), required=frozenset({"paths"})),
    "react.write": Spec(WRITE_KEYS, frozenset({*WRITE_KEYS, "scratchpad"}), frozenset({"path", "content"})),
    "react.patch": Spec(("path", "channel", "patch"), frozenset({"path", "channel", "patch"})),
    "ctx_tools.fetch_ctx": Spec(),
    EXEC: Spec(known=frozenset({"contract", "prog_name"}), runs_code=True),
}
ALLOWED = set(TOOLS) - {"ctx_tools.fetch_ctx"}
READ = {"tool_id": "react.read", "params": {"paths": ["ar:plan.latest"]}}
CONTRACT = [{"filename": "outputs/a.csv", "description": "the table"}]
RUN = {"tool_id": EXEC, "params": {"contract": CONTRACT}}


def judge(text: str, **options: Any) -> Verdict:
    return read_decision(
        read_channels(text),
        tools=TOOLS,
        allowed_tools=ALLOWED,
        call_id=lambda index: f"tc_{index}",
        **options,
    )


def generation(*decisions: Any, code: str = "", summary: str = "", thinking: str = "Hm.") -> str:
    bodies = [one if isinstance(one, str) else json.dumps(one) for one in decisions]
    return "".join(
        [
            f"<channel:thinking>{thinking}</channel:thinking>\n",
            *(
                f"<channel:ReactDecisionOutV2>\n```json\n{body}\n```\n</channel:ReactDecisionOutV2>\n"
                for body in bodies
            ),
            f"<channel:code>{code}</channel:code>\n",
            f"<channel:summary>{summary}</channel:summary>" if summary else "",
        ]
    )


def call(tool_call: Any = READ, **fields: Any) -> dict[str, Any]:
    return {"action": "call_tool", "tool_call": tool_call, **fields}


def write(**params: Any) -> dict[str, Any]:
    return call({"tool_id": "react.write", "params": params})


def run(**params: Any) -> dict[str, Any]:
    return call({"tool_id": EXEC, "params": params})


def complete(answer: str | None = "Done.", **fields: Any) -> dict[str, Any]:
    return {"action": "complete", "final_answer": answer, **fields}


def codes(verdict: Verdict) -> list[str]:
    return [one.code for one in verdict.notices]


def test_a_call_becomes_one_action_with_the_callers_id() -> None:
    verdict = judge(generation(call(notes="reading"), thinking=" I look. "))
    assert verdict.accepted
    assert verdict.actions == (
        Action(call_id="tc_0", tool_id="react.read", params={"paths": ["ar:plan.latest"]}),
    )
    assert verdict.decision is not None
    assert verdict.decision.notes == "reading"
    assert (verdict.thinking, verdict.notices) == (("I look.",), ())


@pytest.mark.parametrize("action", ["complete", "exit"])
def test_an_answer_carries_its_followups_and_summary(action: str) -> None:
    decision = {"action": action, "final_answer": "A\n", "suggested_followups": ["Go on"], "tool_call": None}
    verdict = judge(generation(decision, summary="Goal: x"))
    assert verdict.decision == ParsedDecision(
        action=action, final_answer="A\n", suggested_followups=("Go on",)
    )
    assert (verdict.summary, verdict.actions, verdict.notices) == ("Goal: x", (), ())


def test_a_call_that_runs_code_takes_the_program_as_it_was_written() -> None:
    verdict = judge(generation(call(RUN), code="\nprint('</channel:thinking>')\n"))
    assert verdict.actions[0].code == verdict.code == "\nprint('</channel:thinking>')\n"


@pytest.mark.parametrize("contract", [CONTRACT, json.dumps(CONTRACT), [None, *CONTRACT]])
def test_a_contract_is_a_list_or_its_json_text(contract: Any) -> None:
    assert judge(generation(run(contract=contract), code="print(1)")).accepted


REFUSED = {
    "": "action_schema_error",
    "Hello.": "decision_missing_protocol_channels",
    "<channel:thinking>a</channel:thinking>": "action_schema_error",
    "x" * 201 + generation(complete()): "decision_preamble_before_first_channel",
    generation(complete(), complete()): "action_schema_error",
    generation("call_tool"): "no_json_candidate",
    generation(json.dumps(complete()) * 2): "expected_single_json_candidate",
    generation('{"action": "complete"'): "json_decode_error",
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
    generation(call(RUN), code="a") + "<channel:code>b</channel:code>": "code_channel_without_single_exec",
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
    generation(complete()).removeprefix("<channel:thinking>Hm.</channel:thinking>\n"): (
        "decision_first_channel_not_thinking"
    ),
    generation(complete()) + "<channel:plan>1.</channel:plan>": "unknown_channel",
    generation(complete()).replace("</channel:thinking>", ""): "channel_not_closed",
    generation(complete(notes="✓ [1] done\nAnd more.")): "final_answer_with_notes",
    generation(complete(suggested_followups=["a", 7])): "suggested_followups_dropped",
    generation(complete(suggested_followups="a")): "suggested_followups_dropped",
    generation(dict(reversed(complete().items()))): "identity_not_first",
    generation(call(dict(reversed(READ.items())))): "identity_not_first",
    generation(call(final_answer="Done.")): "final_answer_with_tool_call",
    generation(complete(), code="print(1)"): "code_channel_without_single_exec",
}


@pytest.mark.parametrize(("text", "code"), TOLERATED.items(), ids=lambda value: value[-60:])
def test_what_can_be_put_right_is_put_right_and_told(text: str, code: str) -> None:
    verdict = judge(text)
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


def test_keys_nobody_asked_for_are_read_over() -> None:
    assert judge(generation(complete(reasoning="because"))).notices == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Sure! " + generation(complete()), "decision_preamble_before_first_channel"),
        (
            generation(complete()).removeprefix("<channel:thinking>Hm.</channel:thinking>\n"),
            "decision_first_channel_not_thinking",
        ),
    ],
)
def test_strict_mode_tolerates_no_other_beginning(text: str, code: str) -> None:
    verdict = judge(text, strict=True)
    assert (verdict.accepted, codes(verdict)) == (False, [code])


def test_the_last_round_takes_an_answer_only() -> None:
    assert codes(judge(generation(call()), last_round=True)) == ["last_round_requires_answer"]
    assert judge(generation(complete()), last_round=True).accepted


def test_a_cut_decision_is_told_as_cut_and_not_as_broken_json() -> None:
    text = generation(write(path="p", channel="canvas", content="long"))
    verdict = judge(text[: text.index("long")], stop_reason="max_tokens")
    assert (verdict.accepted, codes(verdict)) == (False, ["generation_truncated"])
    assert verdict.notices[0].extra["parser_error"].startswith("json_decode_error")


def test_a_cut_behind_the_decision_does_no_harm() -> None:
    text = generation(complete(), summary="Goal: a long summary")
    verdict = judge(text[: text.index("a long")], stop_reason="max_tokens")
    assert (verdict.accepted, codes(verdict)) == (True, ["generation_truncated"])


def test_a_cut_program_does_not_run() -> None:
    text = generation(call(RUN), code="print(1)\nprint(2)")
    verdict = judge(text[: text.index("nt(2)")], stop_reason="max_tokens")
    assert (verdict.accepted, codes(verdict)) == (False, ["generation_truncated"])


def test_an_answer_the_user_has_seen_stands_though_its_decision_is_refused() -> None:
    verdict = judge(
        generation('{"action": "complete", "final_answer": "Done.", oops'), streamed_answer="Done."
    )
    assert (verdict.accepted, verdict.salvaged) == (True, True)
    assert verdict.decision == ParsedDecision(action="complete", final_answer="Done.")
    assert codes(verdict) == ["answer_kept_from_stream"]
    assert verdict.notices[0].extra["reason"] == "json_decode_error"


def test_half_an_answer_stands_in_the_last_round_only() -> None:
    text = generation(complete("half an answer"))
    text = text[: text.index(" an answer")]
    for last_round in (False, True):
        verdict = judge(text, stop_reason="max_tokens", streamed_answer="half", last_round=last_round)
        assert verdict.accepted is verdict.salvaged is last_round


def test_every_code_is_listed_and_was_met_here() -> None:
    met = {*REFUSED.values(), *TOLERATED.values()}
    elsewhere = {
        "generation_truncated",
        "last_round_requires_answer",
        "answer_kept_from_stream",
        "params_out_of_order",
    }
    assert met | elsewhere == set(NOTICES)
    with pytest.raises(ValueError, match="unlisted"):
        make_notice("no_such_code", "x")


def test_an_order_without_a_code_of_its_own_has_the_general_one() -> None:
    spec = Spec(("a", "b"), frozenset({"a", "b"}))
    text = generation(call({"tool_id": "x.y", "params": {"b": 1, "a": 2}}))
    verdict = read_decision(
        read_channels(text), tools={"x.y": spec}, allowed_tools={"x.y"}, call_id=lambda index: f"tc_{index}"
    )
    assert codes(verdict) == ["params_out_of_order"]


def test_a_notice_stays_small_whatever_the_model_wrote() -> None:
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
        f"<channel:{'x' * 48}></channel:x>" * 5000 + generation(complete()),
    ):
        for notice in judge(text).notices:
            assert len(notice.message) <= MESSAGE_CHARS_MAX
            assert len(json.dumps(notice.extra, ensure_ascii=False)) <= 4000


PARTS = st.sampled_from(
    [
        *(
            "<channel:thinking>",
            "</channel:thinking>",
            "<channel:action>",
            "</channel:action>",
            "<channel:code>",
        ),
        *(
            "</channel:code>",
            "<channel:plan>",
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
)
def test_any_text_has_a_verdict(text: str, last_round: bool, stop_reason: str, streamed: str) -> None:
    verdict = judge(text, last_round=last_round, stop_reason=stop_reason, streamed_answer=streamed)
    assert verdict.accepted == (verdict.decision is not None)
    assert verdict.accepted or len(verdict.notices) == 1
    if verdict.decision:
        assert bool(verdict.actions) == (verdict.decision.action == "call_tool")
        assert bool(verdict.actions) != bool(verdict.decision.final_answer)
    assert not (last_round and verdict.actions)
