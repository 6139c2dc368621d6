"""A stage that keeps the history of projects: two turns, and the repository that git reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from stepline.local.caller import PROJECT, TENANT
from stepline.log.versions import version_key
from stepline.model.ids import make_lane
from tests.e2e.mode import kept_histories
from tests.e2e.order import terminals
from tests.e2e.stage import a_word

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

WRITE = "Write a file files/app/note.md with the word {} in it."


def git(folder, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout


def test_each_turn_is_a_commit_that_git_shows(scripted, conversation, tmp_path):
    first, second = a_word(), a_word()
    with kept_histories(scripted):
        for word in (first, second):
            assert len(terminals(scripted.send(WRITE.format(word), conversation))) == 1
    # The second round of the second turn got the first turn's version.
    turns = [entry["turn"] for entry in scripted.entries(conversation, "closed")]
    announced = str(scripted.model_requests(second)[-1]["body"]["messages"])
    assert f"last_published_turn: {turns[0]}" in announced
    lane = make_lane(TENANT, PROJECT, conversation)
    saved = [scripted.object_bytes(version_key(lane, turn)) for turn in turns]
    scripted.command("workspace", "clone", conversation, str(tmp_path / "project"))
    assert [scripted.object_bytes(version_key(lane, turn)) for turn in turns] == saved
    said = git(tmp_path / "project", "log", "-p", "--reverse")
    assert [line.split()[-1] for line in said.splitlines() if "React workspace snapshot" in line] == turns
    assert f"-Word: {first}\n+Word: {second}\n" in said
    assert git(tmp_path / "project", "status", "--porcelain") == ""
    assert second in (tmp_path / "project/app/note.md").read_text()
