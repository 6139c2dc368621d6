"""A session's behaviour over time, on a simulated clock: pings, repeats, new connections."""

from __future__ import annotations

import random
from itertools import pairwise

import msgspec
import pytest
from msgspec.structs import replace

from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import DependencyError, LimitError
from stepline.local.client.change import Acknowledged, EventsApplied, PutOff, Refused, Synced
from stepline.local.client.pace import Pace
from stepline.model.wire.client_message import Event, parse_message
from stepline.model.wire.event import (
    AckFrame,
    ClientEvent,
    ErrorFrame,
    EventFrame,
    PongFrame,
    SyncFrame,
    encode_frame,
)
from tests.unit.local.client.simulated_connection import PACE, C, RemoteEnd, drive

HOURS = 3600
GATEWAY_IDLE_S = 600
GATEWAY_LIFE_S = 7200


def batch(n, prev, kind="chat.step"):
    event = ClientEvent(type=kind, route="chat_step", ts="", turn_id="turn_1")
    return EventFrame(conversation=C, n=n, prev=prev, claim=0, events=(event,))


def at_event(n, *, open=False, place=0):  # noqa: A002 - as in the frame
    """Return a remote end's script: the conversation is at event n."""

    def script(request):
        match request["action"]:
            case "ping":
                return [PongFrame(conversation=C, n=n, place=place)]
            case "resume":
                return [SyncFrame(conversation=C, n=n, open=open, place=place)]
            case _:
                return [AckFrame(message_id=request["message_id"], conversation=C, n=n, kind="prompt")]

    return script


def test_an_idle_session_is_never_silent_for_as_long_as_the_gateway_allows_and_never_as_old():
    far = RemoteEnd(at_event(3))
    with far.session(cursor=3) as session:
        drive(session, 5 * HOURS)
    assert len(far.wires) == 3
    for wire in far.wires:
        spoken = [wire.began_s, *(at_s for at_s, _ in wire.sent), wire.ended_s]
        assert max(later - earlier for earlier, later in pairwise(spoken)) < GATEWAY_IDLE_S
        assert wire.ended_s - wire.began_s < GATEWAY_LIFE_S
    for old, new in pairwise(far.wires):
        assert new.began_s <= old.ended_s
        assert new.sent[0][1] == {"action": "resume", "conversation": C, "after": 3}


def test_an_open_turn_is_polled_every_25_seconds():
    far = RemoteEnd(at_event(3, open=True))
    with far.session(cursor=3) as session:
        drive(session, 200)
    assert far.of("ping") == [25.0 * k for k in range(1, 8)]


def test_a_lost_pong_is_requested_again_and_three_replace_the_connection():
    far = RemoteEnd(lambda request: [SyncFrame(conversation=C, n=3)] if request["action"] == "resume" else [])
    with far.session(cursor=3) as session:
        drive(session, 320)
    assert far.of("ping") == [240.0, 260.0, 280.0]
    assert [wire.began_s for wire in far.wires] == [0.0, 301.0]


def test_a_newer_pong_in_the_middle_of_a_resume_asks_once_more_when_the_answer_is_late():
    answers = iter([[], [batch(4, 3), batch(5, 4), SyncFrame(conversation=C, n=5)]])

    def script(request):
        return next(answers, []) if request["action"] == "resume" else [PongFrame(conversation=C, n=5)]

    far = RemoteEnd(script)
    with far.session(cursor=3) as session:
        session._ask({"action": "ping", "conversation": C})
        effects = drive(session, 60)
    assert far.of("resume") == [0.0, PACE.resume_answer_s]
    assert [effect.n for effect in effects if isinstance(effect, EventsApplied)] == [4, 5]


def test_a_resume_with_a_lost_answer_is_repeated_even_without_a_known_gap():
    answers = iter([[], [], [SyncFrame(conversation=C, n=3)]])
    far = RemoteEnd(lambda request: next(answers, []) if request["action"] == "resume" else [])
    with far.session(cursor=3) as session:
        effects = drive(session, 100)
    assert far.of("resume") == [0.0, 10.0, 20.0]
    assert len(effects) == 1


def test_a_refused_resume_is_retried_with_growing_delays_then_reported():
    refusal = ErrorFrame(code="dependency", message="later", conversation=C, retryable=True)
    far = RemoteEnd(lambda request: [refusal] if request["action"] == "resume" else [])
    with far.session(cursor=3) as session:
        effects = drive(session, 200)
    assert effects == [Refused(frame=refusal)]
    gaps = [later - earlier for earlier, later in pairwise(far.of("resume"))]
    assert len(gaps) == PACE.tries - 1
    assert gaps == sorted(gaps)


def test_a_ping_that_is_refused_for_now_is_not_reported():
    refusal = ErrorFrame(code="dependency", message="later", conversation=C, retryable=True)
    script = at_event(3)
    far = RemoteEnd(lambda request: [refusal] if request["action"] == "ping" else script(request))
    with far.session(cursor=3) as session:
        assert all(isinstance(effect, Synced) for effect in drive(session, 1000))
    assert len(far.of("ping")) > 1


def test_a_gap_that_closes_on_its_own_is_not_requested():
    far = RemoteEnd(at_event(1))
    with far.session(cursor=1, pace=replace(PACE, tick_s=0.1)) as session:
        drive(session, 2)
        inbox = far.wires[0].inbox
        inbox.append(encode_frame(batch(3, 2)))
        inbox.append(encode_frame(batch(2, 1)))
        inbox.append(encode_frame(batch(3, 2)))
        drive(session, 5)
        assert session.state.cursor == 3
        inbox.append(encode_frame(batch(5, 4)))
        drive(session, 5)
    assert far.of("resume")[1:2] == [pytest.approx(7.3, abs=0.2)]


def test_the_lost_batch_of_an_acknowledged_message_is_requested():
    script = at_event(1)

    def answer(request):
        if request["action"] == "resume":
            return [batch(1, 0), SyncFrame(conversation=C, n=1)]
        return script(request)

    far = RemoteEnd(answer)
    with far.session() as session:
        session.say("hi")
        effects = drive(session, 5)
    assert [effect.n for effect in effects if isinstance(effect, EventsApplied)] == [1]


def test_reconnect_delays_grow_until_a_frame_arrives():
    far = RemoteEnd(at_event(3))
    with far.session(cursor=3) as session:
        drive(session, 10)
        far.refuses = 3
        far.wires[-1].cut()
        drive(session, 30)
        assert [at_s - 10.0 for at_s in far.tries_s[1:]] == [1.0, 3.0, 7.0, 15.0]
        far.wires[-1].cut()
        drive(session, 30)
    assert far.tries_s[-1] == 41.0


def test_a_connection_that_breaks_right_after_opening_is_finally_given_up():
    far = RemoteEnd()

    def script(_request):
        far.wires[-1].cut()
        return []

    far.script = script
    with far.session(cursor=3) as session, pytest.raises(DependencyError) as error:
        drive(session, HOURS)
    assert error.value.reason == "socket_unreachable"
    assert len(far.wires) == 1 + len(PACE.reconnect_delays_s)


def test_a_storm_does_not_come_back_in_step():
    tries = []
    for seed in range(50):
        far = RemoteEnd(at_event(3), MemoryClock())
        with far.session(cursor=3, uniform=random.Random(seed).uniform) as session:
            far.wires[-1].cut()
            drive(session, 10)
        tries.append(far.tries_s[1])
    assert max(tries) <= PACE.reconnect_delays_s[0]
    by_tenth = [sum(1 for at_s in tries if low <= at_s * 10 < low + 1) for low in range(10)]
    assert max(by_tenth) <= 15
    ages = {random.Random(seed).uniform(*PACE.replace_s) for seed in range(50)}
    assert max(ages) - min(ages) > 600


def test_a_message_that_is_unanswered_when_the_connection_is_replaced_goes_out_on_the_new_one():
    answered = []

    def script(request):
        if request["action"] == "resume":
            return [SyncFrame(conversation=C, n=3)]
        answered.append(request)
        ack = AckFrame(message_id=request["message_id"], conversation=C, n=3, kind="prompt")
        return [] if len(answered) == 1 else [ack]

    far = RemoteEnd(script)
    pace = Pace(tick_s=1.0, replace_s=(100.0, 100.0))
    with far.session(cursor=3, pace=pace) as session:
        drive(session, 95)
        session.say("hi", message_id="m1")
        effects = drive(session, 10)
    assert [type(effect) for effect in effects if isinstance(effect, Acknowledged)] == [Acknowledged]
    assert answered[0] == answered[1]
    assert [request["action"] for _, request in far.wires[1].sent] == ["resume", "send"]


def test_a_connection_that_cannot_be_replaced_now_stays_in_use():
    far = RemoteEnd(at_event(3))
    with far.session(cursor=3) as session:
        far.refuses = 2
        drive(session, 7100)
        assert far.tries_s == [0.0, 6900.0, 6920.0, 6940.0]
        assert far.wires[0].ended_s == 6940.0


def steer(session):
    return session.steer("shorter")


def stop(session):
    return session.stop()


def form(session):
    return session.tell("form", {"field": 1}, text="done", reactive=False)


@pytest.mark.parametrize(
    ("send", "kind", "payload", "reactive"),
    [
        (steer, "steer", {"text": "shorter"}, None),
        (stop, "stop", {}, None),
        (form, "form", {"field": 1, "text": "done"}, False),
    ],
)
def test_an_event_is_sent_again_under_the_same_id_until_it_is_answered(send, kind, payload, reactive):
    answers = iter([[], []])

    def script(request):
        ack = AckFrame(message_id=request["message_id"], conversation=C, n=0, kind=kind)
        return next(answers, [ack])

    far = RemoteEnd(script)
    with far.session() as session:
        message_id = send(session)
        assert session.state.unacked.keys() == {message_id}
        drive(session, 100)
        assert session.state.unacked == {}
    requests = [request for wire in far.wires for _, request in wire.sent]
    assert len(requests) == 3
    assert requests[0] == requests[1] == requests[2]
    event = parse_message(msgspec.json.encode(requests[0]).decode())
    assert isinstance(event, Event)
    assert (event.kind, event.payload, event.reactive, event.message_id) == (
        kind,
        payload,
        reactive,
        message_id,
    )


def test_an_event_that_is_too_large_is_refused_before_it_is_sent():
    far = RemoteEnd()
    with far.session() as session, pytest.raises(LimitError):
        session.tell("form", {"what": "x" * 131_072})
    assert far.actions() == []


def test_a_message_over_which_every_connection_breaks_is_given_up():
    def script(request):
        if request["action"] == "resume":
            return [SyncFrame(conversation=C, n=3)]
        far.wires[-1].cut()
        return []

    far = RemoteEnd(script)
    with far.session(cursor=3) as session:
        session.say("poison", message_id="m1")
        effects = drive(session, 200)
        assert session.state.unacked == {}
    assert [e.frame.code for e in effects if isinstance(e, Refused)] == ["no_answer"]
    assert len(far.of("send")) == PACE.connections


def test_a_message_that_fails_again_and_again_is_given_up_with_the_servers_own_word():
    refusal = ErrorFrame(
        code="internal",
        message="Something went wrong here.",
        message_id="m1",
        conversation=C,
        retryable=True,
    )
    far = RemoteEnd(lambda request: [refusal] if request["action"] == "send" else [])
    with far.session() as session:
        session.say("hi", message_id="m1")
        assert drive(session, 100) == [Refused(frame=refusal)]
    assert len(far.of("send")) == PACE.tries


def asks_for_a_pause(seconds, times=99, code="rate_limited"):
    """Return a remote end that accepts a message after this many refusals, each with the wait that it requests."""
    left = iter(range(times))

    def script(request):
        if request["action"] != "send":
            return []
        known = request["message_id"]
        if next(left, None) is None:
            return [AckFrame(message_id=known, conversation=C, n=1, kind="prompt"), batch(1, 0)]
        return [
            ErrorFrame(
                code=code,
                message="later",
                message_id=known,
                conversation=C,
                retryable=True,
                retry_after_s=seconds,
            )
        ]

    return RemoteEnd(script)


def test_a_delayed_message_is_sent_under_its_id_after_the_requested_time():
    far = asks_for_a_pause(37, times=2)
    with far.session() as session:
        session.say("hi", message_id="m1")
        effects = drive(session, 100)
        assert session.state.unacked == {}
    assert [type(effect) for effect in effects[:3]] == [PutOff, PutOff, Acknowledged]
    assert [effect.frame.retry_after_s for effect in effects[:2]] == [37, 37]
    gaps = [later - earlier for earlier, later in pairwise(far.of("send"))]
    assert all(37 <= gap <= 37 + 2 * PACE.tick_s for gap in gaps)
    assert {request["message_id"] for _, request in far.wires[0].sent if request["action"] == "send"} == {
        "m1"
    }


def test_a_pause_outlasts_the_connection():
    far = asks_for_a_pause(37, times=1)
    with far.session() as session:
        session.say("hi", message_id="m1")
        drive(session, 5)
        far.wires[-1].cut()
        drive(session, 100)
    assert len(far.wires) > 1
    first, second = far.of("send")
    assert second - first >= 37


def test_a_server_that_asks_for_one_pause_after_the_other_is_given_up():
    far = asks_for_a_pause(10)
    with far.session() as session:
        session.say("hi", message_id="m1")
        effects = drive(session, 200)
        assert session.state.unacked == {}
    assert [type(effect) for effect in effects] == [PutOff] * (PACE.tries - 1) + [Refused]
    assert len(far.of("send")) == PACE.tries


def test_a_pause_that_is_too_long_is_not_waited_for():
    far = asks_for_a_pause(PACE.retry_after_max_s + 1)
    with far.session() as session:
        session.say("hi", message_id="m1")
        (refused,) = drive(session, 10)
        assert session.state.unacked == {}
    assert refused.frame.code == "rate_limited"
    assert len(far.of("send")) == 1


def test_any_error_that_may_pass_is_tried_again_whatever_its_code():
    far = asks_for_a_pause(0, times=1, code="a_code_of_a_later_release")
    with far.session() as session:
        session.say("hi", message_id="m1")
        effects = drive(session, 30)
    assert [type(effect) for effect in effects[:1]] == [Acknowledged]


def test_a_time_zone_that_the_server_does_not_know_is_left_out():
    def script(request):
        if request["action"] != "send":
            return []
        known = request["message_id"]
        if "timezone" in request:
            return [ErrorFrame(code="bad_timezone", message="", message_id=known, conversation=C)]
        return [AckFrame(message_id=known, conversation=C, n=1, kind="prompt"), batch(1, 0)]

    far = RemoteEnd(script)
    with far.session(timezone="Europe/Zurich") as session:
        for known in ("m1", "m2"):
            session.say("hi", message_id=known)
            effects = drive(session, 30)
            assert [effect.frame.message_id for effect in effects if isinstance(effect, Acknowledged)] == [
                known
            ]
            assert not [effect for effect in effects if isinstance(effect, Refused)]
    said = [request for wire in far.wires for _, request in wire.sent if request["action"] == "send"]
    assert [(request["message_id"], request.get("timezone")) for request in said] == [
        ("m1", "Europe/Zurich"),
        ("m1", None),
        ("m2", None),
    ]


def test_unanswered_resumes_are_reported_even_if_pings_are_answered():
    far = RemoteEnd(lambda request: [PongFrame(conversation=C, n=3)] if request["action"] == "ping" else [])
    with far.session(cursor=3) as session:
        effects = drive(session, 10.0 * PACE.resumes + 1)
    assert [effect.frame.code for effect in effects] == ["no_answer"]


def test_a_gap_that_no_resume_closes_is_reported():
    far = RemoteEnd(at_event(5))
    with far.session(cursor=3) as session:
        effects = drive(session, 600)
    reported = [effect for effect in effects if isinstance(effect, Refused)]
    assert {effect.frame.code for effect in reported} == {"no_answer"}


@pytest.mark.parametrize(
    ("is_open", "place", "codes"), [(True, 0, ["turn_silent"]), (True, 2, []), (False, 0, [])]
)
def test_an_open_turn_that_is_silent_too_long_is_reported_unless_it_waits(is_open, place, codes):
    far = RemoteEnd(at_event(3, open=is_open, place=place))
    with far.session(cursor=3) as session:
        effects = drive(session, PACE.silent_s + 10)
    reported = [effect.frame.code for effect in effects if isinstance(effect, Refused)]
    assert reported == codes
