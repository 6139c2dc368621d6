"""The trace of a turn on the stage: one, over its functions and executions, at a server that decodes it."""

from __future__ import annotations

import pytest

from stepline.local.client.change import TextAppended
from stepline.model.ids import make_lane, root_span_id, trace_id
from tests.e2e.mode import traced
from tests.e2e.session_client import Device, check_devices, stored_batches
from tests.e2e.stage import a_word
from tests.e2e.test_recovery import LONG
from tests.e2e.test_takeover import lose
from tests.support.collector import collector

pytestmark = pytest.mark.emulator

ROOT, TAKEN = "invoke_agent default", "take_over"
STEPS = ("decide", "act", "close")


def lane_of(conversation):
    return make_lane("local", "default", conversation)


def words_of(spans):
    return [span.name.partition(" ")[0] for span in spans]


def test_a_turn_with_a_lost_execution_is_one_trace_without_text(scripted, conversation):
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=40)
    with collector() as heard, traced(scripted, "on", heard.url):
        with Device(scripted, conversation) as device:
            device.session.say(LONG.format(word=word))
            device.until(TextAppended)
            lose(scripted, conversation)
            device.until_event("round.restarted")
            device.until_settled()
            check_devices(scripted, conversation, device)
        turn = next(batch.state.turn for batch in stored_batches(scripted, conversation) if batch.state.turn)
        came = heard.until(lambda spans: any(not span.parent for span in spans))
        assert {span.trace for span in came} == {f"{trace_id(lane_of(conversation), turn):032x}"}
        ended = sorted(came, key=lambda span: span.ended_s)
        roots = [span for span in ended if not span.parent]
        assert [(span.name, span.id) for span in roots] == [
            (ROOT, f"{root_span_id(lane_of(conversation), turn):016x}")
        ]
        assert {"take_over", "decide", "act", "close", "chat", "execute_tool"} <= set(words_of(ended))
        (taken,) = [span for span in ended if span.name == TAKEN]
        epochs = {span.name: span.attributes["stepline.epoch"] for span in ended if span.name in STEPS}
        assert set(epochs.values()) == {taken.attributes["stepline.epoch"]}  # each step's last visit
        known = {span.id for span in ended}
        assert {span.parent for span in ended if span.parent} <= known
        shown = repr(came)
        assert word not in shown
        assert scripted.user not in shown
        assert {span.resource["deployment.environment.name"] for span in ended} == {"local"}


def test_texts_are_in_a_trace_if_requested(scripted, conversation):
    word = a_word()
    with collector() as heard, traced(scripted, "text", heard.url):
        scripted.send(f"Tell me about the word {word}.", conversation)
        came = heard.until(lambda spans: any(not span.parent for span in spans))
        with_word = {span.name.partition(" ")[0] for span in came if word in repr(span)}
    assert {"chat", "invoke_agent"} <= with_word
