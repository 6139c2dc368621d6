"""How many tokens a request has, without a tokenizer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.compaction import trial
from stepline.context.estimate import MARGIN, Gauge, calibration, estimate_request, gauge
from stepline.model.usage import BYTES_PER_TOKEN, Usage
from stepline.rendering.piece import byte_length
from tests.support.log_builder import LogBuilder
from tests.unit.context.test_compaction import outline_of, worked

ENGLISH = "The quick brown fox jumps over the lazy dog. "
CHINESE = "敏捷的棕色狐狸跳过了那只懒狗。"


def asked(text: str, tokens: int) -> LogBuilder:
    """Return a turn whose first request was counted by the provider."""
    log = LogBuilder()
    log.message(text)
    log.act(("docs.look_up", {}), usage=Usage(input_tokens=tokens))
    return log


def test_the_first_estimate_is_by_bytes() -> None:
    log = LogBuilder()
    log.message(ENGLISH * 40)
    timeline = log.timeline()
    expected = (timeline.parts.size + 1_000) / BYTES_PER_TOKEN * MARGIN
    assert estimate_request(timeline, 1_000) == pytest.approx(expected, abs=1)


def test_an_estimate_adds_new_bytes_to_the_providers_count() -> None:
    log = asked(ENGLISH * 40, 5_000)
    before = log.timeline()
    log.result("x" * 3_200)
    grown = log.timeline().parts.size - before.asked.size
    assert estimate_request(log.timeline(), 0) >= 5_000 + grown / BYTES_PER_TOKEN
    assert estimate_request(log.timeline(), 10**6) == pytest.approx(
        5_000 + grown / BYTES_PER_TOKEN * MARGIN, abs=1
    )


def test_an_estimate_adds_the_growth_of_the_other_parts() -> None:
    log = LogBuilder()
    log.message(ENGLISH * 40)
    log.act(("docs.look_up", {}), usage=Usage(input_tokens=1_500), overhead_bytes=3_000)
    same = estimate_request(log.timeline(), 3_000)
    assert estimate_request(log.timeline(), 2_000) <= same
    assert estimate_request(log.timeline(), 6_200) == pytest.approx(same + 1_000 * MARGIN, abs=1)


@pytest.mark.parametrize(("text", "tokens_per_character"), [(ENGLISH, 0.22), (CHINESE, 1.0), (CHINESE, 1.6)])
def test_a_conversation_calibrates_itself_to_its_language(text: str, tokens_per_character: float) -> None:
    counted = round(len(text) * 400 * tokens_per_character)
    log = asked(text * 400, counted)
    said = text * 100
    log.result(said)
    real = counted + len(said) * tokens_per_character
    assert real <= estimate_request(log.timeline(), 0) <= counted + 2.2 * (real - counted) + 500


def test_text_of_three_bytes_a_character_is_estimated_by_its_bytes() -> None:
    log = LogBuilder()
    log.message(CHINESE * 300)
    assert estimate_request(log.timeline(), 0) >= len(CHINESE) * 300


def test_after_a_rewrite_remaining_bytes_count_at_the_previous_rate() -> None:
    log = worked()
    log.act(("docs.look_up", {}), usage=Usage(input_tokens=9_000))
    timeline = log.timeline()
    after = trial(timeline, outline_of(timeline).entry)
    assert after.parts.rewritten == "compaction"
    share = (after.parts.size + 500) / (timeline.asked.size + 500)
    assert estimate_request(after, 500) == pytest.approx(9_000 * share * MARGIN, rel=0.01)


def test_an_estimated_count_does_not_calibrate() -> None:
    log = LogBuilder()
    log.message("hello")
    log.act(("docs.look_up", {}), usage=Usage(input_tokens=7, estimated=True))
    assert calibration(log.timeline(), 0) == 1.0


def test_the_calibration_by_an_extreme_count_is_bounded() -> None:
    assert calibration(asked("hello", 10**6).timeline(), 0) == 2.5
    assert calibration(asked(ENGLISH * 100, 1).timeline(), 0) == 0.5


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.floats(0.1, 2.0))
def test_bytes_of_a_gauges_room_fit_its_tokens(tokens: int, overhead: int, per_byte: float) -> None:
    scale = Gauge(tokens_per_byte=per_byte, overhead_bytes=overhead)
    room = scale.room(tokens)
    assert room == 0 or scale.tokens(room) <= tokens + 1


def test_a_gauge_includes_the_overhead_bytes() -> None:
    timeline = asked(ENGLISH, 0).timeline()
    assert gauge(timeline, 3_200).tokens(0) == pytest.approx(1_100, abs=1)
    assert timeline.parts.size == sum(byte_length(piece.text) for piece in timeline.pieces)
