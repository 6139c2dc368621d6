"""Judges of a conversation: each passes what a good stage sends, and fails what a broken one does."""

import pytest
from msgspec.structs import replace

from stepline.local.client.change import EventsApplied, TextAppended, TurnEnded
from stepline.local.proof.judge_stream import (
    fold_stored,
    join_text,
    judge_batches,
    judge_continuation,
    judge_ends,
    judge_texts,
)
from stepline.local.proof.proof_row import NotHeldError
from stepline.model.wire.event import ClientEvent, EventFrame

EVENT = ClientEvent(type="chat.start", route="chat_start", ts="2026-01-01T00:00:00.000Z")
BATCHES = [EventsApplied(n=n, prev=prev, events=(EVENT,)) for n, prev in ((1, 0), (3, 1), (4, 3))]
END = TurnEnded(n=4, turn_id="turn_1", outcome="completed", answer="Yes.", reason="complete")


def piece(off, text, stream=2, lane="answer.1"):
    return TextAppended(claim=stream, lane=lane, off=off, text=text)


def test_the_stored_batches_in_order_are_held():
    judge_batches(BATCHES, BATCHES)
    judge_batches([*BATCHES, EventsApplied(n=5, prev=4, events=())], BATCHES)


@pytest.mark.parametrize(
    "received",
    [
        BATCHES[:2],
        BATCHES[1:],
        [BATCHES[0], BATCHES[0], *BATCHES[1:]],
        [BATCHES[1], BATCHES[0], BATCHES[2]],
        [BATCHES[0], replace(BATCHES[1], prev=2), BATCHES[2]],
        [*BATCHES[:2], replace(BATCHES[2], events=())],
    ],
    ids=["the last is lost", "the first is lost", "repeated", "out of order", "a gap", "other events"],
)
def test_lost_repeated_and_changed_batches_fail(received):
    with pytest.raises(NotHeldError):
        judge_batches(received, BATCHES)


def test_a_stored_frame_after_a_gap_is_not_applied():
    frames = [EventFrame(conversation="c", n=n, prev=prev, events=(EVENT,)) for n, prev in ((1, 0), (3, 2))]
    assert [batch.n for batch in fold_stored("c", frames)] == [1]


def test_a_turn_that_ended_once_with_an_answer_is_held():
    judge_ends([END])
    judge_ends([END, replace(END, turn_id="turn_2")], turns=2)


@pytest.mark.parametrize(
    "ends",
    [
        [],
        [END, END],
        [END, replace(END, turn_id="turn_2")],
        [replace(END, outcome="error", code="execution_lost")],
        [replace(END, reason="violations")],
    ],
    ids=["never", "twice", "two turns", "an error", "no answer"],
)
def test_a_turn_that_did_not_end_once_with_an_answer_fails(ends):
    with pytest.raises(NotHeldError):
        judge_ends(ends)


def test_pieces_are_joined_and_a_gap_and_a_repetition_fail():
    assert join_text([piece(0, "ab"), piece(2, "c"), piece(0, "x", stream=3)]) == {
        (2, "answer.1"): "abc",
        (3, "answer.1"): "x",
    }
    for off in (1, 3):
        with pytest.raises(NotHeldError):
            join_text([piece(0, "ab"), piece(off, "c")])


def test_two_clients_with_the_same_text_agree_though_one_lacks_an_end():
    assert judge_texts({(2, "a"): "abc", (3, "a"): "d"}, {(2, "a"): "ab"}) == 2


@pytest.mark.parametrize("other", [{(2, "a"): "axc"}, {(3, "a"): "abc"}, {}])
def test_other_text_and_no_common_text_fail(other):
    with pytest.raises(NotHeldError):
        judge_texts({(2, "a"): "abc"}, other)


def test_a_stream_continues_after_a_cut_or_fails():
    assert judge_continuation([piece(0, "ab")], [piece(2, "cd"), piece(0, "x", stream=3)]) == 2
    with pytest.raises(NotHeldError):
        judge_continuation([piece(0, "ab")], [piece(0, "x", stream=3)])
