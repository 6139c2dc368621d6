"""The value of an answer: with a result type it is required and checked, without one it is not read."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.protocol.decision.result_value import VALUE_BYTES, VALUE_DEPTH, accepted_value
from tests.unit.protocol.decision.read_generation import READ, decide, judge, think

UNSET = msgspec.UNSET
ANSWER = {"action": "complete", "final_answer": "Seven."}


def number_only(value):
    if not isinstance(value, int):
        raise ToolError("value: it must be a number", code="value_invalid")
    return value


def generation(**fields):
    return think() + decide({**ANSWER, **fields})


def test_a_value_that_fits_is_in_the_decision():
    verdict = judge(generation(value=7), accept=number_only)
    assert (verdict.decision.action, verdict.decision.value) == ("complete", 7)
    assert verdict.notices == ()


@pytest.mark.parametrize("fields", [{}, {"value": None}, {"value": "7"}], ids=str)
def test_a_value_that_does_not_fit_refuses_the_decision(fields):
    verdict = judge(generation(**fields), accept=number_only)
    assert not verdict.accepted
    assert [notice.code for notice in verdict.notices] == ["value_invalid"]


def test_in_the_last_round_the_answer_is_kept_as_exit():
    verdict = judge(generation(value="7"), accept=number_only, last_round=True)
    assert (verdict.decision.action, verdict.decision.value) == ("exit", UNSET)
    assert verdict.decision.final_answer == "Seven."
    assert [notice.code for notice in verdict.notices] == ["value_dropped"]


def test_calls_and_exits_have_no_value():
    call = think() + decide({"action": "call_tool", "tool_call": READ, "value": 7})
    for text in (call, generation(action="exit", value=7)):
        verdict = judge(text, accept=number_only)
        assert verdict.accepted
        assert verdict.decision.value is UNSET


def test_without_a_result_type_a_value_is_ignored():
    assert judge(generation(value=[7])) == judge(generation())


def test_an_answer_that_was_shown_remains_as_exit_without_a_value():
    broken = generation(value=7, tool_call=READ)
    verdict = judge(broken, accept=number_only, streamed_answer="Seven.")
    assert (verdict.decision.action, verdict.decision.value) == ("exit", UNSET)
    assert verdict.salvaged


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=40))
def test_every_value_within_the_limits_is_accepted_unchanged(value):
    assert accepted_value(value, lambda one: one) == value


def nested(levels):
    value: object = 0
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        (nested(VALUE_DEPTH), True),
        (nested(VALUE_DEPTH + 1), False),
        (nested(5_000), False),
        ("x" * (VALUE_BYTES - 2), True),
        ("x" * (VALUE_BYTES - 1), False),
        ("\ud800", False),
        (UNSET, False),
    ],
    ids=["deep", "deeper", "far deeper", "long", "longer", "half a surrogate", "none"],
)
def test_a_value_beyond_the_limits_is_refused(value, fits):
    if fits:
        assert accepted_value(value, lambda one: one) == value
        return
    with pytest.raises(ToolError) as refused:
        accepted_value(value, lambda one: one)
    assert refused.value.reason == "value_invalid"
