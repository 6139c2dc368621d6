"""More turns than the stage may run: they are queued, get their position, and begin as others end."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from stepline.local.client.change import Acknowledged, TextAppended, TurnEnded, Waiting
from tests.e2e.mode import bounded
from tests.e2e.session_client import Device, check_devices, stored_batches
from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator

BOUND = 3
WAITING = 9
STOPPED = 4
FOLLOWED = 1
HELD = "Tell me about the word {word}."


def hold(stage, device):
    """Begin a turn that takes its time."""
    word = a_word()
    stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=1500)
    device.session.say(HELD.format(word=word))
    device.until(TextAppended)


def is_answer_to(message_id, effect):
    return isinstance(effect, Acknowledged) and effect.frame.message_id == message_id


def spans(stage, conversations):
    """Return when each turn began and when it ended, by the log: in the order in which they began."""
    found = []
    for conversation in conversations:
        dated = [
            (batch.at, entry) for batch in stored_batches(stage, conversation) for entry in batch.entries
        ]
        moments = {type(entry).__name__: at for at, entry in dated}
        found.append((moments.get("Begun", moments["Opened"]), moments["Closed"], conversation))
    return sorted(found)


def most_at_once(found):
    """Return the largest number of turns that ran at a time."""
    ends = [(end, -1) for _, end, _ in found]
    running, most = 0, 0
    for _, change in sorted([*((begin, 1) for begin, _, _ in found), *ends]):
        running += change
        most = max(most, running)
    return most


def test_turns_beyond_the_limit_are_queued_and_take_a_stop_and_a_message(scripted, conversation):
    holding = [f"{conversation}-h{at}" for at in range(BOUND)]
    waiting = [f"{conversation}-w{at}" for at in range(WAITING)]
    with bounded(scripted, BOUND), ExitStack() as opened:
        held = [opened.enter_context(Device(scripted, name)) for name in holding]
        queued = [opened.enter_context(Device(scripted, name)) for name in waiting]
        for device in held:
            hold(scripted, device)
        for at, device in enumerate(queued):
            device.session.say(f"Hello, {at}.")
            assert device.until(Waiting).place == at + 1

        queued[STOPPED].session.stop()
        assert queued[STOPPED].until(TurnEnded).reason == "stop"
        queued[-1].session.listen()
        assert queued[-1].until(Waiting).place == WAITING - 1
        said = queued[FOLLOWED].session.say("And good night.")
        ack = queued[FOLLOWED].until(lambda effect: is_answer_to(said, effect))
        assert ack.frame.kind == "followup"

        for device in held:
            device.session.stop()
        for device in (*held, *queued):
            device.until_settled()
            device.sync()

    for name, device in zip((*holding, *waiting), (*held, *queued), strict=True):
        check_devices(scripted, name, device)
    assert len(queued[FOLLOWED].ends()) == 1
    ran = spans(scripted, [name for name in (*holding, *waiting) if name != waiting[STOPPED]])
    assert most_at_once(ran) == BOUND
    began = [waiting.index(name) for _, _, name in ran if name in waiting]
    assert all(abs(at - place) <= BOUND for at, place in enumerate(began)), began
    marked = scripted.open_lanes()
    assert not [name for name in (*holding, *waiting) if f"CONV#local#default#{name}" in marked]
