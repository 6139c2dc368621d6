"""`stepline delete`, `stepline export-user` and `stepline erasures`, on an API on loopback and on moto."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest
from click import testing
from click.testing import CliRunner, Result
from msgspec.structs import replace

from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import batch_sk, log_pk
from stepline.ingress.delete import apply_deletion
from stepline.local import caller, user_archive
from stepline.local.command.cli import main
from stepline.local.command.tenancy.erasing import open_erasure
from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.aws import Aws, moto
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called
from tests.support.log_builder import LogBuilder

WRITTEN = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}
Run = Callable[..., Result]


@pytest.fixture
def talk() -> Conversation:
    conversation = Conversation(called("react.write", WRITTEN), answered("One."))
    conversation.send("question")
    conversation.run()
    return conversation


@pytest.fixture
def run(talk: Conversation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    with served(ApiServer(Caller(talk.ports))) as url:
        here = caller.Caller(url="", user=USER, home=tmp_path, token=lambda: TOKEN, api_url=url)
        monkeypatch.setattr(caller, "find_caller", lambda *_, **__: here)
        yield lambda *words, **more: CliRunner().invoke(main, words, **more)


def parsed(result: Result) -> dict[str, object]:
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def test_a_conversation_is_deleted_and_deleting_it_again_says_the_same(run):
    first = parsed(run("delete", LANE.conversation, "--yes", "--json"))
    assert (first["conversation"], first["state"]) == (LANE.conversation, "pending")
    assert parsed(run("delete", LANE.conversation, "--yes", "--json")) == first


@pytest.fixture
def terminal(monkeypatch):
    """Make standard input of commands a terminal."""
    monkeypatch.setattr(testing._NamedTextIOWrapper, "isatty", lambda _: True, raising=False)


@pytest.mark.parametrize("more", [(), ("--yes",)])
@pytest.mark.usefixtures("terminal")
def test_a_missing_conversation_is_an_error_without_a_question(run, more):
    result = run("delete", "none", *more, input="y\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: not_found: there is no conversation none\n"


@pytest.mark.usefixtures("terminal")
def test_a_deletion_needs_a_confirmation(run, talk):
    declined = run("delete", LANE.conversation, input="n\n")
    assert (declined.exit_code, declined.stderr.splitlines()[-1]) == (
        1,
        "error: not_confirmed: nothing was deleted",
    )
    assert not talk.state.deleted
    assert run("delete", LANE.conversation, input="y\n").exit_code == 0
    assert talk.state.deleted


@pytest.mark.parametrize("words", [(LANE.conversation,), ("--everything",)])
def test_without_a_terminal_a_deletion_needs_yes(run, talk, words):
    result = run("delete", *words, input="y\n")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: not_confirmed: ")
    assert "--yes" in result.stderr
    assert not talk.state.deleted


@pytest.mark.parametrize("words", [[], [LANE.conversation, "--everything"]])
def test_one_conversation_is_named_or_everything_meant(run, words):
    assert run("delete", *words, "--yes").exit_code == 2


def test_a_user_asks_for_the_erasure_of_everything(run):
    assert parsed(run("delete", "--everything", "--yes", "--json"))["user"] == USER


def test_a_user_s_zip_has_everything(run, tmp_path, monkeypatch):
    monkeypatch.setattr(user_archive, "fetch_file", lambda _: b"# A")
    made = parsed(run("export-user", str(tmp_path / "me.zip"), "--json"))
    assert (made["conversations"], made["files"]) == (1, 1)
    with ZipFile(tmp_path / "me.zip") as archive:
        names = archive.namelist()
        folder = f"conversations/{LANE.conversation}"
        (file,) = [name for name in names if name.startswith(f"{folder}/files/")]
        assert archive.read(file) == b"# A"
        assert file.endswith("/outputs/a.md")
        assert {"index.json", "limits.json", f"{folder}/receipts.json"} <= set(names)
        said = [json.loads(line)["text"] for line in archive.read(f"{folder}/memory.jsonl").splitlines()]
        assert {"question", "One."} <= set(said)
        assert json.loads(archive.read("index.json"))["user"] == USER
        assert any("/documents/" in name and "turn_" in name for name in names)


def test_a_file_that_is_not_what_the_log_says_is_named_as_missing(run, tmp_path, monkeypatch):
    monkeypatch.setattr(user_archive, "fetch_file", lambda _: b"spoilt")
    result = run("export-user", str(tmp_path / "me.zip"))
    assert (result.exit_code, result.stderr.split(":")[1].strip()) == (1, "file_not_fetched")
    with ZipFile(tmp_path / "me.zip") as archive:
        (missing,) = json.loads(archive.read("index.json"))["missing"]
    assert missing.endswith("/outputs/a.md")


def test_an_existing_file_is_not_replaced(run, tmp_path):
    path = tmp_path / "me.zip"
    path.write_text("mine")
    assert run("export-user", str(path)).exit_code == 1
    assert path.read_text() == "mine"


def test_a_restored_table_loses_again_what_was_deleted():
    with moto():
        aws = Aws()
        builder = LogBuilder()
        builder.message("secret")
        builder.answer("of ada")
        builder.close()
        for batch in builder.batches:
            DynamoLog(aws.table).put(LANE, replace(batch, state=replace(batch.state, owner="ada")))
        before = aws.table.client.scan(TableName=aws.name)["Items"]
        ports, _ = open_erasure(aws.name, aws.name)
        apply_deletion(ports, LANE, "ada")
        words = ("--table", aws.name, "--bucket", aws.name, "--json")
        assert parsed(CliRunner().invoke(main, ["erasures", "apply", *words]))["failed"] == 0
        (row,) = CliRunner().invoke(main, ["erasures", "list", *words]).stdout.splitlines()
        assert json.loads(row)["state"] == "pending"

        for item in aws.table.client.scan(TableName=aws.name)["Items"]:
            aws.table.delete(item["pk"]["S"], item["sk"]["S"])
        for item in before:
            aws.table.put(item)
        (row,) = CliRunner().invoke(main, ["erasures", "list", *words]).stdout.splitlines()
        assert json.loads(row)["state"] == "missing"
        assert parsed(CliRunner().invoke(main, ["erasures", "apply", *words]))["buried"] == 1
        left = aws.table.client.scan(TableName=aws.name)["Items"]
        assert not any("secret" in str(item) or "of ada" in str(item) for item in left)
        assert aws.table.get(log_pk(LANE), batch_sk(1), consistent=True) is None
