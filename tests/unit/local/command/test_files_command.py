"""`stepline files`, on an API on loopback."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stepline.adapters.memory.grant import MemoryGrants
from stepline.local import caller, user_archive
from stepline.local.command.cli import main
from stepline.model.program.handover import ObjectGrant
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

Run = Callable[..., Result]
REPORT = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
HIDDEN = {"path": "outputs/.env", "channel": "canvas", "content": "x", "kind": "file"}
NAME = LANE.conversation


@pytest.fixture
def talk() -> Conversation:
    """Return a conversation of two turns that wrote the same file; the first one also wrote a hidden file."""
    talk = Conversation(
        *(called("react.write", REPORT), called("react.write", HIDDEN), answered("One.")),
        *(called("react.write", {**REPORT, "content": "# BB"}), answered("Two.")),
    )
    for text in ("one", "two"):
        talk.send(text, id=text)
        talk.run()
    return talk


@pytest.fixture
def run(talk: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    def fetch(url: str) -> bytes:
        assert isinstance(talk.ports.grants, MemoryGrants)
        return talk.ports.grants.fetch(ObjectGrant(url=url))[0]

    monkeypatch.setattr(user_archive, "fetch_file", fetch)
    with served(ApiServer(Caller(talk.ports))) as url:
        here = caller.Caller(url="", user=USER, home=tmp_path, token=lambda: TOKEN, api_url=url)
        monkeypatch.setattr(caller, "find_caller", lambda *_, **__: here)
        yield lambda *words: CliRunner().invoke(main, ["files", *words])


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_are_listed_by_name_turn_size_and_type(run: Run, talk: Conversation) -> None:
    first, second = talk.timeline().turns
    assert [line.split() for line in run(NAME).stdout.splitlines()] == [
        ["outputs/a.md", second, "4", "bytes", "text/markdown"],
        ["outputs/_env", first, "1", "byte", "text/plain"],
        ["outputs/a.md", first, "3", "bytes", "text/markdown"],
    ]
    rows = [json.loads(line) for line in run(NAME, "--turn", second, "--json").stdout.splitlines()]
    assert [(row["logical_path"], row["size_bytes"]) for row in rows] == [(f"fi:{second}.outputs/a.md", 4)]


def test_files_are_written_by_turn_and_name(run: Run, talk: Conversation, tmp_path: Path) -> None:
    first, second = talk.timeline().turns
    out = tmp_path / "out"
    done = run(NAME, "--out", str(out))
    assert written(out) == {
        f"{first}/outputs/a.md": b"# A",
        f"{first}/outputs/_env": b"x",
        f"{second}/outputs/a.md": b"# BB",
    }
    assert sorted(done.stdout.splitlines()) == sorted(str(out / name) for name in written(out))


def test_an_existing_file_is_replaced_with_overwrite_alone(
    run: Run, talk: Conversation, tmp_path: Path
) -> None:
    mine = tmp_path / talk.timeline().turns[1] / "outputs/a.md"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    refused = run(NAME, "--out", str(tmp_path))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: file_exists: {mine} ")
    assert "--overwrite" in refused.stderr
    assert written(tmp_path) == {str(mine.relative_to(tmp_path)): b"mine"}
    assert run(NAME, "--out", str(tmp_path), "--overwrite").exit_code == 0
    assert mine.read_bytes() == b"# BB"


def test_a_file_that_cannot_be_fetched_is_an_error_after_the_others(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch = user_archive.fetch_file
    monkeypatch.setattr(user_archive, "fetch_file", lambda url: fetch(url).replace(b"# BB", b"spoilt"))
    done = run(NAME, "--out", str(tmp_path / "out"))
    assert (done.exit_code, len(done.stdout.splitlines())) == (1, 2)
    assert done.stderr == "error: file_not_fetched: 1 file could not be fetched\n"


def test_a_conversation_that_does_not_exist_has_no_files(run: Run) -> None:
    refused = run("none")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "error: not_found: there is no conversation none\n"


def test_the_folder_may_not_be_a_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    refused = run(NAME, "--out", str(tmp_path / "file"))
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: not_writable: ")
    assert (tmp_path / "file").read_text() == "mine"
