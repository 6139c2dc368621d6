"""The client of docs/how-to/client.md on the stage, its connection cut in mid-turn."""

from __future__ import annotations

import json

import pytest
from websockets.sync.client import connect

from tests.e2e.broken_connection import Cable
from tests.e2e.stage import a_word
from tests.unit.docs.source import DOCS, run_blocks

pytestmark = pytest.mark.emulator

PAGE = DOCS / "how-to/client.md"
PULLS = (1, 2, 3, 5)


def test_a_connection_that_is_cut_in_mid_turn_costs_no_event_and_no_character(scripted, conversation):
    names, shown = run_blocks(PAGE), []
    cable = Cable(None, PULLS)

    def dial(url, **options):
        cable._dial = lambda: connect(url, **options)
        return cable()

    names["connect"] = dial

    def access():
        found = json.loads(scripted.command("token", "--json", "--user", scripted.user).stdout)
        return found["url"], found["token"]

    word = a_word()
    client = names["Client"](conversation, access, lambda *what: shown.append(what))
    end = client.ask(
        f"Make a plan with three steps, write it to a file with the word {word} in it and read it back."
    )
    assert (end["type"], word in end["data"]["answer"]) == ("chat.complete", True)
    assert cable.pulled >= len(PULLS) - 1
    events = [(line["n"], line["type"]) for line in scripted.watch(conversation) if line["frame"] == "event"]
    assert [(at, what["type"]) for lane, at, what in shown if lane == "event"] == events
    lanes = {}
    for lane, at, what in shown:
        if lane != "event":
            assert at in (0, len(lanes.get(lane, "")))
            lanes[lane] = lanes.get(lane, "")[:at] + what
    assert end["data"]["answer"].startswith(lanes.get("answer.0", ""))
