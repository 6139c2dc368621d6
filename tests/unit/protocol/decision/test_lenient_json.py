# ruff: noqa: RUF001 - the quotes are the matter
"""Decisions in other notations: read without a guess where they mean one thing, and in the stream as in the record."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.decision.json_repair import Repaired, repair
from stepline.protocol.decision.round_rules import RoundRules
from tests.support.generation import decided, tagged
from tests.unit.protocol.line_count import steps_of
from tests.unit.protocol.play import RULES, SINGLE, SIZES, cut, play

CERTAIN: dict[str, Any] = {
    # comments
    '{"a": 1 // one\n}': {"a": 1},
    '{"a": 1, # one\n "b": 2}': {"a": 1, "b": 2},
    '{ /* first */ "a": "x" /* , b: 1 */, "c": [1, // one\n 2]}': {"a": "x", "c": [1, 2]},
    '// so\n{// here\n"a": "http://x/#y", "b": "/* no */"}': {"a": "http://x/#y", "b": "/* no */"},
    '{"a": "b", // was "c", before\n "d": 1}': {"a": "b", "d": 1},
    # words of other languages
    '{"a": None, "b": [True, False, TRUE, Null]}': {"a": None, "b": [True, False, True, None]},
    # quotes
    "{'a': 'b', 'c': ['it\\'s', \"it's\", 'say \"x\"', '\\\"']}": {
        "a": "b",
        "c": ["it's", "it's", 'say "x"', '"'],
    },
    '{“a”: “b”, "c": “d”, “e": [“f”, “g"]}': {"a": "b", "c": "d", "e": ["f", "g"]},
    "{‘a’: ‘b’}": {"a": "b"},
    '{"a": \'b\', "c": {"d": \'e\'}}': {"a": "b", "c": {"d": "e"}},
    "```python\n{'a': {\"b\": 1}}\n```": {"a": {"b": 1}},
    "```json\n[{'a': 'b'}]\n```": {"a": "b"},
    '[{"a": [1,]}]': {"a": [1]},
    # blanks of texts, and line ends within strings
    '{\u00a0"a":\u00a0"b\nc\td",\u2028}': {"a": "b\nc\td"},
    # a backslash that begins no escape
    r'{"a": "\d+\s*\. \$x \(y\) \_z \`c\`"}': {"a": r"\d+\s*\. \$x \(y\) \_z \`c\`"},
    r'{"a": "\d+\n\w{2}\t"}': {"a": "\\d+\n\\w{2}\t"},
    r'{"a": "\*not bold\*\nnext"}': {"a": "\\*not bold\\*\nnext"},
    r'{"a": "C:\Users\Me \\ \"D:\""}': {"a": 'C:\\Users\\Me \\ "D:"'},
    r'{"a": "it\'s", "b": "\“so\”"}': {"a": "it's", "b": "“so”"},
}


@pytest.mark.parametrize(("body", "fields"), CERTAIN.items(), ids=str)
def test_an_unambiguous_notation_is_not_a_guess(body: str, fields: dict[str, Any]) -> None:
    assert repair(body) == Repaired(fields, guessed=False)


@pytest.mark.parametrize(
    "body",
    [
        # a path or a formula, or line breaks?
        r'{"a": "C:\Users\new"}',
        r'{"a": "C:\d\new"}',
        r'{"a": "\alpha \frac"}',
        r'{"a": "\bword\d"}',
        # another language's escape, or a backslash?
        r'{"a": "\x41"}',
        r'{"a": "\u00g1"}',
        r'{"a": "\0"}',
        r'{"a": "\U0001F600"}',
        '{"a": "b\\\nc"}',
        # a quote within the string, or its end?
        "{'a': 'it's fine'}",
        "{“a”: “say “x” now”}",
        '{"a": "see "//x", y"}',
        '{"a": "see "# x", y"\n}',
        # numbers
        '{"a": 007}',
        '{"a": [007]}',
        '{"a": 0x1F}',
        '{"a": 1.5.2}',
        '{"a": NaN}',
        '{"a": undefined}',
        '{"a": Truth}',
        # two objects
        "{'a': 1} {'a': 2}",
        "[{'a': 1}, {'a': 2}]",
        "{'a': 'half",
        "{'a': 'b' /* no end",
    ],
)
def test_an_ambiguous_notation_is_a_guess_or_an_error(body: str) -> None:
    found = repair(body)
    assert found is None or found.guessed


def test_a_plain_object_is_preferred_over_one_in_prose() -> None:
    assert repair("Like {'x': 1}: {\"a\": 1,}") == Repaired({"a": 1}, guessed=False)


TEXTS = st.lists(
    st.text("ab €\U0001f600", max_size=4)
    | st.sampled_from(
        ["//", "#", "/*", "*/", "'", '"', "“", "”", "’", ",", ":", "{", "}", "\\", "\n", "None", "\\d", "```"]
    ),
    max_size=6,
).map("".join)
OBJECTS = st.dictionaries(
    st.text("abc_", min_size=1, max_size=6),
    st.recursive(
        TEXTS | st.integers(-(2**53), 2**53) | st.none() | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text("klm", min_size=1), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)
TOKENS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\[\]{},:"\s]+')


@given(OBJECTS, st.booleans())
def test_valid_json_is_never_changed(value: dict[str, Any], is_ascii: bool) -> None:
    assert repair(json.dumps(value, ensure_ascii=is_ascii)) == Repaired(value, guessed=False)


@given(OBJECTS)
def test_a_python_literal_is_read_exactly_or_is_a_guess(value: dict[str, Any]) -> None:
    found = repair(repr(value))
    assert found is None or found.guessed or found.fields == value


@given(
    OBJECTS,
    st.lists(st.sampled_from(["", " ", "\n", "/* no, */", "// x: y\n", "# z\n"]), min_size=1, max_size=9),
)
def test_comments_between_tokens_change_nothing(value: dict[str, Any], comments: list[str]) -> None:
    tokens = TOKENS.findall(json.dumps(value))
    pairs = zip(tokens, [*tokens[1:], ""], strict=True)
    body = "".join(
        token + (comments[at % len(comments)] if following not in (":", "") and token != ":" else "")
        for at, (token, following) in enumerate(pairs)
    )
    assert repair(body) == Repaired(value, guessed=False)


PLAIN_TEXTS = st.text("ab .,:{}[]/#€\U0001f600\n", max_size=12)


@given(
    st.dictionaries(st.text("abc", min_size=1), PLAIN_TEXTS | st.lists(PLAIN_TEXTS), min_size=1),
    st.sampled_from(["''", "“”", "‘’", "””"]),
)
def test_other_quotes_change_nothing(value: dict[str, Any], quotes: str) -> None:
    body = re.sub('"(.*?)"', rf"{quotes[0]}\1{quotes[1]}", json.dumps(value))
    assert repair(body) == Repaired(value, guessed=False)


@pytest.mark.parametrize(
    "piece",
    [
        '"//\n',
        '//"\n',
        "#\n",
        '"/*',
        "/* */",
        "'",
        "“”",
        "\\d",
        "\\'",
        '", /**/',
        "',\n'",
        "{'a': ",
        '{ //\n"',
    ],
)
def test_lenient_json_takes_linear_time(piece: str) -> None:
    def steps(times: int) -> int:
        bodies = (
            head + piece * times for head in ('{"action": "exit", "a": "', "{'action': 'exit', 'a': '", "")
        )
        return sum(steps_of(lambda body=body: repair(body)) for body in bodies)

    assert steps(1000) <= 2.2 * steps(500) + 100


WRITE = {"tool_id": "react.write", "params": {"path": "a.md", "content": "It is \"so\". No 'if'."}}
CALL = {"action": "call_tool", "notes": "n", "tool_call": WRITE}
ANSWER = {"action": "complete", "notes": "", "final_answer": "It is \"so\". No 'if'."}


@pytest.mark.parametrize("rules", [RULES, SINGLE])
@pytest.mark.parametrize("decision", [CALL, ANSWER], ids=["call", "answer"])
@pytest.mark.parametrize(
    "write",
    [
        json.dumps,
        repr,
        lambda value: json.dumps(value).replace(", ", ", // next\n"),
        lambda value: json.dumps({**value, "suggested_followups": None}).replace("null", "None"),
        lambda value: json.dumps(value).replace("so", "\\d"),
        lambda value: "```json\n" + json.dumps(value)[:-1] + ",}\n```",
    ],
    ids=["plain", "python", "comments", "words", "escape", "fence and comma"],
)
def test_another_notation_costs_no_round_and_is_shown_as_it_is_recorded(
    write: Callable[[Any], str], decision: dict[str, Any], rules: RoundRules
) -> None:
    played = [play(cut(tagged("thinking", "Hm.") + decided(write(decision)), size), rules) for size in SIZES]
    assert len({(str(one.verdict), str(one.texts)) for one in played}) == 1
    verdict, texts = played[0].verdict, played[0].texts
    assert verdict.accepted
    assert played[0].codes == []
    if decision is CALL:
        (action,) = verdict.actions
        recorded = action.params["content"]
    else:
        recorded = verdict.decision.final_answer
    assert recorded.replace("\\d", "so") == ANSWER["final_answer"]
    assert recorded in texts.values()
