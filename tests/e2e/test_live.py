"""What a user says while a turn is open: it steers, it stops, it is answered, or it is handed back."""

from __future__ import annotations

import pytest

from stepline.local.client.change import Acknowledged, EventsApplied, LaneKnown, TextAppended
from stepline.loop.steer import STOPPED
from tests.e2e.mode import obstacle, programs_in
from tests.e2e.session_client import Device, check_devices
from tests.e2e.stage import a_word
from tests.e2e.test_execution import RUN, WAITING, bodies, the_run, wait_for_start
from tests.e2e.test_recovery import check_log

pytestmark = pytest.mark.emulator

ASKED = "Tell me about the word {word}."
LONG = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
HEEDED = "timeline.external.steer.interrupted"
SLOW_MS = 60
PRINTING = """\
import time

print("{word}", flush=True)
time.sleep(8)
print("late")
open("outputs/late.txt", "w").write("{word}")
"""


@pytest.fixture
def word(scripted):
    """A word that the model writes slowly about, the first time it is asked."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return word


@pytest.fixture
def device(scripted, conversation):
    with Device(scripted, conversation) as found:
        yield found


def closing_of(stage, conversation):
    return stage.entries(conversation, "closed")[-1]


def decisions_of(stage, conversation):
    return stage.entries(conversation, "decision")


def test_a_steer_cuts_the_stream_off_and_the_turn_comes_to_an_end(scripted, conversation, device, word):
    device.session.say(ASKED.format(word=word))
    claim = device.until_answering()
    steer = device.session.steer("Be brief.")
    heeded = device.until_event(HEEDED, message_id=steer)
    assert (heeded.data["text"], heeded.data["cancelled_phase"]) == ("Be brief.", "decision")
    end = device.until_idle()
    cut, last = decisions_of(scripted, conversation)
    assert cut["interrupted"]
    assert cut["claim"] == claim
    assert not last.get("interrupted")
    assert closing_of(scripted, conversation)["reason"] == "steer"
    assert end.answer == last["answer"]
    # The cut text is shorter than the scripted answer, and no request continued it.
    cut_request, last_request = scripted.model_requests(word)
    assert cut_request["sent_chars"] < last_request["sent_chars"]
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


def test_a_stop_ends_a_stream_at_once_and_keeps_the_shown_text(scripted, conversation, device, word):
    device.session.say(ASKED.format(word=word))
    claim = device.until_answering()
    device.session.stop()
    end = device.until_idle()
    (cut,) = decisions_of(scripted, conversation)
    assert cut["interrupted"]
    assert closing_of(scripted, conversation)["reason"] == "stop"
    assert end.outcome == "completed"
    assert device.answer_of(claim)
    assert end.answer.startswith(device.answer_of(claim))
    assert len(scripted.model_requests(word)) == 1
    check_devices(scripted, conversation, device)
    device.session.say("Hello there.")
    assert device.until_settled().outcome == "completed"


@pytest.mark.parametrize("mode", ["process", "docker"])
def test_a_stop_ends_a_program_that_runs(scripted, conversation, device, mode):
    if why := obstacle(scripted, mode):
        pytest.skip(f"{mode}: {why}")
    word = a_word()
    with programs_in(scripted, mode):
        device.session.say(RUN.format(WAITING.format(word=word)))
        device.until_event("code_exec.status", status="exec")
        wait_for_start(scripted, conversation, lines_of(device))
        device.session.stop()
        end = device.until_idle()
    assert (end.outcome, end.answer) == ("completed", STOPPED)
    result = the_run(scripted, conversation)
    assert (result["status"], result["error"]["code"]) == ("error", "cancelled")
    assert bodies(result) == {}  # it would have written one in a minute
    assert len(scripted.model_requests(word)) == 1
    assert closing_of(scripted, conversation)["reason"] == "stop"
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


@pytest.mark.parametrize("mode", ["process", "docker", "fargate"])
def test_a_running_programs_output_is_shown_also_to_a_late_device(scripted, conversation, device, mode):
    if why := obstacle(scripted, mode):
        pytest.skip(f"{mode}: {why}")
    word = a_word()
    with programs_in(scripted, mode):
        device.session.say(RUN.format(PRINTING.format(word=word)))
        seen = device.until(is_printed)
        assert device.happened("code_exec.log") == []
        with Device(scripted, conversation) as late:
            late.session.listen()
            same = late.until(is_printed)
            assert (same.claim, same.off, same.text) == (seen.claim, 0, f"{word}\n")
            ended = late.until_event("code_exec.log")
            late.until_idle()
            device.until_idle()
            check_devices(scripted, conversation, device, late)
    assert ended.data["text"] == f"{word}\nlate\n"
    lane = (seen.claim, seen.lane)
    assert device.texts[lane].startswith(f"{word}\n")
    assert ended.data["text"].startswith(device.texts[lane])
    (known,) = [
        effect for effect in device.effects if isinstance(effect, LaneKnown) and effect.lane == seen.lane
    ]
    assert known.facts.execution_id == ended.data["execution_id"]


def is_printed(effect):
    return isinstance(effect, TextAppended) and effect.lane == "exec.0.log"


def test_a_stop_between_tools_leaves_the_rest_undone(scripted, conversation, device):
    word = a_word()
    device.session.say(LONG.format(word=word))
    device.until_event("react.tool.call", tool_id="react.write")
    device.session.stop()
    end = device.until_idle()
    assert closing_of(scripted, conversation)["reason"] == "stop"
    assert end.outcome == "completed"
    asked = [
        action["call_id"] for d in decisions_of(scripted, conversation) for action in d.get("actions", ())
    ]
    answered = [result["call_id"] for result in scripted.entries(conversation, "result")]
    assert answered == asked
    check_devices(scripted, conversation, device)


def test_a_followup_during_the_answer_gets_its_own_completion(scripted, conversation, device):
    word, other = a_word(), a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=15)
    first = device.session.say(ASKED.format(word=word))
    device.until_answering()
    device.session.say(f"And the word {other}?")
    end = device.until_settled()
    (deferred,) = [event for event in device.happened("chat.step") if event.step == "deferred"]
    assert word in deferred.data["answer"]
    assert other in end.answer
    acks = [effect.frame for effect in device.effects if isinstance(effect, Acknowledged)]
    assert [(ack.message_id == first, ack.kind) for ack in acks] == [(True, "prompt"), (False, "followup")]
    assert len(device.ends()) == 1
    read = scripted.model_requests(other)[-1]["body"]
    assert "assistant.completion.attempt.1" in str(read["messages"])
    check_log(scripted, conversation)
    check_devices(scripted, conversation, device)


def test_two_devices_of_a_user_see_the_messages_of_both(scripted, conversation, device, word):
    device.session.say(ASKED.format(word=word))
    claim = device.until_answering()
    with Device(scripted, conversation) as other:
        other.session.listen()
        other.until_answering()
        steer = other.session.steer("Be brief.")
        device.until_event(HEEDED, message_id=steer)
        ends = [device.until_idle(), other.until_idle()]
        assert ends[0] == ends[1]
        check_devices(scripted, conversation, device, other)
        # Both were shown the beginning of the same text; what a cut left on its way may have reached one of them only.
        shown = sorted((device.answer_of(claim), other.answer_of(claim)), key=len)
        assert shown[0]
        assert shown[1].startswith(shown[0])


@pytest.mark.parametrize("text", ["Be brief.", ""])
def test_a_steer_that_comes_to_no_turn_is_handed_back(scripted, conversation, device, text):
    device.session.say("Hello there.")
    end = device.until_settled()
    steer = device.session.steer(text) if text else device.session.stop()
    dropped = device.until_event("chat.step", message_id=steer)
    assert (dropped.step, dropped.data["reason"]) == ("dropped", "nothing_to_steer")
    assert device.ends() == [end]
    assert not device.state.open
    assert len(scripted.entries(conversation, "opened")) == 1
    check_devices(scripted, conversation, device)


def lines_of(device):
    """Return a device's events of calls, as `stepline send --json` prints them."""
    applied = (effect for effect in device.effects if isinstance(effect, EventsApplied))
    return [
        {"frame": "event", "type": event.type, "turn_id": event.turn_id, "data": event.data}
        for effect in applied
        for event in effect.events
    ]
