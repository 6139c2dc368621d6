import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import InputError
from stepline.model.ids import (
    CALL,
    SEGMENT,
    TURN,
    Lane,
    call_id,
    check_segment,
    execution_name,
    make_lane,
    turn_id,
    utc,
)

segments = st.from_regex(SEGMENT, fullmatch=True)
lanes = st.builds(Lane, tenant=segments, project=segments, conversation=segments)
moments = st.builds(datetime.fromtimestamp, st.floats(0, 4e9), st.timezones())


@given(lanes, st.integers(1, 10**15))
def test_an_execution_name_is_valid_for_step_functions(lane: Lane, epoch: int) -> None:
    name = execution_name(lane, epoch)
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9]+", name)
    assert len(name) <= 80


@given(lanes, st.integers(1, 100), st.integers(1, 100))
def test_every_epoch_of_a_lane_has_a_unique_execution_name(lane: Lane, one: int, two: int) -> None:
    assert (execution_name(lane, one) == execution_name(lane, two)) == (one == two)


def test_lanes_that_would_read_alike_when_joined_are_different_executions() -> None:
    one = Lane(tenant="a", project="b-c", conversation="d")
    two = Lane(tenant="a-b", project="c", conversation="d")
    assert execution_name(one, 1) != execution_name(two, 1)


@given(moments, st.text())
def test_a_turn_id_is_valid_in_a_path_and_sorts_by_its_second(at: datetime, seed: str) -> None:
    name = turn_id(at, seed)
    assert TURN.fullmatch(name)
    assert turn_id(at.astimezone(UTC) + timedelta(seconds=1), seed) > name


def test_a_turn_id_is_the_same_for_the_same_moment_and_message_and_another_for_another() -> None:
    at = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    assert turn_id(at, "m1") == turn_id(at.astimezone(timezone(timedelta(hours=9))), "m1")
    assert turn_id(at, "m1") != turn_id(at, "m2")


def test_a_call_id_is_unique_for_turn_round_and_position() -> None:
    names = {call_id(turn, i, k) for turn in ("t1", "t11") for i in range(12) for k in range(12)}
    assert len(names) == 2 * 12 * 12
    assert all(CALL.fullmatch(name) for name in names)


@given(moments)
def test_a_stored_time_has_one_format_and_reads_back_to_the_millisecond(at: datetime) -> None:
    text = utc(at)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", text)
    assert abs(datetime.fromisoformat(text) - at) < timedelta(milliseconds=1)


@pytest.mark.parametrize("text", ["a", "A-1_b", "0", "x" * 64])
def test_a_segment_is_a_short_plain_name(text: str) -> None:
    assert check_segment(text, "tenant") == text


@pytest.mark.parametrize(
    "text",
    ["", "-a", "_a", ".", "..", "a.b", "a/b", "a#b", "a b", "a\n", "ä", "x" * 65, "a\0", "а"],  # noqa: RUF001 - a Cyrillic a
)
def test_a_bad_segment_is_refused_with_the_code_of_its_kind(text: str) -> None:
    with pytest.raises(InputError) as caught:
        check_segment(text, "project")
    assert caught.value.reason == "bad_project"


def test_a_lane_from_outside_is_checked_in_all_its_parts() -> None:
    assert make_lane("t", "p", "c") == Lane(tenant="t", project="p", conversation="c")
    for parts, code in (
        (("#", "p", "c"), "bad_tenant"),
        (("t", "#", "c"), "bad_project"),
        (("t", "p", "#"), "bad_conversation"),
    ):
        with pytest.raises(InputError) as caught:
            make_lane(*parts)
        assert caught.value.reason == code
