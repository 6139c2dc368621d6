"""Answers to a request for an approval, as messages of a websocket."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stepline.ingress.message import receive
from stepline.loop.approvals.approval_policy import ApprovalPolicy
from stepline.model.entry import ApprovalAnswered, ApprovalRequested, Resulted
from stepline.model.wire.event import AckFrame, ErrorFrame, SyncFrame
from tests.support.conversation import LANE, Conversation, durable, event_types, frames, of
from tests.support.generation import answered, called

WRITE = called("react.write", {"path": "a.md", "channel": "canvas", "content": "# A", "kind": "file"})


def parked() -> tuple[Conversation, list[bytes]]:
    conversation = Conversation(WRITE, answered("Done."))
    policy = ApprovalPolicy(places=({"effect:keyed": "always"},))
    conversation.agent = replace(conversation.agent, approvals=policy.rule_of)
    inbox = conversation.connect("k1")
    say(conversation, "send", message_id="m1", text="write")
    conversation.run()
    return conversation, inbox


def say(conversation: Conversation, action: str, connection: str = "k1", **fields: Any) -> None:
    request = {"action": action, "conversation": LANE.conversation, **fields}
    receive(conversation.ports, connection, json.dumps(request))


def call_of(conversation: Conversation) -> str:
    (asked,) = conversation.entries(ApprovalRequested)
    return str(asked.action.call_id)


@pytest.mark.parametrize(
    ("action", "fields", "kind", "status"),
    [
        ("approve", {}, "approved", "ok"),
        ("deny", {"text": "No."}, "denied", "error"),
        ("deny", {}, "denied", "error"),
        (
            "edit",
            {"params": {"path": "b.md", "channel": "canvas", "content": "B", "kind": "file"}},
            "edited",
            "ok",
        ),
    ],
)
def test_an_answer_is_acknowledged_and_the_turn_continues(
    action: str, fields: dict[str, Any], kind: str, status: str
) -> None:
    conversation, inbox = parked()
    say(conversation, action, message_id="a1", call_id=call_of(conversation), **fields)
    conversation.run()
    ack = of(AckFrame, inbox)[-1]
    assert (ack.message_id, ack.kind, ack.duplicate) == ("a1", kind, False)
    assert [entry.status for entry in conversation.entries(Resulted)] == [status]
    assert event_types(inbox)[-1] == "conv.status"


def test_the_record_of_an_answer_names_the_application_of_the_senders_token() -> None:
    conversation, inbox = parked()
    conversation.connect("k2", client="desk")
    say(conversation, "approve", "k2", message_id="a1", call_id=call_of(conversation))
    (answer,) = conversation.entries(ApprovalAnswered)
    assert (answer.verdict, answer.client) == ("approved", "desk")
    (shown,) = [
        event for _, events in durable(inbox) for event in events if event.type == "approval.answered"
    ]
    assert shown.data["client"] == "desk"


def test_a_sender_cannot_name_another_application() -> None:
    conversation, inbox = parked()
    say(conversation, "approve", message_id="a1", call_id=call_of(conversation), client="desk")
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["bad_message"]
    say(conversation, "approve", message_id="a2", call_id=call_of(conversation))
    (answer,) = conversation.entries(ApprovalAnswered)
    assert answer.client == ""


def test_an_answer_that_is_sent_again_is_a_duplicate() -> None:
    conversation, inbox = parked()
    for _ in range(2):
        say(conversation, "approve", message_id="a1", call_id=call_of(conversation))
    assert [ack.duplicate for ack in of(AckFrame, inbox)] == [False, False, True]


def test_the_second_of_two_answers_finds_no_pending_approval() -> None:
    conversation, _ = parked()
    other = conversation.connect("k2")
    call = call_of(conversation)
    say(conversation, "deny", message_id="a1", call_id=call)
    say(conversation, "approve", "k2", message_id="a2", call_id=call)
    (refused,) = of(ErrorFrame, other)
    assert (refused.code, refused.message_id, refused.retryable) == ("approval_not_pending", "a2", False)


def test_another_users_answer_finds_no_such_conversation() -> None:
    conversation, _ = parked()
    foreign = conversation.connect("k9", user="eve")
    say(conversation, "approve", "k9", message_id="a1", call_id=call_of(conversation))
    assert [frame.code for frame in of(ErrorFrame, foreign)] == ["not_found"]
    assert conversation.state.parked


@pytest.mark.parametrize(
    ("action", "fields"),
    [
        ("approve", {"call_id": "tc_1"}),
        ("approve", {"call_id": "tc_0123456789ab\n"}),
        ("approve", {"call_id": "tc_0123456789ab", "params": {}}),
        ("deny", {"call_id": "tc_0123456789ab", "text": "x" * 1_001}),
        ("edit", {"call_id": "tc_0123456789ab"}),
        ("edit", {"call_id": "tc_0123456789ab", "params": []}),
    ],
)
def test_a_malformed_answer_is_refused(action: str, fields: dict[str, Any]) -> None:
    conversation, inbox = parked()
    say(conversation, action, message_id="a1", **fields)
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["bad_message"]


def test_a_late_device_finds_the_pending_request() -> None:
    conversation, _ = parked()
    late = conversation.connect("k2")
    say(conversation, "resume", "k2", after=conversation.tail.n)
    sync = frames(late)[-1]
    assert isinstance(sync, SyncFrame)
    assert sync.approval == conversation.state.parked
    say(conversation, "resume", "k2", after=sync.approval - 1)
    assert event_types(late) == ["approval.requested", "conv.status"]


def deep(levels: int) -> dict[str, Any]:
    value: Any = "x"
    for _ in range(levels):
        value = {"a": [value]}
    return {"content": value}


@pytest.mark.parametrize("params", [deep(16), deep(200), {"n": 1 << 70}])
def test_parameters_of_an_edit_are_bounded_like_those_of_an_event(params: dict[str, Any]) -> None:
    conversation, inbox = parked()
    say(conversation, "edit", message_id="a1", call_id=call_of(conversation), params=params)
    assert [(frame.code, frame.message_id) for frame in of(ErrorFrame, inbox)] == [("bad_message", "a1")]
    assert conversation.state.parked


def test_half_a_surrogate_is_refused_under_the_id_of_its_message() -> None:
    conversation, inbox = parked()
    body = '{"action":"send","conversation":"%s","message_id":"m2","text":"x\\ud83dy"}' % LANE.conversation  # noqa: UP031 - a body of braces
    receive(conversation.ports, "k1", body)
    assert [(frame.code, frame.message_id) for frame in of(ErrorFrame, inbox)] == [("bad_json", "m2")]
