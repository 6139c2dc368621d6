"""Weak spots that agents with a timeline are known for: each has a test of ours that would fail if it were here, too."""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WEAK_SPOTS = {
    "W1 every batch writes the whole conversation again": (
        "test_a_long_log_is_sealed_before_the_decision_that_names_the_segment",
        "test_a_short_conversation_puts_no_object",
    ),
    "W2 every request renders and counts everything again": (
        "test_nothing_is_weighed_while_a_request_is_far_below_its_budget",
        "test_older_pieces_are_made_when_somebody_wants_them_and_once",
    ),
    "W3 an open round takes the last mark away": (
        "test_conformance_1_three_messages_are_marked_with_and_without_an_open_round",
        "test_the_first_mark_stands_on_the_prompt",
    ),
    "W4 what is sent differs from what was cached": (
        "test_conformance_1_the_bytes_before_each_mark_of_a_request_begin_the_next_one",
    ),
    "W5 a compaction that does not help is paid for again and again": (
        "test_conformance_3_a_compaction_reduces_or_is_skipped_and_no_model_is_asked_twice_in_vain",
        "test_after_a_summary_in_vain_the_model_is_not_asked_the_next_time",
    ),
    "W6 the provider's limit is guessed from words and tried once": (
        "test_a_request_that_the_provider_finds_too_large_is_sent_again_smaller",
        "test_after_three_smaller_requests_the_turn_ends_with_the_typed_error",
    ),
    "W7 the last round ends without an answer": (
        "test_a_turn_whose_reserved_round_fails_says_what_it_did",
        "test_it_says_what_was_done_what_is_open_and_what_went_wrong_last",
    ),
    "W8 a wrong parameter ends the turn": (
        "test_conformance_7_a_hiding_that_is_refused_never_ends_the_turn",
        "test_a_path_at_which_nothing_is_seen_is_refused_and_the_turn_goes_on",
    ),
    "W9 an answer is recorded only if it was seen to begin": (
        "test_an_answer_that_nobody_saw_begin_is_recorded_like_any_other",
    ),
    "W10 the pool of sources has no bound": (
        "test_a_pool_of_a_hundred_sources_is_small",
        "test_of_a_large_pool_the_rows_cited_last_and_the_newest_are_shown",
    ),
    "W11 times of several forms are compared as texts": ("test_times_are_compared_as_times",),
    "W12 one process has to live": (
        "test_conformance_10_processes_send_the_same_bytes_whatever_they_know_of_the_log",
        "test_conformance_10_a_step_that_died_at_a_put_and_ran_again_changes_nothing",
    ),
    "W13 the instructions are strings in the code": ("test_a_template_is_small",),
    "W14 what is hidden is changed in place": (
        "test_conformance_2_what_was_visible_once_is_read_at_its_path_whatever_became_of_it",
    ),
    "W15 sources stand in two places": ("test_the_pool_is_the_fold_of_what_results_brought",),
    "W16 texts are checked by a word in them": (
        "test_a_text_is_what_its_golden_file_says",
        "test_there_is_a_golden_file_for_every_text_and_none_besides",
    ),
}
CONFORMANCE = (1, 2, 3, 6, 7, 8, 9, 10)


@pytest.fixture(scope="module")
def texts() -> str:
    """Return what all the other tests say."""
    return "\n".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))


@pytest.mark.parametrize("spot", WEAK_SPOTS)
def test_a_weak_spot_has_the_tests_that_hold_it(texts: str, spot: str) -> None:
    assert [name for name in WEAK_SPOTS[spot] if f"def {name}(" not in texts] == []


@pytest.mark.parametrize("number", CONFORMANCE)
def test_a_conformance_test_is_there_by_name(texts: str, number: int) -> None:
    assert f"def test_conformance_{number}_" in texts
