import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import DecisionError
from stepline.protocol.decision.json_repair import ParsedObject, read_object

OBJECT = {"action": "exit", "final_answer": 'a, ] } ``` "x"'}
TEXT = json.dumps(OBJECT)


@pytest.mark.parametrize(
    "body",
    [
        TEXT,
        f"\n{TEXT}\n",
        f"```json\n{TEXT}\n```",
        f"```json {TEXT} ```",
        f"```\n{TEXT}",
        f"```json {TEXT[:10]}\n{TEXT[10:]}\n```\n",
        f"Here {{x}} it is [1]:\n```json\n{TEXT}\n```\nThat is {{all}}.",
        f'Like {{"this": 1}}:\n```json\n{TEXT}\n```',
        f"{TEXT}\n```\n",
        f"{TEXT}}}",
    ],
)
def test_text_around_the_object_is_ignored(body: str) -> None:
    assert read_object(body) == ParsedObject(OBJECT)


def test_a_whole_object_counts_though_the_beginning_of_another_follows() -> None:
    assert read_object(f"```json\n{TEXT}\n```\n```json\n{TEXT[:-9]}") == ParsedObject(OBJECT, trailed=True)


def test_a_complaint_counts_lines_from_the_object_on() -> None:
    with pytest.raises(DecisionError, match="line 2, column 8"):
        read_object('Well.\n\n```json\n{"a": 1,\n  "b": oops}\n```')


def test_keys_keep_their_order() -> None:
    assert list(read_object('{"z": 1, "a": 2, "m": 3}').fields) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "no_json_candidate"),
        ("call_tool", "no_json_candidate"),
        ("[1, 2]", "no_json_candidate"),
        (TEXT + TEXT, "multi_decision_in_one_channel"),
        (f"[{TEXT}, {TEXT}]", "multi_decision_in_one_channel"),
        (f"{TEXT[:-9]}\n```\n```json\n{TEXT}", "json_decode_error"),
        (TEXT[:-1] + ",\n}", "json_decode_error"),
        ('{"a": "use "}" here", "b": 1}', "json_decode_error"),
        (TEXT[:-2], "json_decode_error"),
        ('{"a": "he said "yes""}', "json_decode_error"),
        ('{"a": {"b": 1}', "json_decode_error"),
        ('{"a": NaN}', "json_decode_error"),
        ('{"a": 1e999}', "json_decode_error"),
        ('{"a": ' + "9" * 5000 + "}", "json_decode_error"),
        ('{"a":' * 100_000, "json_decode_error"),
        ('{"a":' * 100 + "1" + "}" * 100, "json_decode_error"),
    ],
)
def test_a_body_without_exactly_one_object_is_refused(body: str, code: str) -> None:
    with pytest.raises(DecisionError) as refused:
        read_object(body)
    assert refused.value.reason == code


@given(
    value=st.dictionaries(
        st.text(),
        st.recursive(
            st.text() | st.integers(-(2**53), 2**53) | st.none() | st.booleans(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=10,
        ),
        min_size=1,
        max_size=4,
    ),
    fence=st.booleans(),
    ascii_only=st.booleans(),
)
def test_every_valid_object_is_read_unchanged(value: dict[str, Any], fence: bool, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert read_object(f"\n```json\n{text}\n```\n" if fence else text).fields == value


@given(st.text(alphabet='{}[]",:\\ \n`ajson1\ud83d', max_size=40))
def test_any_other_body_is_refused_with_a_code(body: str) -> None:
    try:
        reason = "read" if isinstance(read_object(body).fields, dict) else "no object"
    except DecisionError as refused:
        reason = refused.reason
    assert reason in {"read", "no_json_candidate", "multi_decision_in_one_channel", "json_decode_error"}
