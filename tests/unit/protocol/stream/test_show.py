"""What is shown of a generation: every lane with its facts, the same at every cut, and nothing that will not count."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.protocol.citation.citation_stream import render_citations
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.stream.lane import LaneFacts
from tests.support.generation import end_tag, start_tag, tagged
from tests.unit.protocol.stream.shown_lanes import (
    PROGRAM,
    SOURCES,
    answer,
    call,
    code,
    decision,
    raw,
    run,
    show,
    show_alike,
    show_so_far,
    thinking,
    write,
)

READ = call("react.read", notes="reading", paths=["fi:turn_1.outputs/a.md"])
OFF = FanoutRule()


def test_thinking_notes_and_answer_are_lanes_with_their_facts():
    shown = show_alike(thinking("Hm.") + READ + thinking("Again."))
    assert shown.texts == {"thinking.0": "Hm.", "notes.0": "reading", "thinking.1": "Again."}
    assert shown.facts["thinking.0"] == LaneFacts(marker="thinking")
    assert shown.facts["notes.0"] == LaneFacts(
        marker="timeline_text", artifact_name="timeline_text.react.decision.2.0"
    )
    shown = show_alike(thinking("Hm.") + answer("All **quiet**.\n"))
    assert shown.texts == {"thinking.0": "Hm.", "answer.0": "All **quiet**.\n"}
    assert shown.facts["answer.0"] == LaneFacts(marker="answer", artifact_name="react.final_answer.2.0")
    assert set(shown.ends.values()) == {""}


def test_an_empty_channel_and_a_summary_show_nothing():
    shown = show_alike(thinking("") + answer("Yes.") + code("") + tagged("summary", "Goal"))
    assert list(shown.texts) == ["answer.0"]


def test_a_decision_is_held_back_until_its_action_is_known():
    text = thinking("Hm.") + answer("A long answer.")
    known = text.index('"complete"') + len('"complete"')
    assert list(show(text[:known], 1, reason="cancelled").texts) == ["thinking.0"]
    for upto in range(text.index("A long") + 1, text.index("answer.") + 7):
        shown = show(text[:upto], 1, reason="cancelled")
        assert shown.texts["answer.0"] == text[text.index("A long") : upto]


def number_only(value):
    if not isinstance(value, int):
        raise ToolError("value: it must be a number", code="value_invalid")
    return value


def test_an_answer_with_a_value_is_shown_when_the_value_is_checked():
    whole = thinking("Hm.") + answer("It is seven.", value=7)
    before = whole.index('"value"') + len('"value": ')
    assert "answer.0" not in show_so_far(whole[:before], accept=number_only).texts
    assert show_alike(whole, accept=number_only).texts["answer.0"] == "It is seven."
    for refused in (answer("It is.", value="7"), answer("It is.")):
        shown = show_alike(thinking("Hm.") + refused, accept=number_only)
        assert "answer.0" not in shown.texts
        assert shown.answer == ""
    question = decision(action="exit", final_answer="Which one?")
    assert show_alike(thinking("Hm.") + question, accept=number_only).texts["answer.0"] == "Which one?"


PLAIN = "Every word, é and 🙂 too; (1) {2} 3 > 2 & so on."


def test_every_character_is_shown_as_it_arrives():
    begun = {
        "thinking.0": start_tag("thinking"),
        "answer.0": (start_tag("action") + '{"action": "exit", "final_answer": "'),
        "canvas.0": write("outputs/a.md", "@").partition("@")[0],
        "timeline.0": write("a.md", "@", channel="timeline_text").partition("@")[0],
        "code.0": run() + start_tag("code"),
    }
    for lane, head in begun.items():
        for upto in range(1, len(PLAIN) + 1):
            shown = show_so_far(head + PLAIN[:upto], 1, sources=SOURCES)
            assert shown.texts[lane] == PLAIN[:upto]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a <", "a "),
        ("a < 3", "a < 3"),
        ("a </chan", "a "),
        ("a </chance", "a </chance"),
        ("a <channel:th", "a "),
        ("a `b", "a `b"),
        ("a [[S:1", "a [[S:1"),
    ],
)
def test_the_view_holds_back_only_a_possible_tag(written, shown):
    assert show_so_far((start_tag("thinking") + written), 1).texts == {"thinking.0": shown}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("a [", "a "),
        ("a [1", "a [1"),
        ("a [[S:1", "a "),
        ("a [[S:1]] b", 'a [One](https://example.com/1 "S:1") b'),
        ("a [[Sure", "a [[Sure"),
        ("a \\", "a "),
        ("a \\n", "a \n"),
        ("a \\u00e", "a "),
        ("a \\ud83d", "a "),
        ("a \\ud83d\\ude00", "a 😀"),
    ],
)
def test_the_view_holds_back_only_a_possible_token_or_escape(written, shown):
    head = start_tag("action") + '{"action": "exit", "final_answer": "'
    assert show_so_far(head + written, 1, sources=SOURCES).texts == {"answer.0": shown}


@pytest.mark.parametrize(
    "body",
    [
        '{"final_answer": "Never.", "action": "call_tool", "tool_call": null}',
        '{"action": "call_tool", "final_answer": "Never.", "tool_call": {"tool_id": "react.read"}}',
        '{"final_answer": "Never."}',
        '{"action": "perhaps", "final_answer": "Never.", "notes": "never"}',
        '{"action": 1, "final_answer": "Never.", "notes": "never"}',
        "no json at all",
    ],
)
def test_the_answer_of_a_decision_that_does_not_answer_is_never_shown(body):
    assert show_alike(raw(body)).texts == {}


def test_an_answer_before_the_action_is_shown_once_the_action_is_known():
    body = '{"final_answer": "Kept.", "notes": "n\\n✓ [1] done", "action": "complete"}'
    assert show_alike(raw(body)).texts == {"answer.0": "Kept.", "notes.0": "✓ [1] done"}


@pytest.mark.parametrize(
    ("tool_id", "fields"),
    [("no.such_tool", {}), ("ctx_tools.fetch_ctx", {}), ("react.write", {"last_round": True})],
)
def test_a_call_that_is_not_admitted_is_not_shown(tool_id, fields):
    text = call(tool_id, notes="never", path="outputs/a.md", channel="canvas", content="never")
    assert show_alike(thinking("Hm.") + text, **fields).texts == {"thinking.0": "Hm."}


# --- several actions


def test_mode_off_shows_no_second_action_and_ends_the_call():
    text = write("outputs/a.md", "one", notes="first") + write("outputs/b.md", "two", notes="second") + READ
    shown = show_alike(text, fanout=OFF)
    assert shown.texts == {"notes.0": "first", "canvas.0": "one"}
    assert shown.cut == "multi_action_bundle_too_many_actions"


def test_mode_off_keeps_the_code_of_a_program_before_the_cut():
    shown = show_alike(run() + code("print(1)") + READ, fanout=OFF)
    assert shown.texts["code.0"] == "print(1)"
    assert shown.ends["code.0"] == ""
    assert json.loads(shown.texts["exec.0.status"]) == {"status": "gen"}
    assert "exec.0.status.1" not in shown.texts
    assert shown.cut


def test_actions_that_fit_are_all_shown_and_one_that_does_not_costs_only_itself():
    shown = show_alike(
        write("outputs/a.md", "one")
        + READ.replace("reading", "then")
        + write("outputs/b.md", "two", notes="never")
        + call("react.plan", notes="and", mode="new", steps=["look", "tell"])
    )
    assert list(shown.texts) == ["canvas.0", "notes.1", "notes.3", "plan.3"]
    assert shown.texts["plan.3"] == "Plan\n└ 2 steps\n□ look\n□ tell"
    assert not shown.cut


def test_the_cap_of_several_actions_cuts_the_generation():
    rule = FanoutRule(mode="safe_fanout", max_actions=2)
    text = "".join(write(f"outputs/{n}.md", f"file {n}") for n in range(3))
    shown = show_alike(text, fanout=rule)
    assert (list(shown.texts), shown.cut) == (
        ["canvas.0", "canvas.1"],
        "multi_action_bundle_too_many_actions",
    )


def test_an_answer_is_shown_beside_neutral_actions_and_nothing_else():
    plan = call("react.plan", mode="new", steps=["a"])
    assert show_alike(plan + answer("Yes.")).answer == "Yes."
    assert show_alike(READ + answer("No.")).answer == ""
    assert list(show_alike(answer("Yes.") + plan).texts) == ["answer.0", "plan.1"]
    assert list(show_alike(answer("Yes.") + answer("No.")).texts) == ["answer.0"]


def test_a_blank_decision_is_ignored():
    assert show_alike(raw(" \n") + answer("Yes."), fanout=OFF).answer == "Yes."


# --- ends


@pytest.mark.parametrize("reason", ["policy", "cancelled", "provider_error"])
def test_every_open_lane_is_closed_with_the_reason_wherever_the_stream_is_cut(reason):
    text = thinking("Hm.") + write("outputs/a.md", "a file", notes="n") + run() + code("print(1)") + READ
    for upto in range(len(text)):
        shown = show(text[:upto], 5, reason=reason)
        open_lanes = [lane for lane, end in shown.ends.items() if end]
        assert len(open_lanes) <= 1
        assert set(shown.ends) == set(shown.facts)
        assert {shown.ends[lane] for lane in open_lanes} <= {reason}


def test_a_program_that_was_begun_and_not_finished_ends_in_an_error():
    for reason in ("policy", "cancelled", "provider_error"):
        shown = show(run() + (start_tag("code") + "print("), reason=reason)
        assert shown.ends["code.0"] == reason
        assert json.loads(shown.texts["exec.0.status.1"])["error"]["code"] == f"generation_{reason}"
        assert shown.facts["exec.0.status.1"].replaces == "exec.0.status"


def test_a_text_that_just_ends_is_closed_as_cut():
    assert show_alike(start_tag("thinking") + "So").ends == {"thinking.0": "eof"}
    shown = show_alike(start_tag("action") + '{"action": "complete", "final_answer": "Half of')
    assert (shown.texts, shown.ends) == ({"answer.0": "Half of"}, {"answer.0": "eof"})
    assert shown.answer == "Half of"


def test_an_answer_whose_closing_tag_is_missing_is_complete():
    shown = show_alike(start_tag("action") + '{"action": "complete", "final_answer": "Whole."}')
    assert (shown.texts, shown.ends) == ({"answer.0": "Whole."}, {"answer.0": ""})


# --- what is no JSON


def test_an_answer_with_bare_quotes_is_shown_to_the_quote_and_then_replaced_by_the_whole():
    shown = show_alike(raw('{"action": "complete", "final_answer": "he said "yes", then left"}'))
    assert shown.texts == {"answer.0": "he said ", "answer.0.r1": 'he said "yes", then left'}
    assert shown.facts["answer.0.r1"] == LaneFacts(
        marker="answer", artifact_name="react.final_answer.2.0", replaces="answer.0"
    )
    assert shown.answer == 'he said "yes", then left'


def test_an_invalid_decision_with_a_late_action_is_shown_once_and_whole():
    shown = show_alike(raw('{"final_answer": "he said "yes", then left", "action": "complete"}'))
    assert shown.texts == {"answer.0": 'he said "yes", then left'}


def test_an_invalid_call_is_shown_up_to_its_error_unless_guesses_count():
    broken = raw(
        '{"action": "call_tool", "notes": "n", "tool_call": {"tool_id": "react.write", '
        '"params": {"path": "outputs/a.md", "channel": "canvas", "content": "a "b", c"}}}'
    )
    shown = show_alike(broken)
    assert shown.texts == {"notes.0": "n", "canvas.0": "a "}
    shown = show_alike(broken, strict=False)
    assert shown.texts == {"notes.0": "n", "canvas.0": "a ", "canvas.0.r1": 'a "b", c'}
    assert shown.facts["canvas.0.r1"].replaces == "canvas.0"


def test_an_extra_comma_does_not_change_the_shown_text():
    shown = show_alike(raw('{"action": "complete", "final_answer": "Yes.",}'))
    assert (shown.texts, shown.answer) == ({"answer.0": "Yes."}, "Yes.")


# --- text


def test_escaped_surrogate_pairs_are_shown_as_characters_at_every_cut():
    body = '{"action": "complete", "final_answer": "a \\ud83d\\ude00 b \\ud83d c"}'
    shown = show_alike(raw(body))
    assert shown.texts["answer.0"] == "a 😀 b \ufffd c"
    shown.texts["answer.0"].encode()


@pytest.mark.parametrize("tail", ["list [", "see [[S", "see [[S:1", "see [[S:1]", "a <", "half \\ of"])
def test_no_tail_of_a_text_is_ever_lost(tail):
    for sources in ({}, SOURCES):
        assert show_alike(answer(tail), sources=sources).texts["answer.0"] == tail
    assert show_alike(thinking(tail)).texts["thinking.0"] == tail
    assert show_alike(start_tag("thinking") + tail).texts["thinking.0"] == tail


def test_text_around_citations_is_unchanged():
    text = "pages 1\u20133 \u2014 \uff3bnote\uff3d\uff1a [[S:1]] \u201cquoted\u201d"
    shown = show_alike(answer(text), sources=SOURCES)
    assert shown.texts["answer.0"] == text.replace("[[S:1]]", '[One](https://example.com/1 "S:1")')
    assert shown.answer == text


def test_citations_become_links_in_notes_answers_and_drawn_files_and_nowhere_else():
    cited = "see [[S:3]]"
    link = '[Three](https://example.com/3 "S:3")'
    shown = show_alike(
        thinking(cited)
        + write("outputs/a.md", cited, notes=cited)
        + write("outputs/a.html", cited)
        + write("outputs/a.json", cited)
        + run()
        + code(f"# {cited}"),
        sources=SOURCES,
    )
    assert shown.texts["thinking.0"] == cited
    assert shown.texts["notes.0"] == shown.texts["canvas.0"] == f"see {link}"
    assert 'href="https://example.com/3"' in shown.texts["canvas.1"]
    assert shown.texts["canvas.2"] == cited
    assert shown.texts["code.3"] == f"# {cited}"


TEXTS = st.text(
    alphabet=st.characters(codec="utf-8") | st.sampled_from(list('[]S:13,"\\`<>/\n 😀')), max_size=60
) | st.lists(
    st.sampled_from(["[[S:1]]", "[[S:1-3]]", "[[S:9]]", "`", "```\n", "text ", end_tag("action")])
).map("".join)
CUTS = st.lists(st.integers(0, 600), max_size=40)


@given(text=TEXTS, thought=TEXTS, cuts=CUTS, ascii_only=st.booleans())
def test_the_answer_shown_is_the_answer_recorded_with_its_links_at_every_cut(text, thought, cuts, ascii_only):
    body = json.dumps({"action": "complete", "notes": "", "final_answer": text}, ensure_ascii=ascii_only)
    generation = thinking(thought.replace("<", "")) + raw(body)
    shown = show(generation, cuts=cuts, sources=SOURCES)
    assert shown.summary == show(generation, 1, sources=SOURCES).summary
    assert shown.answer == text
    assert shown.texts.get("answer.0", "") == render_citations(text, SOURCES, "markdown")


PARTS = st.sampled_from(
    [
        thinking("Hm."),
        READ,
        write("outputs/a.md", "file [[S:1]]", notes="n"),
        write("outputs/n.md", "secret", channel="internal"),
        write("note.txt", "short", channel="timeline_text"),
        run(notes="sum up"),
        code("print('<channel:thinking>')\n"),
        code(""),
        code(start_tag("code")),
        answer("Yes [[S:3]]."),
        answer("No."),
        call("no.such", notes="x"),
        call("react.plan", mode="new", steps=["a"]),
        call("react.plan", mode="close"),
        raw('{"action": "complete", "final_answer": "a "b" c"}'),
        raw('{"final_answer": "a", "action": "exit"'),
        raw(
            '{"action": "call_tool", "tool_call": {"params": {"content": "early", "path": "p.md"}, "tool_id": "react.write"}}'
        ),
        raw(
            '{"action": "call_tool", "notes": "n", "tool_call": {"tool_id": "react.write", "params": {"content": "x "y" z"}}}'
        ),
        raw(""),
        tagged("plan", "unknown"),
        (start_tag("thinking") + "open "),
        (start_tag("action") + '{"action": "complete", "final_answer": "cut'),
        "<thinking>legacy</thinking>",
    ]
)


@given(
    parts=st.lists(PARTS, max_size=7),
    cuts=CUTS,
    mode=st.sampled_from(["off", "safe_fanout", "read_write_search"]),
    strict=st.booleans(),
    last_round=st.booleans(),
)
def test_any_generation_looks_the_same_at_every_cut(parts, cuts, mode, strict, last_round):
    text = "".join(parts)
    fields = {
        "sources": SOURCES,
        "fanout": FanoutRule(mode=mode),
        "strict": strict,
        "last_round": last_round,
    }
    by_char, cut = show(text, 1, **fields), show(text, cuts=cuts, **fields)
    assert cut.summary == by_char.summary
    assert (cut.answer, cut.cut) == (by_char.answer, by_char.cut)


@given(parts=st.lists(PARTS, max_size=6), upto=st.integers(0, 400), size=st.integers(1, 30))
def test_a_partial_view_is_a_prefix_of_the_final_view(parts, upto, size):
    text = "".join(parts)
    whole = show(text, size).texts
    for lane, shown in show_so_far(text[:upto], size).texts.items():
        assert whole[lane].startswith(shown)


def test_the_lane_of_a_program_is_named_by_its_call():
    from stepline.model.ids import call_id
    from tests.unit.protocol.stream.shown_lanes import TURN

    shown = show_alike(READ + run() + code("x = 1"))
    assert shown.facts["code.1"].execution_id == call_id(TURN, 2, 1)
    assert PROGRAM.startswith("exec_tools.")


def test_several_decisions_in_one_channel_show_the_first_alone():
    body = json.dumps({"action": "complete", "final_answer": "One."})
    assert show_alike(raw(body + json.dumps({"action": "complete", "final_answer": "Two."}))).texts == {
        "answer.0": "One."
    }


def test_an_object_in_the_prose_does_not_affect_the_decision():
    body = (
        "As {this} shows:\n```json\n" + json.dumps({"action": "complete", "final_answer": "Yes."}) + "\n```"
    )
    assert show_alike(raw(body)).texts == {"answer.0": "Yes."}
    assert show_alike(decision(action="exit", final_answer="Stopped.")).answer == "Stopped."
