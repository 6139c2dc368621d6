"""Stable prefixes: the next request repeats the cached part of a request, and a mark finds it at its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.media import newest_media
from stepline.context.request import MARKS_MAX, render
from stepline.ports.model import Part
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment, encode_segment
from tests.support.log_builder import LANE, LogBuilder, logs, patient
from tests.unit.context.caching_provider import SYSTEM, TTL_S, Asked, ask_all, exact_rules, text_of


@pytest.fixture(autouse=True, scope="module")
def _exact_rules() -> Iterator[None]:
    with exact_rules():
        yield


def before_marks(asked: Asked) -> list[str]:
    parts = asked.rendered.content
    return ["".join(text_of(part) for part in parts[: mark + 1]) for mark in asked.marks]


def texts(asked: Asked) -> list[str]:
    return [text_of(part) for part in asked.rendered.content]


def is_warm(before: Asked, after: Asked) -> bool:
    return (after.at - before.at).total_seconds() < TTL_S


@patient
@given(logs())
def test_the_bytes_before_each_mark_of_a_request_begin_the_next_one(log: LogBuilder) -> None:
    for before, after in pairwise(ask_all(log)):
        whole = "".join(texts(after))
        assert all(whole.startswith(prefix) for prefix in before_marks(before))


@patient
@given(logs(forgetting=True))
def test_the_prefix_changes_only_with_a_recorded_reason(log: LogBuilder) -> None:
    for before, after in pairwise(ask_all(log)):
        whole = "".join(texts(after))
        unchanged = all(whole.startswith(prefix) for prefix in before_marks(before))
        assert unchanged or after.timeline.parts.rewritten


@patient
@given(logs(forgetting=True))
def test_a_warm_request_reads_the_whole_cached_prefix_without_lookback(
    log: LogBuilder,
) -> None:
    for before, after in pairwise(ask_all(log)):
        if is_warm(before, after) and not after.timeline.parts.rewritten:
            assert after.read >= before.held


@patient
@given(logs(forgetting=True))
def test_after_a_change_an_earlier_mark_is_reused_and_read_up_to(
    log: LogBuilder,
) -> None:
    asked = ask_all(log)
    for index, after in enumerate(asked):
        stays = after.timeline.parts.seen_part
        alike = [one for one in asked[:index] if texts(one)[:stays] == texts(after)[:stays]]
        wrote = [one for one in alike if stays - 1 in one.marks]
        assert wrote or not stays
        if any(is_warm(one, after) for one in wrote):
            assert after.read >= after.boundary


@patient
@given(logs(forgetting=True))
def test_marks_follow_the_previous_turn_the_last_request_and_the_end(log: LogBuilder) -> None:
    for asked in ask_all(log):
        parts, timeline = asked.rendered.content, asked.timeline
        trailing = len(newest_media(timeline.media)) + 1
        fixed = timeline.parts.steady_part or timeline.parts.turn_part
        ends = {fixed, timeline.parts.seen_part, len(parts) - trailing} - {0}
        assert [mark + 1 for mark in asked.marks] == sorted(ends)
        assert 1 + len(asked.marks) <= MARKS_MAX
        assert parts[-1] == Part(text="now")


@patient
@given(logs(forgetting=True), st.data())
def test_processes_with_different_caches_of_the_log_send_the_same_bytes(
    log: LogBuilder, data: st.DataObject
) -> None:
    """One process knows nothing, one remembers a part, one begins with a segment, and one reads each batch separately."""
    cut = data.draw(st.integers(0, len(log.batches)))
    known = Timeline.empty(LANE).extended(log.batches[:cut])
    sealed = decode_segment(encode_segment(known), LANE, known.form)
    assert sealed is not None
    step_by_step = Timeline.empty(LANE)
    for batch in log.batches:
        step_by_step = step_by_step.extended([batch])
    whole = log.timeline()
    assert known.extended(log.batches) == step_by_step == whole
    for timeline in (known.extended(log.batches), sealed.extended(log.batches), step_by_step):
        assert render(timeline, system=SYSTEM) == render(whole, system=SYSTEM)


@patient
@given(logs(forgetting=True))
def test_a_request_repeated_after_a_crash_is_the_same(log: LogBuilder) -> None:
    """An attempt that died after its request leaves no trace, and an announced retry adds no text."""
    timeline = log.timeline()
    if log.state.status == "open" and log.state.cursor.phase == "decide":
        again = timeline.extended([log.reopen()])
        assert render(again, system=SYSTEM) == render(timeline, system=SYSTEM)


def settled_turns(turns: int = 1, rounds: int = 2) -> LogBuilder:
    log = LogBuilder()
    for _ in range(turns):
        log.message("hello")
        for _ in range(rounds):
            log.act(("react.read", {}))
            log.result()
        log.answer()
        log.close()
    return log


def test_three_messages_are_marked_with_and_without_an_open_round() -> None:
    log = settled_turns()
    log.message("and now?")
    for _ in range(2):
        log.act(("react.read", {}))
        log.result()
    (*_, settled) = ask_all(log)
    assert len(settled.marks) == 3
    log.act(("react.read", {}), ("react.read", {}))
    log.result()
    (*_, opened) = ask_all(log)
    assert len(opened.marks) == 3


def test_the_first_mark_is_on_the_prompt() -> None:
    log = LogBuilder()
    log.message("hello")
    (asked,) = ask_all(log)
    assert asked.marks == [0]
    assert asked.rendered.content[0].text.endswith("\n  hello\n")


def test_eight_parallel_actions_are_one_part_and_one_cache_write() -> None:
    log = LogBuilder()
    log.message("hello")
    for _ in range(3):
        log.act(*[("react.read", {"path": str(index)}) for index in range(8)])
        for _ in range(8):
            log.result("result " * 50)
    asked = ask_all(log)
    assert [len(one.rendered.content) - 1 for one in asked] == [1, 2, 3, 4]
    for before, after in pairwise(asked):
        assert after.read == before.held


def test_a_hidden_block_costs_no_more_than_its_round() -> None:
    log = settled_turns(rounds=3)
    log.message("and now?")
    found = []
    for _ in range(3):
        log.act(("react.read", {}))
        found.append(log.result("long " * 100))
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    log.act(("react.hide", {"path": path}))
    log.hide(path, found[-1].n)
    *_, third, fourth, fifth = ask_all(log)
    assert fifth.timeline.parts.rewritten == "hide"
    assert fourth.held > fifth.read == third.held


def test_hiding_a_block_again_with_the_same_text_keeps_the_cache() -> None:
    log = settled_turns()
    log.message("and now?")
    log.act(("react.read", {}))
    n = log.result("long " * 100).n
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    for _ in range(2):
        log.act(("react.hide", {"path": path}))
        log.hide(path, n)
    *_, before, after = ask_all(log)
    assert after.timeline.parts.rewritten == ""
    assert after.read == before.held


@pytest.mark.parametrize(
    ("minimum", "marked"), [(0, (True, 1)), (30, (False, 1)), (100, (False, 1)), (10_000, (False, 0))]
)
def test_a_prefix_below_the_cache_minimum_gets_no_mark(minimum: int, marked: tuple[bool, int]) -> None:
    log = LogBuilder()
    log.message("hello " * 100)
    rendered = render(log.timeline(), system=SYSTEM, minimum_tokens=minimum)
    assert (rendered.system[0].cache, sum(part.cache for part in rendered.content)) == marked


def test_an_expired_cache_merges_earlier_parts_into_one() -> None:
    log = settled_turns(turns=2)
    log.wait(3600)
    log.message("much later")
    timeline = log.timeline()
    assert (len(timeline.parts.sealed), timeline.parts.turn_part, timeline.parts.seen_part) == (1, 1, 0)


def test_parts_before_the_open_turn_survive_a_compaction_of_its_rounds() -> None:
    """The rounds of a turn that outgrows the budget are summarised, and the cached turns before it are still read."""
    log = settled_turns(turns=2)
    log.message("a long one")
    for _ in range(4):
        log.act(("react.read", {}))
        log.result("long " * 100)
    log.compact(split=log.n - 1)
    *_, before, after = ask_all(log)
    assert after.timeline.parts.rewritten == "compaction"
    assert after.timeline.parts.turn_part == before.timeline.parts.turn_part > 1
    assert after.read == after.boundary


def searched_and_pruned(cause: str, *, steady: bool) -> LogBuilder:
    """Return turns of three searches each; the second and the third turn shorten two of those before.

    The first pruning has the `cause`, the other one saves cost.
    """
    log, settled = LogBuilder(), 0
    for why in ("", cause, "price"):
        log.wait(3600 if why == "ttl" else 0)
        log.message("look")
        if why:
            log.prune(cause=why, keep=99, settled=settled, steady=steady)
        for number in range(3):
            log.act(("web_tools.web_search", {"q": "x"}))
            settled = log.n if number < 2 else settled
            log.result("long " * 400, tool="web_tools.web_search")
        log.answer("found")
        log.close()
    return log


@pytest.mark.parametrize("cause", ["ttl", "price"])
def test_text_that_a_pruning_shortened_is_read_from_the_cache_after_the_next_one(cause: str) -> None:
    asked = ask_all(searched_and_pruned(cause, steady=True))
    before, after = asked[7], asked[8]
    steady = before.timeline.parts.steady_part
    assert (after.timeline.parts.rewritten, after.timeline.parts.seen_part) == ("prune", steady)
    assert texts(after)[:steady] == texts(before)[:steady] != []
    assert after.read == after.boundary > ask_all(searched_and_pruned(cause, steady=False))[8].read


def test_feedback_that_would_invalidate_more_than_it_frees_waits() -> None:
    log = settled_turns(rounds=0)
    first = log.closed_turns()[0]
    for _ in range(2):
        log.message("look")
        log.act(("web_tools.web_search", {"q": "x"}))
        log.result("long " * 400, tool="web_tools.web_search")
        log.answer()
        log.close()
    _, second, _ = log.closed_turns()
    log.message("and now?")
    log.answer("nothing")
    log.close()
    log.message("well?")
    log.rate(first, "ok", "good")
    log.rate(second, "not_ok", "too long")
    before = log.timeline()
    log.prune(cause="budget", keep=6, intact=2)
    after = log.timeline()
    assert after.fresh == [f"{first}/user"]
    assert after.incorporated == [f"{second}/user"]
    assert after.parts.rewritten == "prune"
    assert [part.text for part in after.parts.sealed][:1] == [part.text for part in before.parts.sealed][:1]
    log.prune()
    assert log.timeline().fresh == []


def test_a_part_that_no_request_marked_is_in_no_cache() -> None:
    log = LogBuilder()
    for text in ("one", "two"):
        log.message(text)
        log.close(code="step_failed")  # before the model was asked
    second = log.timeline().history[-1]
    log.message("three")
    log.act(("react.hide", {}))
    sent = log.timeline().parts.marked
    log.hide(f"ar:{second.id}.user.prompt", second.opened)
    parts = log.timeline().parts
    assert (sent, parts.seen_part, parts.rewritten) == ([2, 3], 0, "hide")
