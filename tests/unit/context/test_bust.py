"""Cache busts: what a warm request missed of what the one before left, and whose fault it was."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from stepline.context.bust import find_bust
from stepline.context.rules import ContextRules
from stepline.events.derive import derive
from stepline.model.usage import Bust, BustReason, Usage
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LogBuilder

RULES = ContextRules(cache_minimum_tokens=1024)
LEFT = Usage(input_tokens=50, cache_read_tokens=6000, cache_write_5m_tokens=4000, output_tokens=9)


def asked(**fields: Any) -> LogBuilder:
    """Return a log whose first request left 10,000 tokens in a cache."""
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}), **{"usage": LEFT, "model": "m-1", "system": "5e5e5e5e", **fields})
    log.result()
    return log


def missed(
    log: LogBuilder, read: int, *, wait_s: float = 5, timeline: Timeline | None = None, **fields: Any
) -> Bust | None:
    """Return what the next request missed, if it reads `read` tokens."""
    facts = {"system": "5e5e5e5e", "model": "m-1", "usage": Usage(cache_read_tokens=read), **fields}
    now = log.now + timedelta(seconds=wait_s)
    return find_bust(timeline or log.timeline(), facts.pop("usage"), now=now, rules=RULES, **facts)


def test_a_request_that_reads_what_was_left_is_none_and_a_tenth_is_forgiven() -> None:
    assert missed(asked(), 10_000) is None
    assert missed(asked(), 9_000) is None
    assert missed(asked(), 8_999) == Bust(reason="provider", expected_tokens=10_000, read_tokens=8_999)


def test_a_request_after_the_cache_has_died_is_none() -> None:
    assert missed(asked(), 0, wait_s=280) is not None
    assert missed(asked(), 0, wait_s=300) is None


def test_a_cache_of_an_hour_is_missed_for_an_hour() -> None:
    hour = Usage(input_tokens=50, cache_read_tokens=6000, cache_write_1h_tokens=4000, output_tokens=9)
    assert missed(asked(usage=hour), 0, wait_s=3580) is not None
    assert missed(asked(usage=hour), 0, wait_s=3600) is None


@pytest.mark.parametrize(
    "usage", [None, Usage(cache_read_tokens=0, estimated=True)], ids=["uncounted", "estimated"]
)
def test_where_nobody_counted_nothing_is_known(usage: Usage | None) -> None:
    assert missed(asked(), 0, usage=usage) is None
    assert missed(asked(usage=usage), 0) is None


def test_what_no_provider_keeps_is_not_missed() -> None:
    small = Usage(input_tokens=50, cache_read_tokens=1000)
    assert missed(asked(usage=small), 0) is None
    assert missed(LogBuilder(), 0) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"system": "00000000"}, "system"), ({"model": "m-2"}, "model"), ({}, "provider")],
)
def test_what_stands_before_the_timeline_explains_it_first(fields: dict[str, str], reason: str) -> None:
    found = missed(asked(), 0, **fields)
    assert found is not None
    assert found.reason == reason


def test_a_hidden_block_explains_it_until_the_next_request() -> None:
    log = asked()
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    log.act(("react.hide", {"path": path}), usage=LEFT, model="m-1")
    log.hide(path, 3)
    assert missed(log, 0) == Bust(reason="hide", expected_tokens=10_000, read_tokens=0)
    assert missed(log, 0, system="00000000") == Bust(reason="system", expected_tokens=10_000, read_tokens=0)
    log.answer(usage=LEFT, model="m-1")
    assert missed(log, 0) == Bust(reason="provider", expected_tokens=10_000, read_tokens=0)


@pytest.mark.parametrize("reason", ["prune", "compaction"])
def test_what_made_room_explains_it(reason: BustReason) -> None:
    log = asked()
    log.answer(usage=LEFT, model="m-1")
    log.close()
    log.message("go on")
    if reason == "prune":
        log.prune(cause="budget", keep=1, intact=1)
    else:
        log.compact(cut=log.timeline().history[-1].opened)
    found = missed(log, 0)
    assert found is not None
    assert found.reason == reason


def test_a_retry_in_between_and_a_turn_that_ends_change_nothing() -> None:
    log = asked()
    log.reopen()
    log.take_over()
    log.answer(usage=LEFT, model="m-1")
    log.close()
    log.message("go on")
    assert missed(log, 10_000) is None
    assert missed(log, 0) == Bust(reason="provider", expected_tokens=10_000, read_tokens=0)


def cut_off(log: LogBuilder, **fields: Any) -> None:
    """Let a steer end the next call before the provider has counted it."""
    asked_at = log.n - 1
    log.message("be brief", event="steer")
    uncounted = Usage(input_tokens=7, estimated=True)
    log.interrupt("<channel:", rendered=asked_at, **{"usage": uncounted, "model": "m-1", **fields})


def test_a_call_that_was_cut_off_leaves_what_was_known_and_keeps_the_cache_alive() -> None:
    log = asked()
    before = log.timeline().asked
    log.wait(200)
    cut_off(log)
    after = log.timeline().asked
    assert (after.tokens, after.size, after.cached) == (before.tokens, before.size, 10_000)
    assert missed(log, 10_000, wait_s=200) is None
    assert missed(log, 0, wait_s=200) == Bust(reason="provider", expected_tokens=10_000, read_tokens=0)


@pytest.mark.parametrize("fields", [{"model": "m-2"}, {"system": "00000000"}])
def test_of_a_call_that_was_cut_off_and_began_otherwise_nobody_knows_what_a_cache_holds(
    fields: dict[str, str],
) -> None:
    log = asked()
    cut_off(log, **fields)
    assert missed(log, 0, **fields) is None


def test_a_call_that_was_cut_off_behind_a_change_leaves_nothing_to_expect() -> None:
    log = asked()
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    log.act(("react.hide", {"path": path}), usage=LEFT, model="m-1")
    log.hide(path, 3)
    cut_off(log)
    assert missed(log, 0) is None


def test_a_call_that_was_cut_off_but_counted_is_known() -> None:
    log = asked()
    cut_off(log, usage=Usage(input_tokens=10, cache_read_tokens=2_000))
    assert missed(log, 0) == Bust(reason="provider", expected_tokens=2_000, read_tokens=0)


def test_clients_hear_of_it() -> None:
    log = asked()
    batch = log.answer(bust=Bust(reason="hide", expected_tokens=10_000, read_tokens=7))
    (event,) = [event for event in derive(batch) if event.type == "accounting.cache_bust"]
    assert event.data == {"iteration": 1, "reason": "hide", "expected_tokens": 10_000, "read_tokens": 7}
    assert (event.route, event.turn_id) == ("chat_service", log.turn)
