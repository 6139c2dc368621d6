import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.protocol.candidate import read_object
from stepline.protocol.field import Delta, Ended, FieldStream, Known, mend_surrogates

CUTS = st.lists(st.integers(min_value=1, max_value=400), max_size=60)


def run(text: str, cuts: list[int] | None = None) -> tuple[FieldStream, list[Any]]:
    """Return the stream and its events; without `cuts` in single characters."""
    places = (
        list(range(len(text) + 1))
        if cuts is None
        else [0, *sorted({c for c in cuts if c < len(text)}), len(text)]
    )
    stream = FieldStream()
    return stream, [event for start, end in pairwise(places) for event in stream.feed(text[start:end])]


def values(events: list[Any]) -> dict[str, str]:
    made: dict[str, str] = {}
    for event in events:
        if isinstance(event, Delta):
            made[event.field] = made.get(event.field, "") + event.text
    return made


KEYS = st.sampled_from(["action", "notes", "final_answer", "tool_call", "tool_id", "params", "a"])
STRINGS = st.text(alphabet=st.characters() | st.sampled_from('\\"{}[]:,\n\ud83d\ude00😀')) | st.sampled_from(
    ["\ud83d", "\ud83dx", "\ud83d\ud83d\ude00", "\\ud83d", '", "notes": "no', "\u0000\u001f"]
)
VALUES = st.recursive(
    STRINGS | st.integers() | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
DECISIONS = st.dictionaries(KEYS, VALUES, max_size=6)


@given(
    decision=DECISIONS,
    cuts=CUTS,
    ascii_only=st.booleans(),
    indent=st.none() | st.integers(0, 2),
    before=st.sampled_from(["", "\n```json\n", "Here: ", "```json"]),
    after=st.sampled_from(["", "\n```\n", ' } ] " done']),
)
@example(decision={"notes": "\ud83d"}, cuts=[], ascii_only=True, indent=None, before="", after="")
def test_the_pieces_of_a_field_are_its_value(
    *,
    decision: dict[str, Any],
    cuts: list[int],
    ascii_only: bool,
    indent: int | None,
    before: str,
    after: str,
) -> None:
    body = json.dumps(decision, ensure_ascii=ascii_only, indent=indent)
    decision, text = (
        json.loads(body),
        before + body + after,
    )  # JSON joins the halves of a pair that is escaped
    expected = {
        key: mend_surrogates(value)
        for key in ("notes", "final_answer")
        if isinstance(value := decision.get(key), str)
    }
    stream, events = run(text, cuts)
    by_char, events_by_char = run(text)
    if ascii_only:  # raw halves of a pair come from no decoder of UTF-8
        assert (
            values(events) == values(events_by_char) == {key: text for key, text in expected.items() if text}
        )
    assert {e.field for e in events if isinstance(e, Ended)} == set(expected)
    assert {e.field for e in events_by_char if isinstance(e, Ended)} == set(expected)
    assert not stream.broken
    assert not by_char.broken


@given(decision=DECISIONS, cuts=CUTS)
@example(decision={"action": "\ud800\udc00"}, cuts=[])
def test_the_identity_is_told_as_soon_as_it_is_known(decision: dict[str, Any], cuts: list[int]) -> None:
    decision = json.loads(json.dumps(decision))  # which joins the halves of a pair
    call = decision.get("tool_call")
    tool_id = call.get("tool_id") if isinstance(call, dict) else None
    facts = {"action": decision.get("action"), "tool_id": tool_id}
    _, events = run(json.dumps(decision), cuts)
    assert {e.fact: e.value for e in events if isinstance(e, Known)} == {
        fact: mend_surrogates(value) for fact, value in facts.items() if isinstance(value, str)
    }


def test_the_tool_is_known_before_its_parameters_are_written() -> None:
    stream = FieldStream()
    assert stream.feed('{"action": "call_tool", "tool_call": {"tool_id": "react.write", "params": {"pa') == [
        Known("action", "call_tool"),
        Known("tool_id", "react.write"),
    ]


def test_a_pair_of_surrogate_escapes_is_one_character() -> None:
    stream = FieldStream()
    assert stream.feed(r'{"notes": "a\ud83d') == [Delta("notes", "a")]
    assert stream.feed(r"\ude") == []
    assert stream.feed("00b") == [Delta("notes", "😀b")]


def test_a_lone_half_of_a_pair_becomes_a_replacement_character() -> None:
    _, events = run(r'{"notes": "a\ud83d b\ude00"}')
    assert values(events) == {"notes": "a\ufffd b\ufffd"}


def test_text_without_quotes_passes_in_one_piece() -> None:
    stream = FieldStream()
    stream.feed('{"final_answer": "')
    assert stream.feed("one, two } three") == [Delta("final_answer", "one, two } three")]


def test_a_quote_ends_a_string_and_what_is_no_json_ends_the_stream() -> None:
    stream, events = run('{"final_answer": "he said "yes", then", "notes": "n\\x"}')
    assert values(events) == {"final_answer": "he said "}
    assert [e for e in events if isinstance(e, Ended)] == [Ended("final_answer")]
    assert stream.broken
    stream, events = run('{"notes": "a\\xb", "final_answer": "c"}')
    assert values(events) == {"notes": "a"}
    assert stream.broken


def test_brackets_that_do_not_match_end_the_stream() -> None:
    stream, events = run('{"a": [}, "notes": "n"}')
    assert stream.broken
    assert events == []


def test_of_a_key_that_comes_twice_the_first_counts_here_and_in_the_record() -> None:
    text = '{"notes": "one", "notes": "two", "final_answer": null, "final_answer": "x"}'
    _, events = run(text)
    assert values(events) == {"notes": "one"}
    assert read_object(text) == {"notes": "one", "final_answer": None}


def test_only_keys_of_the_decision_itself_count() -> None:
    text = '{"tool_call": {"params": {"notes": "no", "tool_id": "no"}, "notes": "no"}, "a": [{"final_answer": "no"}]}'
    assert run(text)[1] == []


@pytest.mark.parametrize("tail", ["", "\n```", '{"notes": "second"}'])
def test_nothing_follows_the_first_object(tail: str) -> None:
    assert values(run('{"notes": "first"}' + tail)[1]) == {"notes": "first"}


def test_raw_line_breaks_in_a_string_are_let_through() -> None:
    text = '{"notes": "a\nb\tc"}'
    assert values(run(text)[1]) == read_object(text)
