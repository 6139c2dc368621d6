"""Counting a turn, entry by entry."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.log.transition import add_usage, count_entries, epoch_ms
from stepline.model.block import Body, Produced
from stepline.model.entry import Decided, Dropped, Opened, Resulted
from stepline.model.usage import Tally, Usage

START = "2026-11-22T10:00:00.000Z"
LATER = "2026-11-22T10:00:02.500Z"
BODY = Body(key="out/x", sha256="0" * 64, size_bytes=1)

counts = st.integers(0, 10**9)
usages = st.builds(
    Usage,
    input_tokens=counts,
    cache_read_tokens=counts,
    cache_write_5m_tokens=counts,
    cache_write_1h_tokens=counts,
    output_tokens=counts,
    estimated=st.booleans(),
)


def decided(**fields: object) -> Decided:
    return Decided(**{"iteration": 0, "claim": 1, "action": "complete", "started_at": START, **fields})


def resulted(*blocks: Produced, duration_ms: int = 0) -> Resulted:
    return Resulted(
        call_id="c", tool_id="t", iteration=0, status="ok", at=START, duration_ms=duration_ms, blocks=blocks
    )


def file(path: str, visibility: str, body: Body | None = BODY) -> Produced:
    return Produced(path=path, body=body, meta={"visibility": visibility})


def test_a_turn_begins_when_it_was_opened():
    tally = count_entries(Tally(), [Opened(turn="t", at=LATER, prompts=(1,))], LATER)
    assert tally == Tally(opened_ms=epoch_ms(START) + 2500)


def test_a_decision_counts_its_usage_and_duration_even_if_refused():
    usage = Usage(input_tokens=5, output_tokens=2)
    tally = count_entries(Tally(), [decided(usage=usage), decided(accepted=False, usage=usage)], LATER)
    assert (tally.rounds, tally.model_ms) == (2, 5000)
    assert tally.usage == Usage(input_tokens=10, output_tokens=4)


@pytest.mark.parametrize(("started_at", "at"), [("", LATER), (LATER, START)])
def test_a_missing_or_negative_duration_counts_as_zero(started_at: str, at: str):
    assert count_entries(Tally(), [decided(started_at=started_at)], at).model_ms == 0


def test_only_files_that_are_offered_count():
    entry = resulted(
        file("fi:t.outputs/a.md", "external"),
        file("fi:t.outputs/b.md", "internal"),
        file("tc:t.c.result", "external"),
        file("fi:t.outputs/c.md", "external", body=None),
        duration_ms=7,
    )
    tally = count_entries(Tally(), [entry, resulted(duration_ms=3)], LATER)
    assert (tally.files, tally.tools_ms) == (1, 10)


def test_an_entry_that_is_not_work_leaves_the_tally_unchanged():
    assert count_entries(Tally(rounds=3), [Dropped(n=1, reason="r")], LATER) == Tally(rounds=3)


@given(usages, usages)
def test_no_kind_of_token_is_forgotten(one: Usage, other: Usage):
    total = add_usage(one, other)
    for name in Usage.__struct_fields__[:-1]:
        assert getattr(total, name) == getattr(one, name) + getattr(other, name)
    assert total.prompt_tokens == one.prompt_tokens + other.prompt_tokens
    assert total.estimated is (one.estimated or other.estimated)
