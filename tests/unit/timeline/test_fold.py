"""The fold: a timeline follows from its log alone, for any split of its batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.model.usage import Usage
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LANE, LogBuilder, logs, patient


@patient
@given(logs(), st.data())
def test_the_fold_does_not_care_how_the_log_is_cut(log: LogBuilder, data: st.DataObject):
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.batches)), max_size=5)))
    timeline = Timeline.empty(LANE)
    for cut in cuts:
        timeline = timeline.extended(log.batches[timeline.n : cut])
    assert timeline.extended(log.batches[timeline.n :]) == log.timeline()


@patient
@given(logs())
def test_extending_changes_nothing_of_the_timeline_before(log: LogBuilder):
    half = log.timeline(len(log.batches) // 2)
    again = log.timeline(len(log.batches) // 2)
    half.extended(log.batches)
    assert half == again


@patient
@given(logs())
def test_a_turn_is_open_exactly_while_the_state_says_so(log: LogBuilder):
    timeline = log.timeline()
    assert (timeline.current.id if timeline.current else "") == log.turn
    assert all(turn.closed for turn in timeline.history[:-1])


def test_batches_it_has_are_passed_over_and_a_gap_is_refused():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}))
    timeline = log.timeline(1)
    assert timeline.extended(log.batches).n == 2
    assert timeline.extended(log.batches[:1]) is timeline
    with pytest.raises(ValueError):
        Timeline.empty(LANE).extended(log.batches[1:])


def test_facts_of_a_turn():
    log = LogBuilder()
    log.message("  Plan\nmy week  " + "x" * 200)
    turn = log.turn
    log.act(("react.plan", {}), usage=Usage(input_tokens=5, output_tokens=2))
    first = log.plan("a", "b")
    log.result(tool="react.plan", plans=(first,))
    acked = log.plan("a", "b", status={"1": "done", "2": "pending"})
    log.answer("done", plan=acked, usage=Usage(cache_read_tokens=7, output_tokens=1, estimated=True))
    timeline = log.timeline()
    assert timeline.title.startswith("Plan my week xxx")
    assert len(timeline.title) == 80
    assert timeline.plans == {first.plan_id: acked}
    assert timeline.usage == Usage(input_tokens=5, cache_read_tokens=7, output_tokens=3, estimated=True)
    assert [n for n, _ in timeline.entries] == [1, 1, 1, 2, 3, 4]
    assert timeline.turns == (turn,)
    log.close()
    ended = log.timeline()
    assert ended.current is None
    assert ended.entries == ()
    assert (ended.history[0].opened, ended.history[0].closed, ended.history[0].outcome) == (1, 5, "completed")


def test_events_are_pending_until_a_turn_or_a_record_consumes_them():
    log = LogBuilder()
    log.message("steer nothing", event="steer")
    assert log.timeline().events_since(0) == ()
    log.message("build finished", event="event", reactive=False)
    assert [event.n for event in log.timeline().events_since(0)] == [2]
    log.message("go")
    log.message("and more")
    assert [event.n for event in log.timeline().events_since(0)] == [2, 4]
    assert [event.path for event in log.timeline().events_since(3)] == [f"ar:{log.turn}.external.followup.m4"]
    log.answer(rendered=3)
    log.close()
    assert log.timeline().events_since(0) == ()
    assert log.timeline().history[-1].prompts == (4,)
