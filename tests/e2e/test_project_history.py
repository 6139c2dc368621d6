"""A stage that keeps the history of projects: two turns, and the repository that git reads."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from stepline.local.caller import PROJECT, TENANT
from stepline.local.scripted.script import Round
from stepline.local.scripted.speech import Saying
from stepline.log.versions import version_key
from stepline.model.ids import make_lane
from tests.e2e.mode import kept_histories
from tests.e2e.order import terminals
from tests.e2e.stage import a_word
from tests.support.script import script

pytestmark = [
    pytest.mark.emulator,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

WRITE = "Write a file files/app/note.md with the word {} in it."

LOGO = bytes(range(256)) * 64
DRAW = """\
Run this program, it writes files/art/logo.bin:
```python
import os
os.makedirs("files/art")
open("files/art/logo.bin", "wb").write(bytes(range(256)) * 64)
open("files/.gitattributes", "w").write("*.bin binary\\n*.txt eol=crlf\\n")
```"""
TURN_AROUND = script(
    Round(
        calls=(Saying(tool="react.checkout", params={"mode": "replace", "paths": ["newest:files/"]}),),
    ),
    Round(
        calls=(
            Saying(
                tool="exec_tools.execute_code_python",
                params={
                    "contract": [{"filename": "files/art/logo.bin", "description": "The logo"}],
                    "prog_name": "A program",
                },
                code="body = open('files/art/logo.bin', 'rb').read()\nopen('files/art/logo.bin', 'wb').write(body[::-1])",
            ),
        )
    ),
)


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


def test_a_binary_file_is_listed_checked_out_changed_and_cloned(computing, conversation, tmp_path):
    stage = computing
    with kept_histories(stage):
        for said in (DRAW, TURN_AROUND):
            assert len(terminals(stage.send(said, conversation))) == 1
    first, second = [entry["turn"] for entry in stage.entries(conversation, "closed")]
    announced = str(stage.model_requests(second)[-1]["body"]["messages"])
    assert f"art/ (1): fi:{first}.files/art/" in announced
    folder = tmp_path / "project"
    stage.command("workspace", "clone", conversation, str(folder))
    assert (folder / "art/logo.bin").read_bytes() == LOGO[::-1]
    version = ["git", "-C", str(folder), "show", "HEAD~1:art/logo.bin"]
    assert subprocess.run(version, capture_output=True, check=True).stdout == LOGO
    assert "Binary files a/art/logo.bin and b/art/logo.bin differ" in git(folder, "log", "-p", "-1")
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "fsck", "--strict") == ""
