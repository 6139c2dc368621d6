"""Several at once, the same again, and a turn whose execution is lost: each message counts once and each turn ends once."""

from __future__ import annotations

import json
import threading

import pytest

from stepline.local.client.change import Acknowledged, TextAppended
from stepline.local.stage.deployed import client
from stepline.model.wire.event import AckFrame
from tests.e2e.mode import unhindered
from tests.e2e.session_client import Device, check_devices, stored_batches
from tests.e2e.stage import TURN_TIMEOUT_S, a_word
from tests.e2e.test_recovery import check_log
from tests.support.generation import answered

pytestmark = pytest.mark.emulator

ASKED = "Tell me about the word {word}."
TAKEOVERS = 3


def inbound(stage, conversation):
    """Return the event of each message id, and its position; none may occur twice."""
    found = [
        (entry["message_id"], (entry["event"], batch["n"]))
        for batch in stage.log(conversation)
        for entry in batch["entries"]
        if entry["kind"] == "in"
    ]
    assert len(dict(found)) == len(found)
    return dict(found)


def test_two_messages_at_once_from_two_devices_are_both_answered(scripted, conversation):
    words = [a_word(), a_word()]
    for word in words:
        scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=10)
    with Device(scripted, conversation) as one, Device(scripted, conversation) as other:
        together = threading.Barrier(2)

        def say(device, word):
            together.wait(timeout=TURN_TIMEOUT_S)
            device.session.say(ASKED.format(word=word))
            return device.until_settled()

        others = threading.Thread(target=say, args=(other, words[1]))
        others.start()
        say(one, words[0])
        others.join(timeout=TURN_TIMEOUT_S)
        assert not others.is_alive()
        kinds = sorted(
            effect.frame.kind
            for device in (one, other)
            for effect in device.effects
            if isinstance(effect, Acknowledged)
        )
        assert kinds == ["followup", "prompt"]
        # The first one may not have received the result of the second.
        for device in (one, other):
            device.sync()
        answers = "".join(end.answer for end in one.ends()) + str(one.happened("chat.step"))
        assert all(word in answers for word in words)
        check_devices(scripted, conversation, one, other)
    check_log(scripted, conversation)


KINDS = {
    "prompt": {"action": "send", "text": "Tell me about the word {word}."},
    "followup": {"action": "event", "kind": "followup", "payload": {"text": "And {word}?"}},
    "form": {"action": "event", "kind": "form", "payload": {"name": "{word}"}},
    "alert": {"action": "event", "kind": "alert", "payload": {"text": "{word}"}},
    "steer": {"action": "event", "kind": "steer", "payload": {"text": "Be brief."}},
    "stop": {"action": "event", "kind": "stop"},
}
"""In this order: each but the first comes to a turn that is open."""


def request_of(conversation, kind, word):
    body = json.dumps({**KINDS[kind], "conversation": conversation, "message_id": f"m-{kind}"})
    return body.replace("{word}", word)


def acknowledged(next_frame, kind):
    """Return the next answer to a message of a kind."""
    while True:
        frame = next_frame()
        if isinstance(frame, AckFrame) and frame.message_id == f"m-{kind}":
            return frame


def test_every_kind_of_message_counts_once_however_often_and_late_it_comes(scripted, conversation):
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=2, token_delay_ms=40)
    with (
        unhindered(scripted),
        scripted.socket() as (one, next_of_one),
        scripted.socket() as (other, next_of_other),
    ):
        places = {}
        for kind in KINDS:
            for socket in (one, other):  # concurrently: without waiting for an answer
                socket.send(request_of(conversation, kind, word))
            acks = [acknowledged(next_of_one, kind), acknowledged(next_of_other, kind)]
            assert len({ack.n for ack in acks}) == 1
            assert sorted(ack.duplicate for ack in acks) == [False, True]
            assert {ack.kind for ack in acks} == {"steer" if kind == "stop" else kind}
            places[f"m-{kind}"] = ({"stop": "steer"}.get(kind, kind), acks[0].n)
        with Device(scripted, conversation) as late:
            late.session.listen()
            late.until_idle()
            before = inbound(scripted, conversation)
            assert before == places
            for kind in KINDS:
                one.send(request_of(conversation, kind, word))
                ack = acknowledged(next_of_one, kind)
                assert (ack.duplicate, ack.n) == (True, places[f"m-{kind}"][1])
            assert inbound(scripted, conversation) == before
            late.sync()
            check_devices(scripted, conversation, late)
    check_log(scripted, conversation)
    # Every event came to exactly one end: seen by the turn, opening the next one, or handed back.
    dropped = [entry["message_id"] for entry in scripted.entries(conversation, "dropped")]
    assert len(dropped) == len(set(dropped))


def test_a_turn_that_is_lost_each_time_ends_with_one_error_and_the_next_one_works(scripted, conversation):
    poison, word = a_word(), a_word()
    # Its model takes an hour to come to an end, so that its execution is lost each time.
    endless = answered("On and on. " * 6_000)
    scripted.fault(kind="fixture", match=poison, count=1_000, text=endless, token_delay_ms=200)
    with Device(scripted, conversation, fails=True) as device:
        device.session.say(ASKED.format(word=poison))
        device.until(TextAppended)
        device.session.say(f"And the word {word}?")
        device.until(Acknowledged)
        for takeover in range(1, TAKEOVERS + 1):
            lose(scripted, conversation)
            device.until_event("round.restarted", attempt=0)
            assert scripted.log(conversation)[-1]["state"]["takeovers"] == takeover
            device.until(TextAppended)
        scripted.no_faults()
        lose(scripted, conversation)
        end = device.until_settled()
        first, last = device.ends()
        assert (first.outcome, first.code) == ("error", "execution_lost")
        assert (last.outcome, last) == ("completed", end)
        assert word in end.answer
        check_devices(scripted, conversation, device)
    check_log(scripted, conversation)
    assert len(scripted.entries(conversation, "takeover")) == TAKEOVERS
    assert f"CONV#local#default#{conversation}" not in scripted.open_lanes()


def lose(stage, conversation):
    """End the execution of the open turn. As on AWS, its worker goes on: the fence keeps it from the log."""
    epoch = stored_batches(stage, conversation)[-1].state.epoch
    arn = stage.deployed.machine_arn.replace(":stateMachine:", ":execution:")
    name = f"{arn}:{stage.execution(conversation, epoch)}"
    client("stepfunctions", stage.deployed).stop_execution(executionArn=name)
