"""`stepline import`, on an API on loopback: its output, and its default name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepline.local import caller
from stepline.local.command.cli import main
from tests.support.api_server import TOKEN
from tests.support.conversation import LANE, USER, Conversation
from tests.support.moved_conversation import exported, said
from tests.support.upload_server import upload_server

Run = Callable[..., Result]


@pytest.fixture
def home() -> Conversation:
    return Conversation()


@pytest.fixture
def run(home: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with upload_server(home.ports) as server:
        here = caller.Caller(url="", user=USER, home=tmp_path, token=lambda: TOKEN, api_url=server.url)
        monkeypatch.setattr(caller, "find_caller", lambda *_, **__: here)
        yield lambda *words: CliRunner().invoke(main, words)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    path = tmp_path / "all.jsonl"
    rows = [{"kind": one.kind, "payload": one.payload} for one in exported(said().ports)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_it_says_what_came_in_and_which_files_did_not(run: Run, documents: Path) -> None:
    result = run("import", f"{documents}", "--conversation", "moved")
    assert result.exit_code == 0, result.output
    first, *_, last = result.stdout.splitlines()
    assert first.startswith("moved: 2 turns, ")
    assert last == "2 files without content"


def test_without_a_name_the_same_documents_have_the_same_one(
    run: Run, documents: Path, home: Conversation
) -> None:
    first, again = (json.loads(run("import", f"{documents}", "--json").stdout) for _ in range(2))
    assert first == again
    assert first["conversation"].startswith("import-")
    listed = home.log.conversations(LANE.tenant, LANE.project, USER)
    assert [row.lane.conversation for row in listed] == [first["conversation"]]


def test_a_refusal_is_an_error_with_its_code(run: Run, documents: Path, home: Conversation) -> None:
    home.send("hello")
    result = run("import", f"{documents}", "--conversation", LANE.conversation)
    assert (result.exit_code, result.stderr.split(":")[:2]) == (1, ["error", " conversation_exists"])
    assert run("import", f"{documents}", "--of", "c-9").exit_code == 1
