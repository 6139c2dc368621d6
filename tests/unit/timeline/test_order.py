import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.block import Block
from stepline.timeline.order import conversation_order
from tests.support.log_builder import LogBuilder, logs, patient

times = st.sampled_from(
    [
        "2026-11-21T10:00:00.000Z",
        "2026-11-21T10:00:00.001Z",
        "2026-11-21T12:00:00+02:00",
        "2026-11-20T00:00:00Z",
        "",
    ]
)


def said(turn: str, ts: str, text: str = "") -> Block:
    return Block(type="x", author="user", ts=ts, turn_id=turn, text=text)


def test_an_answer_stands_before_the_message_that_came_while_it_was_written():
    log = LogBuilder()
    log.message("first")
    asked = log.n - 1
    begun = log.at
    log.wait(1)
    log.message("wait, second", event="followup")
    log.answer("to the first", rendered=asked, started_at=begun)
    log.defer()
    log.answer("to both")
    log.close()
    kinds = ("user.prompt", "user.followup", "assistant.completion")
    ordered = conversation_order(log.timeline().blocks())
    assert [block.text for block in ordered if block.type in kinds] == [
        *("first", "to the first", "wait, second", "to both")
    ]


@patient
@given(logs())
def test_the_order_is_that_of_beginnings_within_turns_in_the_order_of_turns(log: LogBuilder):
    blocks = log.timeline().blocks()
    ordered = conversation_order(blocks)
    assert sorted(map(id, ordered)) == sorted(map(id, blocks))
    assert list(dict.fromkeys(b.turn_id for b in ordered)) == list(log.timeline().turns)
    for turn in log.timeline().turns:
        own = [block.ts for block in ordered if block.turn_id == turn]
        assert own == sorted(own)


def test_times_are_compared_as_times():
    late, early = said("t", "2026-11-21T10:00:00.000Z"), said("t", "2026-11-21T11:00:00+02:00")
    assert conversation_order([late, early]) == [early, late]


@given(st.lists(times, max_size=8))
def test_what_began_together_or_has_no_time_stays_in_the_order_of_the_log(stamps):
    blocks = [said("t", ts, str(n)) for n, ts in enumerate(stamps)]
    ordered = conversation_order(blocks)
    assert conversation_order(ordered) == ordered
    alone = [said("t", "", str(n)) for n in range(len(stamps))]
    assert conversation_order(alone) == alone


def test_turns_that_interleave_are_told_one_after_the_other():
    blocks = [
        said("a", "2026-11-21T10:00:02Z"),
        said("b", "2026-11-21T10:00:00Z"),
        said("a", "2026-11-21T10:00:01Z"),
    ]
    assert conversation_order(blocks) == [blocks[2], blocks[0], blocks[1]]


def test_a_time_that_is_none_is_refused():
    with pytest.raises(ValueError, match="yesterday"):
        conversation_order([said("t", "yesterday")])
