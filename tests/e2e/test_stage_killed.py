"""The whole local stage killed in mid-turn: what it had acknowledged is there, and `stepline up` takes the turns over."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from stepline.local.client.change import Acknowledged, TextAppended
from tests.e2e.session_client import Device, check_devices
from tests.e2e.stage import a_word
from tests.e2e.test_recovery import LONG, check_log

pytestmark = pytest.mark.emulator

AT_ONCE = 2


def kill_stage(stage):
    """Kill the emulator and all of its workers, without any notice."""
    os.killpg(stage.emulator.pid, signal.SIGKILL)


def kill_emulator_alone(stage):
    """Kill the emulator's own process; its workers live on for a while and may still write."""
    os.kill(stage.emulator.pid, signal.SIGKILL)


def test_turns_of_a_killed_stage_are_taken_over_and_no_acknowledged_message_lost(scripted, conversation):
    words = [a_word() for _ in range(AT_ONCE)]
    names = [f"{conversation}-{at}" for at in range(AT_ONCE)]
    with ExitStack() as open_devices:
        devices = [open_devices.enter_context(Device(scripted, name)) for name in names]
        for device, word in zip(devices, words, strict=True):
            scripted.fault(kind="slow_tokens", match=word, count=2, token_delay_ms=1500)
            device.session.say(LONG.format(word=word))
        for kill in (kill_stage, kill_emulator_alone):
            for device in devices:
                device.until(TextAppended)
            devices[0].session.say("And be brief.")
            devices[0].until(Acknowledged)
            before = [scripted.log(name) for name in names]
            kill(scripted)
            scripted.command("up")
            for name, seen in zip(names, before, strict=True):
                assert scripted.log(name)[: len(seen)] == seen
        for device, word, name in zip(devices, words, names, strict=True):
            device.until_settled()
            device.sync()
            numbers = [batch["n"] for batch in scripted.log(name)]
            assert numbers == list(range(1, len(numbers) + 1))
            assert len(scripted.entries(name, "takeover")) == 2
            (written,) = [one for one in scripted.entries(name, "result") if one["tool_id"] == "react.write"]
            assert written["status"] == "ok"
            assert any(word in end.answer for end in device.ends())
            check_log(scripted, name)
            check_devices(scripted, name, device)
            assert f"CONV#local#default#{name}" not in scripted.open_lanes()
    said = [entry["text"] for entry in scripted.entries(names[0], "in")]
    assert said == [LONG.format(word=words[0]), "And be brief.", "And be brief."]
