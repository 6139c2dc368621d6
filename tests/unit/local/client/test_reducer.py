"""The rules of the client's fold, one by one."""

from __future__ import annotations

import msgspec
import pytest
from msgspec.structs import replace

from stepline.local.client.change import (
    Acknowledged,
    EventsApplied,
    HandedBack,
    LaneEnded,
    LaneKnown,
    Refused,
    Steered,
    StreamReset,
    StreamSettled,
    Synced,
    TextAppended,
    TurnEnded,
    Waiting,
)
from stepline.local.client.outgoing import Said
from stepline.local.client.reducer import fold_frame, resume_request
from stepline.local.client.state import ClientState, note_message, send_request
from stepline.model.wire.client_message import Approve, Deny, Edit, Event, Rate, Resume, Send, parse_message
from stepline.model.wire.event import (
    CONTROL_LANE,
    AckFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    PongFrame,
    SyncFrame,
    frame_events,
)
from stepline.protocol.stream.lane import LaneFacts
from tests.support.fold import fold_frames

C = "c1"
EMPTY = ClientState(conversation=C)


def event(type_, **data):
    return ClientEvent(type=type_, route="chat_step", ts="", turn_id="turn_1", data=data)


def batch(n, prev, *events, claim=0):
    return EventFrame(conversation=C, n=n, prev=prev, claim=claim, events=events or (event("chat.step"),))


def delta(claim, off, text, lane="answer"):
    return DeltaFrame(conversation=C, claim=claim, lane=lane, off=off, text=text)


def kinds(effects):
    return [type(effect) for effect in effects]


def test_a_batch_is_applied_when_the_batch_before_it_is_the_cursor():
    state, effects = fold_frame(EMPTY, batch(1, 0))
    assert state.cursor == 1
    assert kinds(effects) == [EventsApplied]


def test_a_batch_seen_before_changes_nothing():
    state, _ = fold_frames(EMPTY, [batch(1, 0), batch(2, 1)])
    assert fold_frame(state, batch(1, 0)) == (state, ())


def test_a_gap_before_a_batch_requests_a_replay_and_applies_nothing():
    state, effects = fold_frame(EMPTY, batch(3, 2))
    assert (state.cursor, effects) == (0, ())
    assert state.behind()
    assert not fold_frames(state, [batch(1, 0), batch(2, 1), batch(3, 2)])[0].behind()


def test_a_cursor_on_a_batch_without_events_continues_with_the_next_that_has_some():
    state, effects = fold_frame(ClientState(conversation=C, cursor=5), batch(7, 4))
    assert state.cursor == 7
    assert kinds(effects) == [EventsApplied]


def test_the_parts_of_a_batch_may_come_in_any_order_and_repeatedly():
    events = (event("solver.react.decision", claim=1, text="é" * 30_000),)
    parts = frame_events(C, n=2, prev=1, claim=1, events=events)
    assert len(parts) > 2
    state, _ = fold_frame(EMPTY, batch(1, 0))
    state, early = fold_frames(state, [*reversed(parts[1:]), *parts[2:]])
    assert (state.cursor, early) == (1, ())
    state, effects = fold_frame(state, parts[0])
    assert state.cursor == 2
    assert effects[0] == EventsApplied(n=2, prev=1, events=events)
    assert not state.parts


def test_overlapping_text_is_applied_from_the_clients_position():
    state, effects = fold_frames(EMPTY, [delta(1, 0, "Hello"), delta(1, 3, "lo wor"), delta(1, 1, "ell")])
    assert state.text("answer") == "Hello wor"
    assert effects == (
        TextAppended(claim=1, lane="answer", off=0, text="Hello"),
        TextAppended(claim=1, lane="answer", off=5, text=" wor"),
    )


def test_an_early_piece_requests_a_replay_and_waits_for_its_predecessor():
    state, effects = fold_frames(EMPTY, [delta(1, 0, "ab"), delta(1, 4, "ef")])
    assert state.text("answer") == "ab"
    assert state.behind()
    state, effects = fold_frame(state, delta(1, 2, "cd"))
    assert effects == (TextAppended(claim=1, lane="answer", off=2, text="cdef"),)
    assert not state.behind()


OPEN = '{"do":"open","lane":"answer.0","facts":{"marker":"answer"}}\n'
CLOSE = '{"do":"close","lane":"answer.0","chars":5}\n'
KNOWN = LaneKnown(claim=1, lane="answer.0", facts=LaneFacts(marker="answer"))


def test_facts_of_a_lane_are_reported_once_and_its_end_with_its_text():
    state, effects = fold_frames(
        EMPTY,
        [delta(1, 0, OPEN, CONTROL_LANE), delta(1, 0, "Hel", "answer.0"), delta(1, 0, OPEN, CONTROL_LANE)],
    )
    assert effects[0] == KNOWN
    assert kinds(effects) == [LaneKnown, TextAppended]
    state, effects = fold_frame(state, delta(1, len(OPEN), CLOSE, CONTROL_LANE))
    assert effects == ()
    state, effects = fold_frame(state, delta(1, 3, "lo", "answer.0"))
    assert effects[1:] == (LaneEnded(claim=1, lane="answer.0", chars=5),)
    assert state.control.facts == {"answer.0": LaneFacts(marker="answer")}


def test_a_cut_line_of_the_control_lane_waits_for_its_rest():
    state, effects = fold_frame(EMPTY, delta(1, 0, OPEN[:20], CONTROL_LANE))
    assert effects == ()
    assert fold_frame(state, delta(1, 20, OPEN[20:], CONTROL_LANE))[1] == (KNOWN,)


def test_a_line_of_a_later_release_is_left_out():
    later = '{"do":"move","lane":"a"}\n{"do":"open","lane":"a","facts":{"marker":"hologram"}}\nno json\n'
    later += '{"do":"open","lane":"a","later":' + "[" * 9_999 + "\n"
    assert fold_frame(EMPTY, delta(1, 0, later + OPEN, CONTROL_LANE))[1] == (KNOWN,)


def test_a_newer_stream_knows_nothing_of_the_lanes_of_an_older_one():
    state, _ = fold_frames(EMPTY, [delta(1, 0, OPEN, CONTROL_LANE), delta(4, 0, "new")])
    assert state.control == ClientState(conversation=C).control


def test_a_lane_that_replaces_another_one_makes_it_void():
    line = '{"do":"open","lane":"answer.0.r1","facts":{"marker":"answer","replaces":"answer.0"}}\n'
    state, _ = fold_frame(EMPTY, delta(1, 0, OPEN + line, CONTROL_LANE))
    assert state.control.void == {"answer.0"}


def test_a_stream_without_a_control_lane_is_followed_all_the_same():
    state, effects = fold_frame(EMPTY, delta(1, 0, "Hi", "answer.0"))
    assert kinds(effects) == [TextAppended]
    assert state.control.facts == {}


def test_lanes_grow_apart():
    state, _ = fold_frames(EMPTY, [delta(1, 0, "hm", "thinking"), delta(1, 0, "Hi")])
    assert (state.text("thinking"), state.text("answer")) == ("hm", "Hi")


def test_a_newer_claim_starts_the_stream_anew_and_the_older_one_is_dropped():
    state, effects = fold_frames(EMPTY, [delta(1, 0, "old"), delta(4, 0, "new"), delta(1, 3, "er")])
    assert state.text("answer") == "new"
    assert kinds(effects) == [TextAppended, StreamReset, TextAppended]


def test_a_decision_settles_its_stream_and_later_pieces_of_it_are_dropped():
    state, _ = fold_frames(EMPTY, [batch(1, 0, claim=1), delta(1, 0, "Hi")])
    state, effects = fold_frame(state, batch(2, 1, event("solver.react.decision", claim=1), claim=1))
    assert effects[1:] == (StreamSettled(claim=1),)
    assert fold_frame(state, delta(1, 2, " there")) == (state, ())
    assert "stream" not in resume_request(state)


def test_a_restarted_round_voids_what_its_first_attempt_showed():
    state, _ = fold_frames(EMPTY, [batch(1, 0, claim=1), delta(1, 0, "Hal")])
    state, effects = fold_frame(state, batch(2, 1, event("round.restarted"), claim=2))
    assert effects[1:] == (StreamReset(claim=1),)
    assert (state.claim, state.text("answer")) == (2, "")
    assert fold_frame(state, delta(1, 3, "lo"))[1] == ()


def test_the_terminal_event_replaces_what_was_streamed():
    start = batch(1, 0, event("chat.start"), claim=1)
    state, _ = fold_frames(EMPTY, [start, delta(1, 0, "Hal")])
    assert state.open
    state, effects = fold_frame(state, batch(2, 1, event("chat.complete", answer="Hello.")))
    assert effects[-1] == TurnEnded(n=2, turn_id="turn_1", outcome="completed", answer="Hello.")
    assert (state.open, state.lanes) == (False, {})
    assert fold_frame(state, delta(1, 3, "lo"))[1] == ()


def test_the_text_of_the_next_turn_may_come_before_the_end_of_this_one():
    start = batch(1, 0, event("chat.start"), claim=1)
    state, _ = fold_frames(
        EMPTY, [start, delta(3, 0, "next"), batch(2, 1, event("chat.complete", answer="one"))]
    )
    assert (state.claim, state.text("answer")) == (3, "next")


def test_an_error_event_ends_the_turn_with_its_code():
    state, effects = fold_frame(
        EMPTY, batch(1, 0, event("chat.error", code="context_limit", error="too long"))
    )
    ended = effects[-1]
    assert isinstance(ended, TurnEnded)
    assert (ended.outcome, ended.code, ended.message) == ("error", "context_limit", "too long")
    assert not state.open


def test_a_turn_that_failed_says_whether_its_message_may_be_sent_again_and_when():
    failed = event("chat.error", code="model_overloaded", error="later", retryable=True, retry_after_s=20)
    _, effects = fold_frame(EMPTY, batch(1, 0, failed))
    assert (effects[-1].retryable, effects[-1].retry_after_s) == (True, 20)


def test_a_batch_that_closes_one_turn_and_opens_the_next_leaves_the_conversation_open():
    frame = batch(5, 0, event("chat.complete", answer="one"), event("chat.start"), claim=5)
    state, _ = fold_frames(EMPTY, [frame, delta(5, 0, "two")])
    assert state.open
    assert state.text("answer") == "two"


def test_a_pong_beyond_the_cursor_asks_for_a_replay():
    assert fold_frame(EMPTY, PongFrame(conversation=C, n=2))[0].behind()
    assert fold_frame(EMPTY, PongFrame(conversation=C, n=0)) == (EMPTY, ())


def test_a_sync_reports_whether_a_turn_is_open():
    frame = SyncFrame(conversation=C, n=0, open=True, claim=3, turn_id="turn_9")
    state, effects = fold_frame(EMPTY, frame)
    assert (state.open, state.turn_id, state.claim) == (True, "turn_9", 3)
    assert effects == (Synced(frame=frame),)


def test_a_sync_whose_events_were_lost_asks_again():
    state, _ = fold_frame(EMPTY, SyncFrame(conversation=C, n=4))
    assert (state.cursor, state.behind()) == (0, True)


def test_frames_of_another_conversation_change_nothing():
    foreign = EventFrame(conversation="c2", n=1, prev=0, events=(event("chat.step"),))
    assert fold_frame(EMPTY, foreign) == (EMPTY, ())


def test_a_message_is_repeated_until_it_is_answered():
    noted = note_message(EMPTY, "m1", Said(text="hi"))
    ack = AckFrame(message_id="m1", conversation=C, n=1, kind="opened")
    state, effects = fold_frame(noted, ack)
    assert (state.unacked, effects) == ({}, (Acknowledged(frame=ack),))
    refusal = ErrorFrame(code="not_found", message="", message_id="m1")
    state, effects = fold_frame(noted, refusal)
    assert (state.unacked, effects) == ({}, (Refused(frame=refusal),))


def test_a_passing_refusal_keeps_the_message():
    noted = note_message(EMPTY, "m1", Said(text="hi"))
    state, _ = fold_frame(noted, ErrorFrame(code="busy", message="", message_id="m1", retryable=True))
    assert state.unacked == {"m1": Said(text="hi")}


def test_the_server_reads_the_clients_requests():
    state, _ = fold_frames(
        note_message(EMPTY, "m1", Said(text="hi")), [batch(3, 0, claim=3), delta(3, 0, "ab", "thinking")]
    )
    resume = parse_message(msgspec.json.encode(resume_request(state)).decode())
    assert isinstance(resume, Resume)
    assert resume.stream is not None
    assert (resume.after, resume.stream.claim, resume.stream.off) == (3, 3, {"thinking": 2})
    send = parse_message(msgspec.json.encode(send_request(state, "m1")).decode())
    assert isinstance(send, Send)
    assert send.text == "hi"


def accepted(message_id, text, kind="followup"):
    return event("chat.conversation.accepted", message_id=message_id, kind=kind, text=text)


def dropped(n, message_id, reason, kind="followup"):
    return replace(event("chat.step", n=n, message_id=message_id, kind=kind, reason=reason), step="dropped")


STEERED = event(
    "timeline.external.steer.interrupted",
    message_id="m3",
    sequence=3,
    text="shorter",
    checkpoint=0,
    cancelled_phase="decision",
    finalize_rounds=2,
)


def test_an_interrupted_stream_is_settled_and_what_was_shown_of_it_stays_until_the_next_one():
    start = batch(1, 0, event("chat.start"), claim=1)
    state, _ = fold_frames(EMPTY, [start, delta(1, 0, "Hal")])
    cut = batch(4, 1, event("solver.react.decision", claim=1, interrupted=True), STEERED, claim=4)
    state, effects = fold_frame(state, cut)
    assert kinds(effects) == [EventsApplied, StreamSettled, Steered]
    assert effects[-1] == Steered(
        n=3, turn_id="turn_1", message_id="m3", text="shorter", phase="decision", finalize_rounds=2
    )
    assert fold_frame(state, delta(1, 3, "lo")) == (state, ())
    state, effects = fold_frame(state, delta(4, 0, "Hi"))
    assert (state.text("answer"), kinds(effects)) == ("Hi", [TextAppended])


def test_a_discarded_message_is_handed_back_with_its_text():
    start = batch(1, 0, event("chat.start"), claim=1)
    end = batch(4, 2, event("chat.complete", answer="so"), dropped(2, "m2", "stopped"))
    state, effects = fold_frames(EMPTY, [start, batch(2, 1, accepted("m2", "and this?")), end])
    assert effects[-1] == HandedBack(
        n=2, message_id="m2", kind="followup", text="and this?", reason="stopped"
    )
    assert (state.queued, state.open) == ({}, False)


def test_a_steer_without_a_turn_is_handed_back_by_the_batch_that_holds_it():
    frame = batch(1, 0, accepted("m1", "left", "steer"), dropped(1, "m1", "nothing_to_steer", "steer"))
    state, effects = fold_frame(EMPTY, frame)
    assert effects[-1].text == "left"
    assert state.queued == {}


def test_a_message_from_before_this_client_is_handed_back_without_its_text():
    end = batch(4, 3, event("chat.complete", answer="so"), dropped(2, "m2", "stopped"))
    _, effects = fold_frame(ClientState(conversation=C, cursor=3), end)
    assert (effects[-1].message_id, effects[-1].text) == ("m2", "")


def test_a_turns_end_forgets_what_it_had_queued():
    state, _ = fold_frames(EMPTY, [batch(1, 0, event("chat.start")), batch(2, 1, accepted("m2", "more"))])
    assert state.queued == {"m2": "more"}
    state, _ = fold_frame(state, batch(3, 2, event("chat.complete", answer="so"), event("chat.start")))
    assert (state.queued, state.open) == ({}, True)


def test_an_answer_to_our_message_names_its_batch():
    ack = AckFrame(message_id="m1", conversation=C, n=4, kind="followup")
    assert fold_frame(EMPTY, ack)[0].behind()
    assert not fold_frame(EMPTY, replace(ack, conversation="c2"))[0].behind()


def test_an_answer_to_a_repeated_message_names_the_newest_batch():
    ack = AckFrame(message_id="m1", conversation=C, n=1, kind="prompt", duplicate=True)
    seen, _ = fold_frame(EMPTY, batch(1, 0, event("chat.start")))
    assert not fold_frame(seen, ack)[0].behind()
    assert fold_frame(seen, replace(ack, newest=4))[0].behind()


def test_a_refusal_in_another_conversation_changes_nothing():
    noted = note_message(EMPTY, "m1", Said(text="hi"))
    foreign = ErrorFrame(code="not_found", message="", conversation="c2")
    assert fold_frame(noted, foreign) == (noted, ())


def test_parts_that_were_cut_differently_are_requested_again():
    whole = (event("solver.react.decision", claim=1, text="a" * 40_000),)
    less = (event("solver.react.decision", claim=1, items=["a"] * 10_000),)
    first, second = (frame_events(C, n=2, prev=1, claim=1, events=events) for events in (whole, less))
    assert len(first) == len(second)
    state, _ = fold_frame(EMPTY, batch(1, 0))
    state, effects = fold_frames(state, [*first[:3], *second[3:]])
    assert (state.cursor, effects, state.parts) == (1, (), {})
    assert state.behind()
    assert fold_frames(state, second)[0].cursor == 2


def test_a_batch_of_which_a_part_is_missing_counts_as_missing():
    parts = frame_events(C, n=2, prev=1, claim=1, events=(event("chat.step", text="a" * 40_000),))
    state, _ = fold_frames(EMPTY, [batch(1, 0), *parts[:-1]])
    assert state.behind()


def test_the_server_reads_the_clients_events():
    upload = f"up_{'0' * 32}"
    said = Said(kind="form", text="done", payload={"field": 1}, reactive=False, uploads=(upload,))
    state = note_message(EMPTY, "m1", said)
    received = parse_message(msgspec.json.encode(send_request(state, "m1")).decode())
    assert isinstance(received, Event)
    assert (received.kind, received.payload, received.reactive) == (
        "form",
        {"field": 1, "text": "done"},
        False,
    )
    assert received.uploads == [upload]


def test_the_newest_turn_that_has_ended_is_known_while_another_one_runs():
    state, _ = fold_frame(EMPTY, batch(1, 0, event("chat.start"), event("chat.complete", answer="done")))
    ended = state.ended
    state, _ = fold_frame(state, batch(2, 1, event("chat.start")))
    assert (bool(ended), state.ended, state.open) == (True, ended, True)


def test_the_server_reads_the_clients_ratings():
    state = note_message(EMPTY, "m1", Said(rates=True, reaction=None, text="", turn="turn_1"))
    received = parse_message(msgspec.json.encode(send_request(state, "m1")).decode())
    assert received == Rate(conversation=C, message_id="m1", reaction=None, turn="turn_1")


REQUEST = event("approval.requested", call_id="tc_0123456789ab", tool_id="mail.send", params={})


def test_a_request_for_an_approval_is_known_until_it_is_answered():
    state, _ = fold_frame(EMPTY, batch(1, 0, event("chat.start"), REQUEST))
    assert (state.open, state.approval) == (True, "tc_0123456789ab")
    answered, _ = fold_frame(state, batch(2, 1, event("approval.answered", call_id="tc_0123456789ab")))
    ended, _ = fold_frame(state, batch(2, 1, event("chat.error")))
    assert (answered.approval, ended.approval) == ("", "")


def test_a_client_that_started_after_an_approval_request_asks_for_it():
    state = replace(EMPTY, cursor=9)
    sync = SyncFrame(conversation=C, n=9, open=True, turn_id="turn_1", approval=7)
    state, _ = fold_frame(state, sync)
    assert (state.cursor, state.behind()) == (6, True)
    assert resume_request(state)["after"] == 6
    state, _ = fold_frames(state, (batch(7, 6, REQUEST), batch(9, 7), sync))
    assert (state.cursor, state.approval, state.behind()) == (9, "tc_0123456789ab", False)


def test_a_client_that_knows_an_answered_request_applies_nothing_twice_after_an_older_frame():
    answered = event("approval.answered", call_id="tc_0123456789ab")
    sync = SyncFrame(conversation=C, n=2, open=True, turn_id="turn_1", approval=2)
    known = (batch(1, 0, event("chat.start")), batch(2, 1, REQUEST), batch(3, 2, answered))
    for began, frames in ((0, known), (1, known[1:])):
        state, _ = fold_frames(replace(EMPTY, cursor=began), frames)
        state, _ = fold_frame(state, sync)
        assert (state.cursor, state.approval) == (3, "")


def test_a_queue_position_is_reported_when_it_changes_and_never_from_older_frames():
    queued = batch(1, 0, event("chat.start"), event("turn.queued", place=3))
    moves = (*(PongFrame(conversation=C, n=n, place=place) for n, place in ((1, 3), (1, 2), (0, 9), (2, 1))),)
    state, effects = fold_frames(EMPTY, (queued, *moves))
    assert [effect for effect in effects if isinstance(effect, Waiting)] == [
        Waiting(turn_id="turn_1", place=3),
        Waiting(turn_id="turn_1", place=2),
    ]
    begun, effects = fold_frame(state, batch(2, 1, event("turn.begun", waited_ms=5)))
    assert (begun.place, effects[-1]) == (0, Waiting(turn_id="turn_1", place=0))
    ended, effects = fold_frame(state, batch(2, 1, event("chat.complete")))
    assert (ended.place, effects[-1]) == (0, Waiting(turn_id="turn_1", place=0))


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (Said(verdict="approve", call_id="tc_0123456789ab"), Approve),
        (Said(verdict="deny", call_id="tc_0123456789ab", text="No."), Deny),
        (Said(verdict="edit", call_id="tc_0123456789ab", payload={"a": 1}), Edit),
    ],
)
def test_an_answer_is_a_message_that_the_server_reads(said, kind):
    state = note_message(EMPTY, "a1", said)
    assert isinstance(parse_message(msgspec.json.encode(send_request(state, "a1")).decode()), kind)


def deleted(n, prev):
    return batch(n, prev, replace(event("conv.status", state="deleted"), route="conv_status"))


def test_a_conversation_that_is_deleted_ends_its_turn_and_misses_nothing():
    running = [batch(1, 0, event("chat.start"), claim=1), batch(2, 1, accepted("m2", "more"))]
    state, effects = fold_frames(EMPTY, [*running, delta(1, 0, "Hal"), deleted(3, 2)])
    assert (state.deleted, state.open, state.ended, dict(state.lanes)) == (True, False, "turn_1", {})
    assert kinds(effects[-3:]) == [EventsApplied, StreamSettled, Refused]
    assert effects[-1].frame.code == "conversation_deleted"
    state, effects = fold_frames(state, [delta(1, 3, "lo"), PongFrame(conversation=C, n=9)])
    assert (state.behind(), state.streaming(), effects) == (False, False, ())


def test_a_client_that_was_away_hears_of_a_deletion_by_the_refusal_and_its_messages_are_refused_for_good():
    state = note_message(fold_frame(EMPTY, batch(1, 0, event("chat.start")))[0], "m1", Said(text="hi"))
    refused = ErrorFrame(code="conversation_deleted", message="gone", conversation=C)
    state, effects = fold_frame(state, refused)
    assert (state.deleted, state.open, list(state.unacked)) == (True, False, ["m1"])
    assert effects == (Refused(frame=refused),)
    state, _ = fold_frame(state, replace(refused, message_id="m1"))
    assert not state.unacked
