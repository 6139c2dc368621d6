"""Steer, followup, stop and loss: each judge passes a documented end, and fails another one."""

import pytest
from msgspec.structs import replace

from stepline.local.client.change import Acknowledged, EventsApplied, HandedBack, Steered, TurnEnded
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.midturn_rows import (
    DECISION,
    RESTARTED,
    judge_followup,
    judge_steer,
    judge_stop,
    judge_taken_over,
)
from stepline.model.wire.event import AckFrame, ClientEvent

STEERED = Steered(n=4, turn_id="t", message_id="m", text="Stop.", phase="decision", finalize_rounds=2)
STOPPED = replace(STEERED, text="", finalize_rounds=0)
END = TurnEnded(n=9, turn_id="t", outcome="completed", answer="Yes.", reason="stop")
ACK = Acknowledged(frame=AckFrame(message_id="m", conversation="c", n=4, kind="followup"))
BACK = HandedBack(n=4, message_id="m", kind="steer", text="", reason="turn_closed")


def batch(n, kind=DECISION):
    event = ClientEvent(type=kind, route="chat_step", ts="2026-01-01T00:00:00.000Z")
    return EventsApplied(n=n, prev=n - 1, events=(event,))


def test_a_steer_is_held_by_the_rounds_that_it_leaves():
    assert judge_steer([batch(3), STEERED, batch(5), batch(6), END]) == STEERED


@pytest.mark.parametrize(
    "received",
    [[batch(5)], [STEERED, STEERED], [STEERED, batch(5), batch(6), batch(7)]],
    ids=["never", "twice", "more rounds"],
)
def test_a_steer_without_effect_and_more_rounds_fail(received):
    with pytest.raises(NotHeldError):
        judge_steer(received)


@pytest.mark.parametrize("judge", [judge_steer, judge_stop])
def test_an_event_that_came_after_the_turn_proves_nothing(judge):
    with pytest.raises(NotRunError):
        judge([BACK])


@pytest.mark.parametrize(
    "received",
    [
        [END],
        [STOPPED, replace(END, reason="complete")],
        [STOPPED],
        [STOPPED, END, END],
        [replace(STOPPED, finalize_rounds=1), END],
        [STOPPED, batch(5), batch(6), END],
    ],
    ids=["never", "completed", "no end", "two ends", "a round left", "rounds"],
)
def test_a_turn_that_the_stop_did_not_close_fails(received):
    assert judge_stop([STOPPED, END]) == STOPPED
    with pytest.raises(NotHeldError):
        judge_stop(received)


@pytest.mark.parametrize(
    "received",
    [
        [batch(5)],
        [ACK, batch(3)],
        [replace(ACK, frame=replace(ACK.frame, kind="steer")), batch(5)],
        [ACK, batch(5), replace(BACK, kind="followup")],
    ],
    ids=["not acknowledged", "not read", "another kind", "handed back"],
)
def test_a_followup_that_was_not_read_fails(received):
    assert judge_followup([ACK, batch(5)], "m") == 1
    with pytest.raises(NotHeldError):
        judge_followup(received, "m")


def test_a_followup_that_opened_a_turn_proves_nothing():
    with pytest.raises(NotRunError):
        judge_followup([replace(ACK, frame=replace(ACK.frame, kind="prompt")), batch(5)], "m")


def test_a_turn_that_is_not_restarted_was_not_taken_over():
    judge_taken_over([batch(2, RESTARTED)])
    with pytest.raises(NotHeldError):
        judge_taken_over([batch(2)])
