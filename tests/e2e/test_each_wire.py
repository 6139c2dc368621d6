"""Turns on the deployed stage whose model is served over another wire than that of Messages, by a row of providers."""

from __future__ import annotations

import hashlib

import pytest

from tests.e2e.mode import over_wire
from tests.e2e.order import check_order, events, terminals
from tests.e2e.session_client import Device, check_devices
from tests.e2e.stage import Stage, a_word, answer_of
from tests.e2e.test_execution import RUN, the_run
from tests.e2e.test_live import ASKED, HEEDED, SLOW_MS, closing_of, decisions_of
from tests.e2e.test_recovery import LONG, check_log
from tests.e2e.test_sent_file import PNG, sent_files
from tests.support.files import noise
from tests.support.generation import tagged

pytestmark = pytest.mark.emulator

WAIT_S = 9.0
"""More than a worker waits by itself."""


@pytest.fixture(scope="module", params=["chat", "converse"])
def wire(request, deployed_script):
    """The wire of the stage's model, while the tests over it run."""
    with over_wire(Stage(deployed_script), request.param):
        yield request.param


@pytest.fixture
def speaking(wire, scripted):
    """The stage with its model on a wire."""
    assert wire
    return scripted


@pytest.fixture
def device(speaking, conversation):
    with Device(speaking, conversation) as found:
        yield found


def slow(stage):
    """Return a word that the model writes slowly about, the first time that it is asked."""
    word = a_word()
    stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return word


def models_of(stage, conversation):
    """Return the models that answered the rounds of a conversation."""
    return [decision["model"] for decision in decisions_of(stage, conversation)]


def ask(stage, conversation, **fault):
    """Return the lines of a turn whose request meets a fault."""
    word = a_word()
    stage.fault(match=word, count=1, **fault)
    lines = stage.send(ASKED.format(word=word), conversation)
    check_order(lines)
    (end,) = terminals(lines)
    assert end["type"] == "chat.complete"
    assert word in answer_of(lines)
    check_log(stage, conversation)
    return lines


def test_a_turn_uses_tools_and_answers(speaking, conversation):
    word = a_word()
    lines = speaking.send(LONG.format(word=word), conversation)
    check_order(lines)
    assert word in answer_of(lines)
    assert {result["tool_id"] for result in speaking.entries(conversation, "result")} >= {
        "react.write",
        "react.read",
    }
    assert all(model.startswith("own:") for model in models_of(speaking, conversation))
    assert closing_of(speaking, conversation)["usage"]["cache_read_tokens"] > 0
    check_log(speaking, conversation)


def test_a_picture_is_in_the_request(speaking, conversation, tmp_path):
    name, data = f"{a_word()}.png", noise(PNG, (40, 30))
    (tmp_path / name).write_bytes(data)
    lines = speaking.send(f"Read {name}", conversation, "--attach", f"{tmp_path}/{name}")
    *_, last = speaking.model_requests(name)
    assert sent_files(last) == [hashlib.sha256(data).hexdigest()]
    assert "40x30" in answer_of(lines)


def test_a_program_runs_and_its_file_is_kept(speaking, computing, conversation):
    word = a_word()
    lines = speaking.send(RUN.format(f'open("outputs/{word}.txt", "w").write("{word}")'), conversation)
    check_order(lines)
    assert the_run(computing, conversation)["status"] == "ok"
    (files,) = events(lines, "chat.files")
    assert [item["logical_path"].rpartition("/")[2] for item in files["data"]["items"]] == [f"{word}.txt"]


def test_a_steer_cuts_the_stream_off_and_the_turn_comes_to_an_end(speaking, conversation, device):
    word = slow(speaking)
    device.session.say(ASKED.format(word=word))
    device.until_answering()
    steer = device.session.steer("Be brief.")
    device.until_event(HEEDED, message_id=steer)
    end = device.until_idle()
    cut, last = decisions_of(speaking, conversation)
    assert (cut["interrupted"], end.answer) == (True, last["answer"])
    assert closing_of(speaking, conversation)["reason"] == "steer"
    cut_request, last_request = speaking.model_requests(word)
    assert cut_request["sent_chars"] < last_request["sent_chars"]
    check_log(speaking, conversation)
    check_devices(speaking, conversation, device)


def test_a_stop_ends_the_stream_and_keeps_the_shown_text(speaking, conversation, device):
    word = slow(speaking)
    device.session.say(ASKED.format(word=word))
    claim = device.until_answering()
    device.session.stop()
    end = device.until_idle()
    (cut,) = decisions_of(speaking, conversation)
    assert cut["interrupted"]
    assert cut["usage"]["estimated"]
    assert cut["usage"]["input_tokens"] > 0
    assert (closing_of(speaking, conversation)["reason"], end.outcome) == ("stop", "completed")
    assert end.answer.startswith(device.answer_of(claim))
    check_devices(speaking, conversation, device)


def test_a_provider_that_asks_for_a_wait_gets_it(speaking, conversation):
    lines = ask(speaking, conversation, kind="rate_limited", retry_after_s=WAIT_S)
    epoch = events(lines, "chat.start")[0]["n"]
    entered = [
        event["stateEnteredEventDetails"]["name"]
        for event in speaking.history(conversation, epoch)
        if event["type"].endswith("StateEntered")
    ]
    assert "Wait" in entered


@pytest.mark.parametrize("kind", ["overloaded", "server_error"])
def test_an_overloaded_provider_is_asked_again(speaking, conversation, kind):
    ask(speaking, conversation, kind=kind)
    assert len(models_of(speaking, conversation)) == 1


@pytest.mark.parametrize("kind", ["cut", "error_in_stream", "malformed_stream"])
def test_an_answer_that_breaks_off_is_begun_anew_and_shown_once(speaking, conversation, kind):
    lines = ask(speaking, conversation, kind=kind, after_chars=120)
    assert len(events(lines, "round.restarted")) == 1


def test_a_refusal_goes_to_the_fallback(speaking, conversation):
    ask(speaking, conversation, kind="refusal", explanation="No.", text=tagged("thinking", "I"))
    declined, answered = models_of(speaking, conversation)
    assert declined != answered
    assert speaking.entries(conversation, "closed")[-1]["outcome"] == "completed"
