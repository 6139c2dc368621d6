"""Unusual generations: any text is shown and judged the same at every cut.

What was found once is kept in `tests/data/found` and played again by every run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepline.protocol.citation.citation_stream import CitationStream, CitedFormat, render_citations
from stepline.protocol.decision.body import identify
from stepline.protocol.decision.fanout import Admission, FanoutRule
from stepline.protocol.decision.json_repair import repair_object
from stepline.protocol.decision.round_rules import RoundRules
from tests.support.budget import budget
from tests.support.generation import DECISION, end_tag, start_tag, tagged
from tests.unit.protocol.play import CITING, RULES, SINGLE, SIZES, SOURCES, TOLERANT, Played, cut, play

FOUND = sorted((Path(__file__).parents[2] / "data/found").glob("*.txt"))
RULE_SETS = {
    "several": RULES,
    "single": SINGLE,
    "tolerant": TOLERANT,
    "citing": CITING,
    "read_write_search": replace(TOLERANT, fanout=FanoutRule(mode="read_write_search")),
    "last round": replace(RULES, last_round=True),
}
GATED = ("notes", "answer", "plan", "canvas", "timeline", "exec", "code")

WORDS = st.sampled_from(
    [
        *('"', '\\"', "\\", "\\n", "\n", "`", "```", "\n```\n", "{", "}", "[", "]", ",", ":", "'", " "),
        *(
            '", "',
            '": "',
            '"}',
            '"}}',
            "null",
            "\\ud83d",
            "\\ude00",
            "\\u00e9",
            "\\q",
            "é",
            "👩‍👩‍👧",
            "\u200d",
        ),
        *(
            "[[S:1]]",
            "[[S:3,9]]",
            "[[S:1-3]]",
            "[[S:",
            "\uff3b\uff3bS\uff1a1\uff3d\uff3d",
            "<",
            "</",
            "<b>",
            "word",
            "x < 1",
            "ref:",
        ),
        *(
            start_tag("code"),
            end_tag(DECISION),
            end_tag("thinking"),
            start_tag("plan"),
            "<thinking>",
        ),
    ]
)
CITED = WORDS | st.sampled_from(
    [
        *(
            "[",
            "[[",
            "]]",
            "]",
            "S",
            ":",
            "1",
            "3",
            "2-",
            ",",
            " ",
            "\u200b",
            "!",
            "(",
            ")",
            "<sup",
            ">",
            "</sup>",
        ),
        *(
            '<sup class="cite" data-sids="1,3">',
            " class=cite",
            ' data-sids="',
            "<code>",
            "</code>",
            "<pre>",
            "<!--",
        ),
        *("-->", "<script>", "</script>", "~~~\n", "    ", "[[USAGE:1]]", "[[S:9]]", "<a href='", "[S:1]"),
    ]
)
TEXT = st.lists(WORDS | st.text(max_size=3), max_size=8).map("".join)
ACTION = st.sampled_from(["call_tool", "call_tool", "call_tool", "complete", "exit", "wait", ""])
TOOL = st.sampled_from(
    [
        "react.write",
        "react.write",
        "react.read",
        "react.plan",
        "exec_tools.execute_code_python",
        "no.tool",
        "",
    ]
)
PARAMS = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["a.md", "b.html", "outputs/a.md", "../x", ""]),
        "channel": st.sampled_from(["canvas", "timeline_text", "internal", "nowhere"]),
        "content": TEXT,
        "kind": st.just("file"),
        "paths": st.just(["ar:turn_x.user.prompt"]),
        "steps": st.lists(TEXT, max_size=2),
        "contract": st.just([{"filename": "outputs/a.md", "description": "a"}]),
    },
)
CALL = st.fixed_dictionaries({}, optional={"tool_id": TOOL, "params": PARAMS}) | st.none() | TEXT
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "action": ACTION,
        "notes": TEXT | st.none(),
        "tool_call": CALL,
        "final_answer": TEXT | st.none(),
    },
)
ORDERED = st.tuples(FIELDS, st.randoms(use_true_random=False)).map(
    lambda drawn: dict(drawn[1].sample(list(drawn[0].items()), len(drawn[0])))
)
FENCES = st.sampled_from(
    ["{}", "\n```json\n{}\n```\n", "```json {} ```", "\n```json\n{}\n", "Here: {} so.", "{}{}"]
)


@st.composite
def bodies(draw: st.DrawFn) -> str:
    """Return the body of a decision: an object as it should be, or with a few characters put in, out or twice."""
    text = json.dumps(
        draw(ORDERED), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 1]))
    )
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(WORDS | st.just("")) + text[at + draw(st.integers(0, 2)) :]
    if draw(st.integers(0, 9)) == 0:
        return f"So {text}\n```json\n{json.dumps(draw(ORDERED))}\n```"
    return draw(FENCES).replace("{}", text)


@st.composite
def generations(draw: st.DrawFn) -> str:
    """Return a generation: thinking, decisions and programs in any order, and what does not belong there."""
    parts = [(tagged("thinking", draw(TEXT)))]
    for kind in draw(st.lists(st.sampled_from("dddcctsjx"), max_size=5)):
        match kind:
            case "d":
                parts.append(tagged(DECISION, draw(bodies())))
            case "c":
                parts.append(tagged("code", draw(TEXT)))
            case "t":
                parts.append(tagged("thinking", draw(TEXT)))
            case "s":
                parts.append(tagged("summary", draw(TEXT)))
            case "j":
                parts.append(draw(TEXT))
            case _:
                parts.append(start_tag(DECISION) + draw(bodies()))
    text = "".join(parts)
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 9)) == 0 else text


CUTS = st.lists(st.integers(min_value=0, max_value=600), max_size=40)


def pieces_of(text: str, cuts: Sequence[int]) -> list[str]:
    places = [0, *sorted({at for at in cuts if 0 < at < len(text)}), len(text)]
    return [text[start:end] for start, end in pairwise(places)]


def outcome(played: Played) -> object:
    """Return the part that must not depend on the cuts of a stream; notices after an early end may vary."""
    verdict, codes = played.verdict, [] if played.cut else played.codes
    return (
        played.lanes,
        verdict.accepted,
        verdict.decisions,
        verdict.actions,
        codes,
        played.answer,
        played.cut,
    )


def check(text: str, rules: RoundRules) -> Played:
    """Assert what holds for every generation."""
    played = play([text], rules)
    check_gates(played, rules)
    check_record(played, rules)
    return played


def check_gates(played: Played, rules: RoundRules) -> None:
    """Nothing of a decision that is not admitted is shown."""
    admission = Admission(rules.fanout, rules.tools, rules.allowed, last_round=rules.last_round)
    bodies = [(one.instance, one.raw) for one in played.transcript.of(DECISION) if one.raw.strip()]
    admitted = {str(instance) for instance, raw in bodies if not admission.ask(*identify(raw))}
    shown = {name.split(".")[1] for name in played.lanes if name.split(".")[0] in GATED}
    assert shown <= admitted


def check_record(played: Played, rules: RoundRules) -> None:
    """What is recorded is what was shown, and one answer at most reaches the user."""
    verdict, texts = played.verdict, played.texts
    answers = [text for name, text in texts.items() if name.startswith("answer.")]
    recorded = [one.final_answer for one in verdict.decisions if one.final_answer]
    assert len(answers) <= 1
    assert len(recorded) <= 1
    if rules.sources:
        return
    if verdict.accepted:
        assert recorded == [answer for answer in answers if answer.strip()]
    else:
        assert not "".join(answers).strip()
    for action in verdict.actions:
        index = int(action.call_id.removeprefix("tc_"))
        if action.tool_id == "react.write" and action.params["channel"] != "internal":
            lanes = [texts.get(f"{lane}.{index}{r}") for lane in ("canvas", "timeline") for r in ("", ".r1")]
            assert action.params["content"] in [lane or "" for lane in lanes]
        if action.code is not None:
            assert texts[f"code.{index}"] == action.code


@pytest.mark.parametrize("rules", RULE_SETS)
@settings(max_examples=budget(25, 1500))
@given(text=generations(), cuts=CUTS)
def test_any_generation_is_shown_and_judged_the_same_however_it_is_cut(
    rules: str, text: str, cuts: list[int]
) -> None:
    whole = check(text, RULE_SETS[rules])
    for pieces in (pieces_of(text, cuts), list(text)):
        assert outcome(play(pieces, RULE_SETS[rules])) == outcome(whole)


@settings(max_examples=budget(25, 1000))
@given(
    text=generations(),
    at=st.integers(0, 400),
    reason=st.sampled_from(["cancelled", "provider_error", "policy"]),
)
def test_a_generation_that_is_cut_off_leaves_no_lane_open(text: str, at: int, reason: str) -> None:
    played = play(list(text[:at]), reason=reason)  # type: ignore[arg-type] # the strategy draws its words
    assert all(lane.closed for lane in played.lanes.values())


@settings(max_examples=budget(25, 3000))
@given(body=bodies() | TEXT)
def test_a_repaired_body_is_encodable_as_json(body: str) -> None:
    fields = repair_object(body)
    if fields is not None:
        assert repair_object(json.dumps(fields)) == fields
        json.dumps(fields, ensure_ascii=False).encode()


@pytest.mark.parametrize("form", ["markdown", "text", "html"])
@settings(max_examples=budget(25, 2000))
@given(text=st.lists(CITED, max_size=20).map("".join), cuts=CUTS)
def test_any_text_is_cited_the_same_however_it_is_cut(form: CitedFormat, text: str, cuts: list[int]) -> None:
    whole = render_citations(text, SOURCES, form)
    for pieces in (pieces_of(text, cuts), list(text)):
        stream = CitationStream(SOURCES, form)
        assert "".join([*map(stream.feed, pieces), stream.close()]) == whole


@pytest.mark.parametrize("rules", RULE_SETS)
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_earlier_counterexamples_stay_fixed(path: Path, rules: str) -> None:
    text = path.read_bytes().decode()
    whole = check(text, RULE_SETS[rules])
    for size in SIZES:
        assert outcome(play(cut(text, size), RULE_SETS[rules])) == outcome(whole)
