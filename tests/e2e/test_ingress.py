"""What the door lets in: owners, well-formed messages, sizes, followups."""

from __future__ import annotations

import json

import pytest

from stepline.local.client.websocket import encode_request
from stepline.model.wire.event import ErrorFrame
from tests.e2e.order import check_order, events, terminals
from tests.e2e.stage import a_word, answer_of, is_text, read_until

pytestmark = pytest.mark.emulator


def test_a_foreign_conversation_is_not_found_by_any_request(stage, conversation):
    stage.send("Hello there.", conversation)
    words = ("send", "Mine now.", "--conversation", conversation, "--user", "mallory", "--json")
    for more in ((), ("--new",)):
        assert json.loads(stage.command(*words, *more, check=False).stderr)["code"] == "not_found"
    stage.user = "mallory"
    with stage.socket() as (socket, next_frame):
        for action in ({"action": "resume", "after": 0}, {"action": "ping"}):
            socket.send(json.dumps({**action, "conversation": conversation}))
            frame = next_frame()
            assert isinstance(frame, ErrorFrame)
            assert frame.code == "not_found"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("hello", "bad_json"),
        ('{"action":"send","text":' + "[" * 20_000 + "]" * 20_000 + "}", "bad_message"),
        ('{"action":"fly","conversation":"c"}', "unknown_action"),
        ('{"action":"send","conversation":"c","message_id":"m"}', "bad_message"),
        ('{"action":"send","conversation":"../c","message_id":"m","text":"x"}', "bad_message"),
        ('{"action":"ping","conversation":"c","extra":1}', "bad_message"),
        (
            json.dumps({"action": "send", "conversation": "c", "message_id": "m", "text": "x" * 140_000}),
            "message_too_large",
        ),
    ],
)
def test_a_bad_message_gets_one_error_with_a_code_and_the_socket_stays_usable(
    stage, conversation, body, code
):
    with stage.socket() as (socket, next_frame):
        socket.send(body)
        frame = next_frame()
        assert isinstance(frame, ErrorFrame)
        assert frame.code == code
        ping = {"action": "ping", "conversation": conversation}
        socket.send(json.dumps(ping))
        frame = next_frame()
        assert isinstance(frame, ErrorFrame)
        assert frame.code == "not_found"


def test_a_message_in_fragments_arrives_whole(stage, conversation):
    text = f"{a_word()} é🙂 " * 2_000
    request = {"action": "send", "conversation": conversation, "message_id": "m1", "text": text}
    pieces = encode_request(request)
    assert isinstance(pieces, list)
    with stage.socket() as (socket, next_frame):
        socket.send(pieces)
        next_frame()
    stage.watch(conversation, "--after", "0")
    assert stage.entries(conversation, "in")[0]["text"] == text


def test_the_same_message_twice_is_one(stage, conversation):
    request = {"action": "send", "conversation": conversation, "message_id": "m1", "text": "Hello there."}
    acks = []
    with stage.socket() as (socket, next_frame):
        for _ in range(2):
            socket.send(json.dumps(request))
            while True:
                frame = next_frame()
                if frame.__struct_config__.tag == "ack":
                    break
            acks.append(frame)
    assert [frame.duplicate for frame in acks] == [False, True]
    assert acks[0].n == acks[1].n
    stage.watch(conversation, "--after", "0")
    assert len(stage.entries(conversation, "in")) == 1


def test_a_followup_sent_during_a_turn_is_answered(scripted, conversation):
    first, second = a_word(), a_word()
    scripted.fault(kind="slow_tokens", match=first, count=1, token_delay_ms=60)
    with scripted.sending(f"Tell me about the word {first}.", conversation) as client:
        read_until(client, is_text)
        lines = scripted.send(f"And the word {second}?", conversation)
    assert [line["kind"] for line in lines if line["frame"] == "ack"] == ["followup"]
    assert second in answer_of(terminals(lines)[-1:])
    whole = scripted.watch(conversation, "--after", "0")
    check_order(whole)
    assert len(events(whole, "chat.start")) == len(terminals(whole))
    inbound = scripted.entries(conversation, "in")
    assert [first in inbound[0]["text"], second in inbound[1]["text"]] == [True, True]
