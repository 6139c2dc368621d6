import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.decision.json_repair import repair, repair_object
from tests.unit.protocol.line_count import steps_of

MENDED: dict[str, dict[str, Any]] = {
    # quotes that are not escaped
    '{"a": "he said "yes", then left"}': {"a": 'he said "yes", then left'},
    '{"a": "say "hi""}': {"a": 'say "hi"'},
    '{"a": "use "}" here", "b": 1}': {"a": 'use "}" here', "b": 1},
    '{"a": "<a href="x">y</a>", "b": "c"}': {"a": '<a href="x">y</a>', "b": "c"},
    '{"a": ["say "x", ok", "b"]}': {"a": ['say "x", ok', "b"]},
    '{"a": "fence "```py" it"}': {"a": 'fence "```py" it'},
    # line breaks and escapes
    '{"a": "say "x"\nand\ty"}': {"a": 'say "x"\nand\ty'},
    '{"a": "C:\\dir"}': {"a": "C:\\dir"},
    '{"a": "\\ud83e\\udd9c \\ud83e", oops: 1, "b": "}"': None,  # type: ignore[dict-item]  # beyond repair
    '{"a": "\\ud83e\\udd9c "x" \\ud83e"}': {"a": '\U0001f99c "x" \ufffd'},
    # commas
    '{"a": 1,}': {"a": 1},
    '{"a": ",]", "b": [1, 2,],}': {"a": ",]", "b": [1, 2]},
    '{"a": "x" "b": 1}': {"a": "x", "b": 1},
    '{"a": {"b": "c"} "d": [{"e": 1} {"f": 2}]}': {"a": {"b": "c"}, "d": [{"e": 1}, {"f": 2}]},
    '{"a": ["x"\n"y"]}': {"a": ["x", "y"]},
    # brackets
    '{"a": {"b": "c"': {"a": {"b": "c"}},
    '```json\n{"a": ["b", true\n```\n': {"a": ["b", True]},
    '{"a": {"b": ["c", "d"}}': {"a": {"b": ["c", "d"]}},
    '{"a": [{"b": "c"]}': {"a": [{"b": "c"}]},
    # of a key that comes twice the first counts
    '{"a": "x"x", "a": 2}': {"a": 'x"x'},
}
MENDED = {body: fields for body, fields in MENDED.items() if fields is not None}


@pytest.mark.parametrize(("body", "fields"), MENDED.items(), ids=str)
def test_an_unambiguous_error_is_repaired(body: str, fields: dict[str, Any]) -> None:
    assert repair_object(body) == fields


@pytest.mark.parametrize(
    "body",
    [
        "",
        "call_tool",
        '{"a": "half',  # the rest is unknown
        '{"a": 12',
        '{"a": 1, ',
        '{"a": ',
        '{"a": "b", oops}',
        '{"a": unknown}',
        "{a: 1}",
        '{"a": 1}}{"b": 2}',
        '{"a": "b"} {"a": "c"}',
        '{"a": "x"x"} {"a": "c"}',
        '{"a": "see {"b": "c", "d": 1}"}',  # a quote that seems to end the string does not
        '{"a": "x"x", "b": 1e999}',
        '{"a": "x"x", "b": ' + "9" * 5000 + "}",
        '{"a":' * 70 + '"x"x"' + "}" * 70,
        '{"a": [1, 2)}',
    ],
)
def test_a_missing_value_is_not_invented(body: str) -> None:
    assert repair_object(body) is None


@pytest.mark.parametrize(
    ("body", "guessed"), [('{"a": 1}', False), ('{"a": [1,],}', False), ('{"a": [1', False)]
)
def test_dropping_a_comma_is_not_a_guess(body: str, guessed: bool) -> None:
    found = repair(body)
    assert found is None if body.endswith("1") else found is not None and found.guessed is guessed


def test_everything_else_is_a_guess() -> None:
    for body in ('{"a": "x"x"}', '{"a": "x"', '{"a": 1 "b": 2}', '{"a": "\\x"}', '{"a": [1}'):
        found = repair(body)
        assert found is not None
        assert found.guessed


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
OBJECTS = st.dictionaries(
    st.text("abcxyz_", min_size=1, max_size=8),
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


@given(OBJECTS)
def test_valid_json_is_read_unchanged(value: dict[str, Any]) -> None:
    assert repair(json.dumps(value)) == (value, False)


@given(OBJECTS, st.integers(1, 4))
def test_brackets_that_are_missing_at_the_end_are_added(value: dict[str, Any], count: int) -> None:
    whole = json.dumps({**value, "last": {"inner": {"text": "end"}}})
    assert repair_object(whole[: -min(count, 3)]) == json.loads(whole)


@given(st.lists(st.text("ab .!?", min_size=1), min_size=2, max_size=6))
def test_quotes_around_words_are_kept_in_the_text(words: list[str]) -> None:
    said = '"'.join(words)
    assert repair_object(f'{{"action": "complete", "final_answer": "{said}"}}') == {
        "action": "complete",
        "final_answer": said,
    }


@given(st.text(alphabet='{}[]",:\\ \n`ajson1\ud83d', max_size=40))
def test_any_text_is_repaired_or_refused(body: str) -> None:
    found = repair_object(body)
    assert found is None or isinstance(found, dict)
    json.dumps(found).encode()


@pytest.mark.parametrize(
    "piece",
    ['"x", ', '\\"', '"}} ', '"a": "b", ', "{", '{"a": ', "[", "\\", '", \n', "```", '"k": [{'],
)
def test_json_repair_takes_linear_time(piece: str) -> None:
    def steps(times: int) -> int:
        return steps_of(lambda: repair('{"action": "complete", "final_answer": "' + piece * times))

    assert steps(1000) <= 2.2 * steps(500) + 100


@pytest.mark.parametrize("closing", ["],", "]],", "},", "}},", "],}],"])
def test_endless_brackets_do_not_crash_the_repair(closing: str) -> None:
    body = '{"action": "complete", "a": [["x"' + closing * 20_000 + '"final_answer": "A"}'
    assert repair(body) is None or isinstance(repair(body), tuple)


@pytest.mark.parametrize("piece", ["],", "},", '"],', '"},'])
def test_many_brackets_are_repaired_in_linear_time(piece: str) -> None:
    def steps(times: int) -> int:
        return steps_of(lambda: repair('{"action": "complete", "a": [["x"' + piece * times + "]}"))

    assert steps(1000) <= 2.2 * steps(500) + 100
