"""Several actions in one round: the accepted ones, their order, and the notices for the others."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.source import Citation
from stepline.protocol.decision.fanout import TOO_MANY, Admission, Candidate, FanoutRule, find_refusal
from stepline.protocol.decision.read import read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import ChannelParser
from tests.support.generation import start_tag, tagged
from tests.unit.protocol.decision.read_generation import (
    ALLOWED,
    BY_NAME,
    CONTRACT,
    EXEC,
    FANOUT,
    TOOLS,
    anywhere,
    call,
    codes,
    complete,
    decide,
    generation,
    judge,
    plan,
    program,
    ran,
    read,
    run,
    search,
    think,
    write,
)

ONE = write(path="outputs/a.md", content="a")
TWO = write(path="outputs/b.md", content="b")
PDF = call(
    {"tool_id": "rendering_tools.write_pdf", "params": {"path": "a.pdf", "content": "ref:outputs/a.md"}}
)
MANY = "multi_action_bundle_"


# --- what counts


def test_actions_that_fit_run_in_the_order_in_which_they_were_written() -> None:
    verdict = judge(generation(ONE, read("x"), plan("look")), fanout=FANOUT)
    assert ran(verdict) == ["react.write", "react.read", "react.plan"]
    assert [action.call_id for action in verdict.actions] == ["tc_0", "tc_1", "tc_2"]
    assert verdict.notices == ()


def test_thinking_between_actions_changes_nothing() -> None:
    text = think("a") + decide(ONE) + think("b") + decide(TWO) + think("c")
    verdict = judge(text, fanout=FANOUT)
    assert (ran(verdict), verdict.thinking) == (["react.write", "react.write"], ("a", "b", "c"))


def test_the_notes_of_every_decision_that_counts_are_the_rounds() -> None:
    text = generation(
        {**ONE, "notes": "one"}, read("x", notes="no"), plan("s", notes="✓ [1] done"), plan("s", notes="x")
    )
    verdict = judge(text, fanout=FANOUT)
    assert verdict.notes == "one\nno\n✓ [1] done"


def test_blank_decisions_do_not_count_and_a_call_is_named_by_its_instance() -> None:
    verdict = judge(think() + tagged("action", " \n") + decide(ONE) + decide(TWO), fanout=FANOUT)
    assert [action.call_id for action in verdict.actions] == ["tc_1", "tc_2"]


def test_a_neutral_action_runs_beside_an_answer_on_either_side() -> None:
    verdict = judge(generation(plan("a"), complete("Done."), plan("b"), summary="Goal"), fanout=FANOUT)
    assert verdict.decision is not None
    assert (verdict.decision.final_answer, ran(verdict), verdict.summary) == (
        "Done.",
        ["react.plan", "react.plan"],
        "Goal",
    )


def test_the_deployment_limits_the_actions_of_a_round() -> None:
    text = generation(*[write(path=f"{i}.md", content="x") for i in range(10)])
    assert len(judge(text, fanout=FANOUT).actions) == 8
    assert len(judge(text, fanout=FanoutRule(mode="safe_fanout", max_actions=3)).actions) == 3


# --- one notice for each that does not

REFUSED: dict[str, tuple[str, Any, list[str]]] = {
    f"{MANY}too_many_actions": (
        generation(ONE, TWO),
        FanoutRule(mode="safe_fanout", max_actions=1),
        ["react.write"],
    ),
    f"{MANY}strategy_incompatible": (generation(read("x"), ONE), FANOUT, ["react.read"]),
    f"{MANY}final_answer_after_non_neutral": (generation(ONE, complete()), FANOUT, ["react.write"]),
    f"{MANY}non_neutral_after_final_answer": (generation(complete(), ONE), FANOUT, []),
    f"{MANY}mixed_actions": (generation(ONE, complete()), BY_NAME, ["react.write"]),
    f"{MANY}unsafe_tool": (generation(ONE, plan("a")), BY_NAME, ["react.write"]),
    f"{MANY}duplicate": (generation(read("x", notes="a"), read("x", notes="b")), FANOUT, ["react.read"]),
    f"{MANY}same_file_collision": (
        generation(ONE, write(path="a.md", content="another")),
        FANOUT,
        ["react.write"],
    ),
    f"{MANY}render_consumes_same_round_source": (generation(ONE, PDF), FANOUT, ["react.write"]),
    f"{MANY}invalid_item": (generation(ONE, '{"notes": "which?"}'), FANOUT, ["react.write"]),
    "bad_params": (generation(ONE, write(path="b.md")), FANOUT, ["react.write"]),
    "unknown_tool_id": (
        generation(ONE, call({"tool_id": "react.raed", "params": {}})),
        FANOUT,
        ["react.write"],
    ),
    "json_decode_error": (generation(ONE, json.dumps(TWO)[:-3]), FANOUT, ["react.write"]),
    "multi_decision_in_one_channel": (generation(ONE, json.dumps(TWO) * 2), FANOUT, ["react.write"]),
    "code_channel_missing": (
        generation(run(contract=CONTRACT), TWO, code="print(1)"),
        FANOUT,
        ["react.write"],
    ),
}


@pytest.mark.parametrize(("code", "case"), REFUSED.items(), ids=REFUSED)
def test_an_incompatible_action_costs_only_a_notice(
    code: str, case: tuple[str, FanoutRule, list[str]]
) -> None:
    text, rule, runs = case
    verdict = judge(text, fanout=rule)
    assert verdict.accepted
    assert ran(verdict) == runs
    (notice,) = [one for one in verdict.notices if one.code == code]
    index = notice.extra["index"]
    assert notice.message.startswith(f"Action {index} was not run: ")
    assert "Nothing ran" not in notice.message
    assert notice.extra["parent_tool_call_id"] == f"tc_{index - 1}"


def test_an_action_with_invalid_parameters_counts_for_later_ones() -> None:
    verdict = judge(generation(write(path="a.md"), complete("I wrote a.md.")), fanout=FANOUT)
    assert not verdict.accepted
    assert codes(verdict) == ["bad_params", f"{MANY}final_answer_after_non_neutral"]


@pytest.mark.parametrize(
    "odd", ['{"notes": ""}', "no JSON", {"action": "guess"}, call({"tool_id": "x", "params": {}}), call(None)]
)
def test_an_answer_after_an_unreadable_decision_is_refused(odd: Any) -> None:
    verdict = judge(generation(odd, complete("I did it.")), fanout=FANOUT)
    assert not verdict.accepted
    assert codes(verdict)[-1] == f"{MANY}final_answer_after_non_neutral"


def test_an_answer_counts_in_the_last_round_and_its_neutral_action_does_not_run() -> None:
    verdict = judge(generation(plan("a"), complete()), fanout=FANOUT, last_round=True)
    assert (verdict.accepted, ran(verdict), codes(verdict)) == (True, [], ["last_round_requires_answer"])
    assert not judge(generation(ONE, complete()), fanout=FANOUT, last_round=True).accepted


def test_a_tolerated_error_names_its_decision_if_there_are_several() -> None:
    slip = {"tool_call": ONE["tool_call"], "action": "call_tool"}
    (notice,) = judge(generation(TWO, slip), fanout=FANOUT).notices
    assert (notice.code, notice.extra) == ("identity_not_first", {"decision": 2})
    assert "index" not in notice.extra  # that is for those that did not run


def test_a_round_without_a_valid_decision_is_refused_with_a_notice_for_each() -> None:
    verdict = judge(generation(write(path="a"), write(content="b")), fanout=FANOUT)
    assert (verdict.accepted, verdict.actions, codes(verdict)) == (False, (), ["bad_params", "bad_params"])


def test_a_tool_of_unknown_kind_runs_alone() -> None:
    other = call({"tool_id": "mcp.other", "params": {}})
    assert ran(judge(generation(other), fanout=FANOUT)) == ["mcp.other"]
    assert ran(judge(generation(other, read("x")), fanout=FANOUT)) == ["mcp.other"]
    assert ran(judge(generation(read("x"), other), fanout=FANOUT)) == ["react.read"]


# --- by what an action reads and writes

LOGBOOK = write(path="logbook.md", content="We met at nine.")


def test_a_write_that_is_independent_of_two_searches_runs_after_them() -> None:
    verdict = judge(generation(search("heron"), search("reed bed"), LOGBOOK, search("tern")), fanout=FANOUT)
    assert ran(verdict) == [*["web_tools.web_search"] * 2, "react.write", "web_tools.web_search"]
    assert verdict.notices == ()


@pytest.mark.parametrize(
    "made",
    [
        write(path="notes.md", content="# Grey   Herons\n\nThey stand."),
        write(path="grey_herons.md", content="They stand."),
        write(path="notes.md", content={"herons": [1]}),
        write(path="notes.md", content="Seen [[S:7]]."),
        write(path="notes.md", content=["Seen [[S:1-7]]."]),
    ],
)
def test_a_write_about_a_search_or_with_an_unknown_citation_is_refused(made: Any) -> None:
    known = {1: Citation(sid=1, title="Known", url="https://example.com")}
    looks = search("reed bed"), search("grey herons", objective="How herons fish")
    verdict = judge(generation(*looks, made, LOGBOOK), fanout=FANOUT, sources=known)
    assert ran(verdict) == ["web_tools.web_search", "web_tools.web_search", "react.write"]
    (notice,) = verdict.notices
    assert (notice.code, notice.extra["index"]) == (f"{MANY}strategy_incompatible", 3)


def test_a_write_that_cites_known_sources_runs_after_a_search() -> None:
    known = {7: Citation(sid=7, title="Known", url="https://example.com")}
    text = generation(search("tern"), write(path="notes.md", content="They fish [[S:7]]."))
    assert judge(text, fanout=FANOUT, sources=known).notices == ()


@pytest.mark.parametrize("first", [read("x"), call({"tool_id": "mcp.other", "params": {}})])
def test_no_action_is_independent_of_an_unknown_or_unrestricted_tool(first: Any) -> None:
    assert codes(judge(generation(first, LOGBOOK), fanout=FANOUT)) == [f"{MANY}strategy_incompatible"]


def test_a_tool_that_may_read_anything_is_not_independent_of_a_search() -> None:
    patch = call({"tool_id": "react.patch", "params": {"path": "a.md", "channel": "canvas", "patch": "x"}})
    assert ran(judge(generation(search("tern"), patch), fanout=FANOUT)) == ["web_tools.web_search"]


# --- off


def test_mode_off_runs_the_first_action_and_refuses_the_second() -> None:
    verdict = judge(generation(ONE, TWO))
    assert (ran(verdict), codes(verdict)) == (["react.write"], [f"{MANY}too_many_actions"])
    assert Admission(FanoutRule(), TOOLS, ALLOWED).full is False


def test_mode_off_runs_nothing_after_a_refused_first_action() -> None:
    verdict = judge(generation(call({"tool_id": "x.y", "params": {}}), complete("All done.")))
    assert (verdict.accepted, codes(verdict)) == (False, ["unknown_tool_id", f"{MANY}too_many_actions"])


def test_mode_off_keeps_an_answer_and_drops_the_action_after_it() -> None:
    verdict = judge(generation(complete("Done."), ONE), streamed_answer="Done.")
    assert (verdict.accepted, verdict.salvaged, verdict.actions) == (True, False, ())


# --- programs


def test_a_program_belongs_to_the_decision_right_before_it() -> None:
    text = think() + decide(ONE) + decide(run(contract=CONTRACT)) + program("print(1)") + decide(TWO)
    verdict = judge(text, fanout=FANOUT)
    assert [(action.tool_id, action.code) for action in verdict.actions] == [
        ("react.write", None),
        (EXEC, "print(1)"),
        ("react.write", None),
    ]
    assert verdict.notices == ()


def test_a_program_after_another_decision_does_not_run() -> None:
    text = think() + decide(read("x")) + program("print(1)") + decide(plan("a")) + program(" ")
    verdict = judge(text, fanout=FANOUT)
    assert (ran(verdict), codes(verdict)) == (
        ["react.read", "react.plan"],
        ["code_channel_without_single_exec"],
    )


def test_two_programs_after_one_decision_are_refused() -> None:
    text = think() + decide(run(contract=CONTRACT)) + program("a") + program("b") + decide(TWO)
    verdict = judge(text, fanout=FANOUT)
    assert (ran(verdict), codes(verdict)) == (["react.write"], ["code_channel_without_single_exec"])


def test_a_round_runs_at_most_one_program() -> None:
    other = run(contract=[{"filename": "b.csv", "description": "b"}])
    text = think() + decide(run(contract=CONTRACT)) + program("a") + decide(other) + program("b")
    verdict = judge(text, fanout=FANOUT)
    assert (ran(verdict), codes(verdict)) == ([EXEC], [f"{MANY}unsafe_tool"])


def test_a_single_decision_owns_the_program_in_any_position() -> None:
    text = think() + program("print(1)") + decide(run(contract=CONTRACT))
    assert judge(text, fanout=FANOUT).actions[0].code == "print(1)"


@pytest.mark.parametrize("key", ["filename", "filepath"])
@pytest.mark.parametrize("name", ["outputs/a.md", "a.md", "turn_1/outputs/a.md", "fi:turn_1.outputs/a.md"])
def test_the_files_of_a_contract_collide_with_those_that_are_written(key: str, name: str) -> None:
    contract: Any = [None, {key: name, "description": "x"}]
    for asked in (contract, json.dumps(contract)):
        text = think() + decide(run(contract=asked)) + program("print(1)") + decide(ONE)
        assert codes(judge(text, fanout=FANOUT)) == [f"{MANY}same_file_collision"]
        text = think() + decide(ONE) + decide(run(contract=asked)) + program("print(1)")
        assert ran(judge(text, fanout=FANOUT)) == ["react.write"]


def test_a_file_that_is_used_where_it_was_written_before_the_round_is_no_collision() -> None:
    other = {
        **PDF,
        "tool_call": {
            "tool_id": "rendering_tools.write_pdf",
            "params": {"path": "a.pdf", "content": "ref:fi:turn_0.outputs/a.md"},
        },
    }
    assert judge(generation(ONE, other), fanout=FANOUT).notices == ()


# --- answers that were seen


def test_a_shown_answer_counts_with_its_neutral_actions_if_it_is_refused() -> None:
    broken = '{"action": "complete", "final_answer": "Done.", oops'
    verdict = judge(
        generation(plan("a"), broken, call({"tool_id": "react.plan", "params": {}})),
        fanout=FANOUT,
        streamed_answer="Done.",
    )
    assert (verdict.salvaged, ran(verdict)) == (True, ["react.plan"])
    assert verdict.decision is not None
    assert verdict.decision.final_answer == "Done."
    assert codes(verdict) == ["answer_kept_from_stream", "json_decode_error", "bad_params"]
    assert verdict.notices[0].extra["reason"] == "json_decode_error"


def test_a_shown_answer_counts_even_if_a_sibling_is_refused() -> None:
    verdict = judge(generation(complete("Done."), ONE), fanout=FANOUT, streamed_answer="Done.")
    assert (verdict.salvaged, verdict.accepted, verdict.actions) == (False, True, ())


def test_an_answer_with_unescaped_quotes_counts_in_full() -> None:
    body = '{"action": "complete", "final_answer": "he said "yes", then left"}'
    verdict = judge(generation(body), streamed_answer="he said ")
    assert verdict.decision is not None
    assert verdict.decision.final_answer == 'he said "yes", then left'
    assert (verdict.salvaged, codes(verdict)) == (False, ["decision_repaired"])


def test_a_repaired_call_runs_only_in_tolerant_mode() -> None:
    broken = generation(
        '{"action": "call_tool", "tool_call": {"tool_id": "react.read", "params": {"paths": ["a "b" c"]}}}'
    )
    assert codes(judge(broken)) == ["json_decode_error"]
    verdict = judge(broken, strict=False)
    assert (verdict.actions[0].params, codes(verdict)) == ({"paths": ['a "b" c']}, ["decision_repaired"])


def test_an_extra_comma_is_not_a_guess() -> None:
    assert judge(generation(json.dumps(read("x"))[:-1] + ",}")).notices == ()


# --- a stream that was ended


def test_whole_decisions_of_a_stream_that_we_ended_count() -> None:
    parser = ChannelParser()
    parser.feed(think() + decide(ONE) + start_tag("action") + json.dumps(TWO)[:60])
    parser.close("policy")
    rules = RoundRules(tools=TOOLS, allowed=ALLOWED, call_id="tc_{}".format, turn="turn_1")
    verdict = read_decision(parser.transcript(), rules, stop_reason="aborted")
    assert (ran(verdict), codes(verdict)) == (["react.write"], [f"{MANY}too_many_actions"])


@pytest.mark.parametrize("reason", ["policy", "cancelled", "provider_error"])
def test_a_program_that_was_broken_off_does_not_run(reason: Any) -> None:
    parser = ChannelParser()
    parser.feed(think() + decide(run(contract=CONTRACT)) + (start_tag("code") + "print(1)\npri"))
    parser.close(reason)
    rules = RoundRules(tools=TOOLS, allowed=ALLOWED, call_id="tc_{}".format, turn="turn_1", strict=False)
    verdict = read_decision(parser.transcript(), rules, stop_reason="aborted")
    assert codes(verdict) == ["generation_truncated"]


def test_a_decision_cut_by_the_output_limit_is_reported_and_earlier_ones_run() -> None:
    text = generation(ONE, TWO)
    verdict = judge(text[: text.rindex('"b"')], fanout=FANOUT, stop_reason="max_tokens")
    assert (ran(verdict), codes(verdict)) == (["react.write"], ["generation_truncated"])
    assert verdict.notices[0].extra["index"] == 2


# --- the same answer during the stream and after it, at every cut

KINDS = ("exploration", "exploitation", "neutral", "unknown")
CANDIDATES = st.builds(
    Candidate,
    action=st.just("call_tool"),
    tool_id=st.sampled_from(["react.read", "react.write", "x.y"]),
    strategies=st.lists(st.sampled_from(KINDS), min_size=1, max_size=2, unique=True).map(tuple),
    runs_code=st.booleans(),
) | st.builds(Candidate, action=st.sampled_from(["complete", "exit"]))
RULES = st.builds(
    FanoutRule,
    mode=st.sampled_from(["off", "safe_fanout", "read_write_search"]),
    max_actions=st.integers(1, 4),
)


@given(RULES, st.lists(CANDIDATES, max_size=8))
def test_the_first_action_is_admitted_and_never_more_than_the_rule_allows(
    rule: FanoutRule, candidates: list[Candidate]
) -> None:
    admitted: list[Candidate] = []
    for candidate in candidates:
        if not find_refusal(rule, admitted, candidate):
            admitted.append(candidate)
    assert len(admitted) <= rule.limit
    assert admitted[:1] == candidates[:1]
    if any(one.ends for one in admitted):
        assert len(admitted) == 1 or all(one.ends or one.neutral for one in admitted)
    assert sum(one.ends for one in admitted) <= 1


DECISIONS = st.sampled_from(
    [
        *(search("a"), search("q", objective="why")),
        *(ONE, TWO, PDF, read("x"), read("y"), plan("a"), plan("b"), complete(), complete("More.")),
        *(run(contract=CONTRACT), call({"tool_id": "mcp.other", "params": {}}), {"action": "exit"}),
        *(
            write(path="c.md"),
            call({"tool_id": "no.such", "params": {}}),
            '{"action": "comp',
            "{}",
            call(None),
        ),
        '{"action": "complete", "final_answer": "say "hi", ok"}',
    ]
)


@given(RULES, st.lists(DECISIONS, min_size=2, max_size=6), st.booleans())
def test_the_stream_and_the_judge_admit_the_same_decisions(
    rule: FanoutRule, decisions: list[Any], last: bool
) -> None:
    text = think() + "".join(decide(one) + program("print(1)") for one in decisions)
    verdict = judge(text, fanout=rule, last_round=last)
    admission = Admission(rule, TOOLS, ALLOWED, last_round=last)
    admitted = [i for i, one in enumerate(decisions) if not admission.ask(*_identity(one))]
    kept = {int(action.call_id[3:]) for action in verdict.actions}
    assert kept <= set(admitted)
    refused = {one.extra["index"] - 1: one.code for one in verdict.notices if "index" in one.extra}
    read = next((i + 1 for i, code in sorted(refused.items()) if code == TOO_MANY), len(decisions))
    assert set(range(read)) - set(admitted) <= set(refused) <= set(range(read))
    assert len(verdict.decisions) + len(refused) == read


def _identity(decision: Any) -> tuple[str, str]:
    if isinstance(decision, str):
        return ("complete", "") if "say" in decision else ("", "")
    return decision["action"], (decision.get("tool_call") or {}).get("tool_id", "")


@given(
    RULES,
    st.lists(DECISIONS, max_size=5),
    st.lists(st.integers(1, 40), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_verdict_does_not_depend_on_how_the_stream_was_cut(
    rule: FanoutRule, decisions: list[Any], sizes: list[int], strict: bool
) -> None:
    text = think() + "".join(decide(one) + program("print(1)\n") for one in decisions)
    parser = ChannelParser()
    at = turn = 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        parser.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    parser.close()
    rules = RoundRules(
        tools=TOOLS,
        allowed=ALLOWED,
        call_id="tc_{}".format,
        turn="turn_1",
        fanout=rule,
        strict=strict,
        refer=anywhere,
    )
    assert read_decision(parser.transcript(), rules) == judge(text, fanout=rule, strict=strict)
