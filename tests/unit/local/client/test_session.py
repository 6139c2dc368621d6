"""The session over a real websocket: the sent requests, and recovery from a broken connection."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from stepline.adapters.system import SystemClock
from stepline.errors import AuthError, DependencyError, InputError, LimitError
from stepline.local.client.change import (
    Acknowledged,
    EventsApplied,
    Refused,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import FRAME_MAX_BYTES, dial_gateway, encode_request, split_utf8
from stepline.model.wire.event import (
    AckFrame,
    ClientEvent,
    DeltaFrame,
    ErrorFrame,
    EventFrame,
    PongFrame,
    SyncFrame,
)
from tests.unit.local.client.gateway import HANG_UP, QUICK, WAIT_S

C = "c1"


def session(gateway, *, cursor=0, pace=QUICK, tokens=None):
    tokens = tokens or itertools.repeat("t")
    dial = dial_gateway(gateway.url, lambda: next(tokens), origin="")
    return Session(dial, ClientState(conversation=C, cursor=cursor), SystemClock(), pace)


def batch(n, prev, kind="chat.step", **data):
    event = ClientEvent(type=kind, route="chat_step", ts="", turn_id="turn_1", data=data)
    return EventFrame(conversation=C, n=n, prev=prev, claim=n, events=(event,))


def ack(message_id, n=1):
    return AckFrame(message_id=message_id, conversation=C, n=n, kind="prompt", turn_id="turn_1")


def synced(n):
    return SyncFrame(conversation=C, n=n, claim=n, open=True)


def delta(off, text):
    return DeltaFrame(conversation=C, claim=1, lane="answer", off=off, text=text)


def first(effects, kind):
    return next(effect for effect in effects if isinstance(effect, kind))


def test_the_token_goes_in_a_header_and_a_new_conversation_is_only_spoken_to(gateway):
    with session(gateway, tokens=iter(["secret"])) as client:
        message_id = client.say("hi")
        assert gateway.heard() == {
            "action": "send",
            "conversation": C,
            "message_id": message_id,
            "text": "hi",
        }
    assert gateway.headers[0]["Authorization"] == "Bearer secret"
    assert "Origin" not in gateway.headers[0]


def test_a_session_ends_at_events_that_it_cannot_read(gateway):
    gateway.script = lambda _request: [msgspec.structs.replace(batch(1, 0), v=2)]
    with session(gateway) as client:
        client.say("hi")
        with pytest.raises(DependencyError) as error:
            next(client.effects())
    assert error.value.reason == "format_newer"


def test_a_frame_of_a_kind_that_is_not_known_yet_is_left_out(gateway):
    gateway.script = lambda request: ['{"frame":"news","text":"soon"}', ack(request["message_id"])]
    with session(gateway) as client:
        client.say("hi")
        assert isinstance(next(client.effects()), Acknowledged)


def test_an_origin_is_sent_if_one_is_given(gateway):
    dial = dial_gateway(gateway.url, lambda: "t", origin="https://example.org")
    with Session(dial, ClientState(conversation=C), SystemClock()):
        pass
    assert gateway.headers[0]["Origin"] == "https://example.org"


def test_a_refused_token_is_an_authorization_error(gateway):
    gateway.refuse_with = 403
    with pytest.raises(AuthError), session(gateway):
        pass


def test_a_missing_gateway_is_a_dependency_error():
    dial = dial_gateway("ws://127.0.0.1:9/live", lambda: "t")
    with pytest.raises(DependencyError) as error, Session(dial, ClientState(conversation=C), SystemClock()):
        pass
    assert error.value.reason == "socket_unreachable"


def test_a_known_conversation_is_resumed_on_connecting(gateway):
    with session(gateway, cursor=7):
        assert gateway.heard() == {"action": "resume", "conversation": C, "after": 7}


def test_a_message_that_had_been_admitted_before_brings_what_followed_it(gateway):
    def script(request):
        if request["action"] == "resume":
            return [batch(1, 0), synced(1)]
        return [msgspec.structs.replace(ack(request["message_id"]), duplicate=True)]

    gateway.script = script
    with session(gateway) as client:
        client.say("hi")
        assert first(client.effects(), EventsApplied).n == 1
        assert [gateway.heard()["action"] for _ in range(2)] == ["send", "resume"]


def test_a_large_message_goes_out_in_fragments_of_at_most_32_kb(gateway):
    text = "é🙂" * 10_000
    with session(gateway) as client:
        client.say(text)
        assert gateway.heard()["text"] == text
    sizes = gateway.fragments.get(timeout=WAIT_S)
    assert len(sizes) >= 2
    assert max(sizes) <= FRAME_MAX_BYTES


def test_a_message_that_is_too_large_is_refused_before_it_is_sent(gateway):
    with session(gateway) as client:
        with pytest.raises(LimitError) as error:
            client.say("x" * 131_072)
        assert error.value.reason == "message_too_large"
        assert client.state.unacked == {}
        client.say("short")
        assert gateway.heard()["text"] == "short"


def test_bytes_that_are_no_text_are_replaced(gateway):
    with session(gateway) as client:
        client.say("a\udcffb")
        assert gateway.heard()["text"] == "a?b"
        client.answer("edit", "tc_000000000000", payload={"b\ud83d": [{"c": "\udcff"}], "n": None})
        assert gateway.heard()["params"] == {"b?": [{"c": "?"}], "n": None}


def test_parameters_beyond_all_measure_are_refused_before_they_are_sent(gateway):
    deep = []
    for _ in range(5_000):
        deep = [deep]
    with session(gateway) as client:
        with pytest.raises(InputError) as refused:
            client.answer("edit", "tc_000000000000", payload={"deep": deep})
        assert refused.value.reason == "bad_message"
        assert client.state.unacked == {}


@pytest.mark.parametrize("limit", [4, 5, 7, 1000])
def test_pieces_never_cut_a_character(limit):
    text = "aé→🙂" * 50
    pieces = list(split_utf8(text.encode(), limit))
    assert "".join(pieces) == text
    assert max(len(piece.encode()) for piece in pieces) <= limit


def test_a_message_at_the_limit_is_sent():
    envelope = len(encode_request({"text": ""}))
    assert len("".join(encode_request({"text": "x" * (131_072 - envelope)}))) == 131_072


def test_joining_starts_at_the_newest_event_without_the_history(gateway):
    gateway.script = lambda request: [PongFrame(conversation=C, n=9)] if request["action"] == "ping" else []
    with session(gateway) as client:
        assert client.join()
        assert [gateway.heard(), gateway.heard()] == [
            {"action": "ping", "conversation": C},
            {"action": "resume", "conversation": C, "after": 9},
        ]


def test_joining_a_missing_conversation_returns_false(gateway):
    gateway.script = lambda _: [ErrorFrame(code="not_found", message="no such conversation")]
    with session(gateway) as client:
        assert not client.join()


def test_a_lost_batch_is_requested_and_arrives(gateway):
    replies = iter([[batch(3, 2), synced(1)], [batch(2, 1), batch(3, 2), synced(3)]])
    gateway.script = lambda _: next(replies)
    with session(gateway, cursor=1) as client:
        effects = client.effects()
        assert [first(effects, EventsApplied).n, first(effects, EventsApplied).n] == [2, 3]
        assert [gateway.heard()["after"], gateway.heard()["after"]] == [1, 1]


def test_lost_text_is_requested_until_it_is_stored(gateway):
    replies = iter(
        [
            [delta(0, "ab"), delta(4, "ef"), synced(1)],
            [synced(1)],
            [delta(2, "cde"), synced(1)],
        ]
    )
    gateway.script = lambda _: next(replies)
    with session(gateway, cursor=1) as client:
        effects = client.effects()
        assert [first(effects, TextAppended).text, first(effects, TextAppended).text] == ["ab", "cdef"]
        asked = [gateway.heard() for _ in range(3)]
        assert [request.get("stream") for request in asked] == [
            None,
            {"claim": 1, "off": {"answer": 2}},
            {"claim": 1, "off": {"answer": 2}},
        ]


def test_a_ping_goes_out_while_a_turn_is_open_and_a_newer_pong_brings_the_lost_last_batch(gateway):
    def script(request):
        if request["action"] == "ping":
            return [PongFrame(conversation=C, n=2)]
        first_part, rest = [batch(1, 0, "chat.start"), synced(1)], [batch(2, 1, "chat.complete"), synced(2)]
        return rest if request["after"] else first_part

    gateway.script = script
    with session(gateway, pace=msgspec.structs.replace(QUICK, ping_every_s=0.0)) as client:
        client.listen()
        assert first(client.effects(), TurnEnded).outcome == "completed"
        assert gateway.heard()["action"] == "resume"
        assert gateway.heard()["action"] == "ping"


def test_a_broken_connection_is_resumed_with_a_fresh_token_and_the_message_goes_out_again(gateway):
    sends = iter([[HANG_UP], None])

    def script(request):
        if request["action"] == "resume":
            return [synced(1)]
        return next(sends) or [ack(request["message_id"], n=2)]

    gateway.script = script
    with session(gateway, cursor=1, tokens=iter(["one", "two"])) as client:
        message_id = client.say("hi")
        assert first(client.effects(), Acknowledged).frame.message_id == message_id
    assert [headers["Authorization"] for headers in gateway.headers] == ["Bearer one", "Bearer two"]
    requests = [gateway.heard() for _ in range(4)]
    assert [request["action"] for request in requests] == ["resume", "send", "resume", "send"]
    assert requests[1] == requests[3]


def test_a_connection_that_does_not_come_back_ends_in_an_error(gateway):
    def script(request):
        gateway.refuse_with = 500
        return [HANG_UP]

    gateway.script = script
    with session(gateway, cursor=1) as client, pytest.raises(DependencyError) as error:
        next(client.effects())
    assert error.value.reason == "socket_unreachable"


def test_a_busy_server_gets_the_same_message_again(gateway):
    replies = iter([[ErrorFrame(code="busy", message="", message_id="m1", retryable=True)], [ack("m1")]])
    gateway.script = lambda _: next(replies, [])
    with session(gateway) as client:
        client.say("hi", message_id="m1")
        assert isinstance(next(client.effects()), Acknowledged)
        assert gateway.heard() == gateway.heard()


def test_a_server_that_never_answers_is_given_up(gateway):
    with session(gateway, pace=msgspec.structs.replace(QUICK, answer_s=0.0, tries=3)) as client:
        client.say("hi", message_id="m1")
        refused = first(client.effects(), Refused)
        assert (refused.frame.code, refused.frame.message_id) == ("no_answer", "m1")
        assert client.state.unacked == {}
        assert [gateway.heard()["message_id"] for _ in range(3)] == ["m1"] * 3


@pytest.mark.parametrize(
    "words",
    [
        '{"message": "Internal server error"}',
        "Bad Gateway",
        '{"frame":"error","code":"internal","message":"sorry","retryable":true}',
    ],
)
def test_a_failure_that_names_no_message_repeats_what_is_unanswered(gateway, words):
    replies = iter([[words], [ack("m1")]])
    gateway.script = lambda _: next(replies, [])
    with session(gateway) as client:
        client.say("hi", message_id="m1")
        assert isinstance(next(client.effects()), Acknowledged)
        assert gateway.heard() == gateway.heard()


def test_an_expired_token_is_replaced_without_a_word(gateway):
    sends = iter([ack("m1"), ErrorFrame(code="unauthorized", message="", message_id="m2"), ack("m2", n=2)])
    gateway.script = lambda request: [next(sends)] if request["action"] == "send" else [synced(1)]
    with session(gateway, tokens=iter(["one", "two"])) as client:
        effects = client.effects()
        client.say("hi", message_id="m1")
        first(effects, Acknowledged)
        client.say("more", message_id="m2")
        assert first(effects, Acknowledged).frame.message_id == "m2"
    assert len(gateway.headers) == 2


def test_a_fresh_token_that_is_refused_is_an_error(gateway):
    gateway.script = lambda _: [ErrorFrame(code="unauthorized", message="", message_id="m1")]
    with session(gateway) as client:
        client.say("hi", message_id="m1")
        assert first(client.effects(), Refused).frame.code == "unauthorized"
        assert client.state.unacked == {}


def test_a_watching_client_also_gets_a_fresh_token(gateway):
    replies = iter([[synced(1)], [ErrorFrame(code="auth_expired", message="")], [batch(2, 1), synced(2)]])
    gateway.script = lambda _: next(replies)
    pace = msgspec.structs.replace(QUICK, ping_every_s=0.0)
    with session(gateway, cursor=1, pace=pace, tokens=iter(["one", "two"])) as client:
        assert first(client.effects(), EventsApplied).n == 2
    assert [gateway.heard()["action"] for _ in range(3)] == ["resume", "ping", "resume"]
    assert [headers["Authorization"] for headers in gateway.headers] == ["Bearer one", "Bearer two"]
