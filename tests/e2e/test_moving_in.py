"""A conversation that moves: exported with its files by the command line, imported under another name, and gone on with."""

from __future__ import annotations

import hashlib
import json

import pytest

from stepline.local.client.http_api import HttpApi
from stepline.local.stage.deployed import REPOSITORY
from stepline.local.stage.lifecycle import mint
from tests.e2e.stage import a_word, answer_of
from tests.support.files import noise

pytestmark = pytest.mark.emulator

PNG = "image/png"
SAMPLE = REPOSITORY / "tests/data/import"
"""A conversation of the existing system."""
ELSEWHERE = "key"
"""The one field of a block that says where it is kept."""


@pytest.fixture
def api(scripted):
    deployed = scripted.deployed
    found = HttpApi(
        deployed.api_url, lambda: mint(deployed, scripted.user, tenant="local", project="default")
    )
    yield found
    found.close()


@pytest.fixture
def said(scripted, conversation, tmp_path):
    """A conversation of two turns, and the picture that came with the first one."""
    word, picture = a_word(), noise(PNG, (40, 30))
    name = f"{a_word()}.png"
    (tmp_path / name).write_bytes(picture)
    scripted.send(f"Write a file {word}.md with the word {word} in it and read it back.", conversation)
    scripted.send(f"Read {name}", conversation, "--attach", f"{tmp_path}/{name}")
    return word, name, hashlib.sha256(picture).hexdigest()


def exported(stage, conversation, folder):
    """Return the documents of a conversation by their place in the folder, but for where bytes are kept."""
    stage.command("export", conversation, "--out", f"{folder}")
    found = {path.relative_to(folder): json.loads(path.read_text()) for path in folder.rglob("*.json")}
    for document in found.values():
        for block in document.get("blocks", ()):
            if block["body"]:
                block["body"].pop(ELSEWHERE)
    return found


def move_in(stage, path, conversation):
    done = stage.command("import", f"{path}", "--conversation", conversation, "--user", stage.user, "--json")
    return json.loads(done.stdout)


def test_an_imported_conversation_has_its_files_and_continues(scripted, conversation, api, said, tmp_path):
    word, name, digest = said
    before = exported(scripted, conversation, tmp_path / "out")
    (file,) = (tmp_path / "out/files").rglob(name)
    assert hashlib.sha256(file.read_bytes()).hexdigest() == digest

    moved = f"{conversation}-moved"
    status = move_in(scripted, tmp_path / "out", moved)
    assert (status["state"], status["report"]["files_missing"]) == ("whole", 0)
    assert exported(scripted, moved, tmp_path / "again") == before
    assert move_in(scripted, tmp_path / "out", moved) == status

    row = api.read_conversation(moved)
    assert (row.turns, row.unread_n, row.state) == (2, 0, "idle")
    assert moved in {one.conversation for one in api.list_all().items}
    assert moved in {hit.conversation for hit in api.search(q=word).items}
    (kept,) = [file for file in api.list_files(moved).items if file.filename == name]
    assert kept.sha256 == digest

    lines = scripted.send(f"Read {word}.md", moved)
    assert word in answer_of(lines)
    assert api.read_conversation(moved).turns == 3
    assert api.read_conversation(conversation).turns == 2


def test_an_imported_conversation_occupies_its_name_and_can_be_deleted(
    scripted, conversation, api, said, tmp_path
):
    exported(scripted, conversation, tmp_path / "out")
    done = scripted.command(
        *("import", f"{tmp_path}/out", "--conversation", conversation, "--user", scripted.user), check=False
    )
    assert done.returncode
    assert "conversation_exists" in done.stderr
    moved = f"{conversation}-moved"
    move_in(scripted, tmp_path / "out", moved)
    api.delete_conversation(moved)
    assert moved not in {one.conversation for one in api.list_all().items}


def test_documents_of_the_existing_system_are_imported_and_continue(scripted, conversation, api):
    status = move_in(scripted, SAMPLE, conversation)
    assert (status["state"], status["report"]["origin"]) == ("whole", "foreign")
    assert api.read_conversation(conversation).turns == status["report"]["turns"]
    word = a_word()
    assert word in answer_of(scripted.send(f"Say {word}", conversation))
