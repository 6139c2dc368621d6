"""Messages that nest deeper than the emulator's parser supports."""

import json

import pytest

from stepline.local.guard.gate import NESTING_MAX, NO_JSON, limit_nesting


def nested(depth):
    return '{"a":[' * (depth // 2) + "]}" * (depth // 2)


@pytest.mark.parametrize(
    "text", ["", "hello", "[" * NESTING_MAX, nested(NESTING_MAX), "[" + "[]," * 2_000 + "1]"]
)
def test_a_readable_message_is_passed_on_unchanged(text):
    assert limit_nesting(text) == text


def test_brackets_in_a_text_are_text():
    text = json.dumps({"text": '["\\' * 2_000})
    assert limit_nesting(text) == text


@pytest.mark.parametrize("text", [nested(20_000), "[" * 20_000, '{"text":"]]]"}' + "[" * (NESTING_MAX + 1)])
def test_a_message_that_nests_too_deep_is_no_json_either(text):
    assert limit_nesting(text) == NO_JSON
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(NO_JSON)
