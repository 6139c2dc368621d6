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


def test_reading_nine_tenths_of_the_expected_cache_is_no_bust() -> None:
    assert missed(asked(), 10_000) is None
    assert missed(asked(), 9_000) is None
    assert missed(asked(), 8_999) == Bust(reason="provider", expected_tokens=10_000, read_tokens=8_999)


def test_a_request_after_the_cache_expired_is_no_bust() -> None:
    assert missed(asked(), 0, wait_s=280) is not None
    assert missed(asked(), 0, wait_s=300) is None


def test_an_hour_long_cache_is_expected_for_an_hour() -> None:
    hour = Usage(input_tokens=50, cache_read_tokens=6000, cache_write_1h_tokens=4000, output_tokens=9)
    assert missed(asked(usage=hour), 0, wait_s=3580) is not None
    assert missed(asked(usage=hour), 0, wait_s=3600) is None


@pytest.mark.parametrize(
    "usage", [None, Usage(cache_read_tokens=0, estimated=True)], ids=["uncounted", "estimated"]
)
def test_without_token_counts_no_bust_is_recorded(usage: Usage | None) -> None:
    assert missed(asked(), 0, usage=usage) is None
    assert missed(asked(usage=usage), 0) is None


def test_a_prefix_below_the_cache_minimum_is_no_bust() -> None:
    small = Usage(input_tokens=50, cache_read_tokens=1000)
    assert missed(asked(usage=small), 0) is None
    assert missed(LogBuilder(), 0) is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({"system": "00000000"}, "system"), ({"model": "m-2"}, "model"), ({}, "provider")],
)
def test_a_changed_system_part_is_the_first_reason_of_a_bust(fields: dict[str, str], reason: str) -> None:
    found = missed(asked(), 0, **fields)
    assert found is not None
    assert found.reason == reason


def test_a_hidden_block_is_the_reason_of_a_bust_until_the_next_request() -> None:
    log = asked()
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    log.act(("react.hide", {"path": path}), usage=LEFT, model="m-1")
    log.hide(path, 3)
    assert missed(log, 0) == Bust(reason="hide", expected_tokens=10_000, read_tokens=0)
    assert missed(log, 0, system="00000000") == Bust(reason="system", expected_tokens=10_000, read_tokens=0)
    log.answer(usage=LEFT, model="m-1")
    assert missed(log, 0) == Bust(reason="provider", expected_tokens=10_000, read_tokens=0)


@pytest.mark.parametrize("reason", ["prune", "compaction"])
def test_pruning_and_compaction_are_reasons_of_a_bust(reason: BustReason) -> None:
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


def test_a_retry_or_the_end_of_a_turn_keeps_the_expected_cache() -> None:
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


def test_an_uncounted_call_keeps_the_expected_tokens_and_renews_the_cache() -> None:
    log = asked()
    before = log.timeline().asked
    log.wait(200)
    cut_off(log)
    after = log.timeline().asked
    assert (after.tokens, after.size, after.cached) == (before.tokens, before.size, 10_000)
    assert missed(log, 10_000, wait_s=200) is None
    assert missed(log, 0, wait_s=200) == Bust(reason="provider", expected_tokens=10_000, read_tokens=0)


@pytest.mark.parametrize("fields", [{"model": "m-2"}, {"system": "00000000"}])
def test_an_uncounted_call_with_another_prefix_leaves_the_cache_unknown(
    fields: dict[str, str],
) -> None:
    log = asked()
    cut_off(log, **fields)
    assert missed(log, 0, **fields) is None


def test_an_uncounted_call_after_a_rewrite_leaves_the_cache_unknown() -> None:
    log = asked()
    path = [block.path for block in log.timeline().turn_blocks(log.turn) if block.tool_id][-1]
    log.act(("react.hide", {"path": path}), usage=LEFT, model="m-1")
    log.hide(path, 3)
    cut_off(log)
    assert missed(log, 0) is None


def test_an_interrupted_call_with_a_count_sets_the_expected_cache() -> None:
    log = asked()
    cut_off(log, usage=Usage(input_tokens=10, cache_read_tokens=2_000))
    assert missed(log, 0) == Bust(reason="provider", expected_tokens=2_000, read_tokens=0)


def test_clients_receive_the_cache_bust() -> None:
    log = asked()
    batch = log.answer(bust=Bust(reason="hide", expected_tokens=10_000, read_tokens=7))
    (event,) = [event for event in derive(batch) if event.type == "accounting.cache_bust"]
    assert event.data == {"iteration": 1, "reason": "hide", "expected_tokens": 10_000, "read_tokens": 7}
    assert (event.route, event.turn_id) == ("chat_service", log.turn)
