"""The client of docs/how-to/client.md on the stage, run as the page says, and with its connection cut in mid-turn."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from websockets.sync.client import connect

from stepline.local.stage.deployed import install_environment
from tests.e2e.broken_connection import Cable
from tests.e2e.stage import TURN_TIMEOUT_S, a_word

pytestmark = pytest.mark.emulator

PAGE = Path(__file__).parents[2] / "docs/how-to/client.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
PULLS = (1, 2, 3, 5)


def test_it_runs_as_the_page_says(deployed, tmp_path):
    (tmp_path / "client.py").write_text("\n\n".join([*BLOCKS, "sys.exit(not main())\n"]))
    (command,) = re.findall(r"```sh\npython (.*)\n```", PAGE.read_text())
    done = subprocess.run(
        [sys.executable, *command.split()],
        cwd=tmp_path,
        env=install_environment(),
        capture_output=True,
        text=True,
        timeout=TURN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    shown, recorded = done.stdout.split("\n---\n")
    assert recorded.strip()
    assert shown.strip() in recorded


def test_a_connection_that_is_cut_in_mid_turn_costs_no_event_and_no_character(scripted, conversation):
    names, shown = {}, []
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)
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
    told = [(line["n"], line["type"]) for line in scripted.watch(conversation) if line["frame"] == "event"]
    assert [(at, what["type"]) for lane, at, what in shown if lane == "event"] == told
    lanes = {}
    for lane, at, what in shown:
        if lane != "event":
            assert at in (0, len(lanes.get(lane, "")))
            lanes[lane] = lanes.get(lane, "")[:at] + what
    assert end["data"]["answer"].startswith(lanes.get("answer.0", ""))
