"""Feedback over the socket: acknowledged once, sent to every device, refused with stable codes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepline.ingress.message import receive
from stepline.model.entry import Feedback
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.wire.event import AckFrame, ErrorFrame, EventFrame
from tests.support.conversation import LANE, Conversation, event_types, frames, of
from tests.support.generation import answered


@pytest.fixture
def talked() -> Conversation:
    conversation = Conversation(answered("one"))
    conversation.send(id="m0")
    conversation.run()
    return conversation


def rate(talk: Conversation, *, connection: str = "k1", **fields: Any) -> None:
    said = {"conversation": LANE.conversation, "message_id": "f1", "reaction": "ok", **fields}
    receive(talk.ports, connection, json.dumps({"action": "feedback", **said}))


def test_feedback_is_acknowledged_once_stored_and_sent_to_its_sender(talked: Conversation) -> None:
    inbox = talked.connect("k1")
    rate(talked, turn=talked.timeline().turns[0], text="good")
    assert [type(frame) for frame in frames(inbox)] == [EventFrame, AckFrame]
    ack = AckFrame(message_id="f1", conversation="c-1", n=talked.tail.n, kind="feedback")
    assert frames(inbox)[-1] == ack
    assert event_types(inbox) == ["turn.feedback"]


def test_feedback_reaches_a_second_device(talked: Conversation) -> None:
    talked.connect("k1")
    inbox = talked.listen("k2")
    rate(talked)
    (frame,) = of(EventFrame, inbox)
    assert (frame.events[0].type, frame.events[0].turn_id) == ("turn.feedback", talked.timeline().turns[0])


def test_a_resent_rating_is_a_duplicate_with_its_first_number(talked: Conversation) -> None:
    inbox = talked.connect("k1")
    rate(talked)
    rate(talked, message_id="f2", reaction="not_ok")
    rate(talked)
    acks = of(AckFrame, inbox)
    assert [(ack.message_id, ack.n, ack.duplicate) for ack in acks] == [
        ("f1", acks[0].n, False),
        ("f2", talked.tail.n, False),
        ("f1", acks[0].n, True),
    ]
    assert acks[-1].newest == talked.tail.n
    assert [entry.reaction for entry in talked.entries(Feedback)] == ["ok", "not_ok"]


def test_another_message_with_the_same_rating_is_a_duplicate_too(talked: Conversation) -> None:
    inbox = talked.connect("k1")
    rate(talked)
    rate(talked, message_id="f2")
    first, second = of(AckFrame, inbox)
    assert (second.message_id, second.n, second.duplicate) == ("f2", first.n, True)
    assert len(talked.entries(Feedback)) == 1


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"reaction": "great"}, "bad_message"),
        ({"text": "x" * 1_001}, "bad_message"),
        ({"ts": "yesterday"}, "bad_message"),
        ({"origin": "machine"}, "bad_message"),
        ({"turn": "turn_none"}, "turn_not_found"),
        ({"conversation": "c-2"}, "not_found"),
        ({"message_id": "m0"}, "message_id_taken"),
    ],
)
def test_an_invalid_rating_message_is_refused_by_its_code(
    talked: Conversation, fields: dict[str, Any], code: str
) -> None:
    inbox = talked.connect("k1")
    before = talked.batches()
    rate(talked, **fields)
    (error,) = of(ErrorFrame, inbox)
    assert (error.code, error.retryable) == (code, False)
    assert talked.batches() == before


def test_the_open_turn_is_not_rated_before_it_ends(talked: Conversation) -> None:
    inbox = talked.connect("k1")
    talked.send("second", id="m1")
    rate(talked, turn=talked.state.turn)
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["turn_open"]


def test_rating_messages_count_towards_the_rate_limit() -> None:
    conversation = Conversation(answered("one"), limits=ScopeLimits(user=Limits(messages_per_minute=1)))
    conversation.send(id="m0")
    conversation.run()
    inbox = conversation.connect("k1")
    rate(conversation)
    rate(conversation, message_id="f2", reaction="not_ok")
    (error,) = of(ErrorFrame, inbox)
    assert error.code == "rate_limited"
    assert error.retry_after_s > 0


def test_another_users_conversation_is_answered_like_a_missing_one(talked: Conversation) -> None:
    inbox = talked.connect("k1", user="eve")
    rate(talked)
    rate(talked, conversation="c-9")
    foreign, absent = of(ErrorFrame, inbox)
    assert (
        (foreign.code, foreign.message)
        == (absent.code, absent.message)
        == ("not_found", "no such conversation")
    )
    assert talked.ports.subscriptions.listeners(LANE) == []
