"""What reaches a conversation from outside, by its user's device and by another service of the account."""

from __future__ import annotations

import pytest

from stepline.local.client.change import Acknowledged
from stepline.local.client.websocket import encode_request
from tests.e2e.service import Service
from tests.e2e.session_client import Device, check_devices, stored_batches
from tests.e2e.stage import a_word
from tests.e2e.test_recovery import check_log

pytestmark = pytest.mark.emulator

HELLO = "Hello there."
SLOW_MS = 60


@pytest.fixture
def device(scripted, conversation):
    with Device(scripted, conversation) as found:
        yield found


@pytest.fixture
def service(scripted):
    return Service(scripted.deployed, scripted.user)


def kinds(device):
    return [effect.frame.kind for effect in device.effects if isinstance(effect, Acknowledged)]


def read_by_model(stage, word):
    """Return the texts of the requests to the model that hold the word."""
    return [str(request["body"]["messages"]) for request in stage.model_requests(word)]


def test_a_form_opens_a_turn_and_the_agent_reads_its_fields(scripted, conversation, device):
    word = a_word()
    device.session.tell("form", {"text": HELLO, "colour": word})
    end = device.until_settled()
    assert (end.outcome, kinds(device)) == ("completed", ["form"])
    assert all("form" in text for text in read_by_model(scripted, word))
    assert read_by_model(scripted, word)
    (opened,) = scripted.entries(conversation, "opened")
    assert opened["prompts"] == [1]
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


def test_an_alert_that_asks_for_nothing_waits_for_the_next_turn(scripted, conversation, device):
    word = a_word()
    device.session.tell("alert", {"room": word})
    device.until(Acknowledged)
    assert scripted.entries(conversation, "opened") == []
    device.session.say(HELLO)
    device.until_settled()
    assert kinds(device) == ["alert", "prompt"]
    assert read_by_model(scripted, word)
    check_devices(scripted, conversation, device)


def test_a_form_during_the_answer_is_answered_too_and_an_alert_is_not(scripted, conversation, device):
    slow, form, alert = a_word(), a_word(), a_word()
    scripted.fault(kind="slow_tokens", match=slow, count=1, token_delay_ms=SLOW_MS)
    device.session.say(f"Tell me about the word {slow}.")
    device.until_answering()
    device.session.tell("alert", {"room": alert})
    device.session.tell("form", {"colour": form})
    device.until_settled()
    (deferred,) = [event for event in device.happened("chat.step") if event.step == "deferred"]
    assert slow in deferred.data["answer"]
    assert len(scripted.model_requests(slow)) == 2
    assert len(scripted.model_requests(form)) == 1
    assert len(device.ends()) == 1
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


def test_an_invalid_event_is_refused_and_not_stored(scripted, conversation):
    body = {"action": "event", "conversation": conversation, "message_id": "e1", "kind": "form"}
    refused = [
        ({"kind": "prompt"}, "bad_event"),
        ({"payload": {"a": "x" * 25_000}}, "payload_too_large"),
        ({"uploads": [f"up_{'0' * 32}"]}, "upload_missing"),
    ]
    with scripted.socket() as (connection, next_frame):
        for fields, code in refused:
            connection.send(encode_request({**body, **fields}))
            assert next_frame().code == code
    assert stored_batches(scripted, conversation) == []


def test_a_service_brings_a_file_and_the_agent_reads_it(scripted, conversation, device, service):
    word, host = a_word(), a_word()
    device.session.say(HELLO)
    device.until_settled()
    submitted = service.submit(
        conversation,
        "report",
        "report-1",
        reactive=True,
        payload={"text": HELLO, "host": host},
        files={"notes.txt": f"The word is {word}.\n"},
    )
    assert (submitted["fate"], submitted["kind"], submitted["duplicate"]) == ("opened", "report", False)
    device.until(lambda _: any(end.turn_id == submitted["turn_id"] for end in device.ends()))
    (event,) = [entry for entry in scripted.entries(conversation, "in") if entry["event"] == "report"]
    assert event["source"] == "billing"
    path = f"fi:{submitted['turn_id']}.user.attachments/notes.txt"
    assert path in read_by_model(scripted, host)[-1]
    device.session.say(f"Read {path}")
    device.until_settled()
    read = [block.get("text", "") for r in scripted.entries(conversation, "result") for block in r["blocks"]]
    assert any(word in text for text in read)
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


def test_a_service_says_a_thing_once_however_often_it_says_it(scripted, conversation, device, service):
    device.session.say(HELLO)
    device.until_settled()
    first = service.submit(conversation, "alert", "alert-1", payload={"disk": 91})
    again = service.submit(conversation, "alert", "alert-1", payload={"disk": 91})
    assert (first["fate"], first["duplicate"]) == ("kept", False)
    assert again == {**first, "duplicate": True}
    other = Service(scripted.deployed, scripted.user, source="shop")
    assert other.submit(conversation, "alert", "alert-1") == {"error": "message_id_taken"}
    assert len(scripted.entries(conversation, "in")) == 2


def test_a_service_reaches_neither_foreign_nor_absent_conversations(scripted, conversation, device, service):
    assert service.submit(conversation, "alert", "a1") == {"error": "not_found"}
    device.session.say(HELLO)
    device.until_settled()
    stranger = Service(scripted.deployed, "somebody-else")
    assert stranger.submit(conversation, "alert", "a1", founds=True) == {"error": "not_found"}
    assert len(scripted.entries(conversation, "in")) == 1


def test_a_service_stops_a_turn(scripted, conversation, device, service):
    slow = a_word()
    scripted.fault(kind="slow_tokens", match=slow, count=1, token_delay_ms=400)
    device.session.say(f"Tell me about the word {slow}.")
    device.until_answering()
    assert service.submit(conversation, "stop", "stop-1")["fate"] == "joined"
    end = device.until_idle()
    assert end.outcome == "completed"
    assert scripted.entries(conversation, "closed")[-1]["reason"] == "stop"
    assert len(scripted.model_requests(slow)) == 1
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)
