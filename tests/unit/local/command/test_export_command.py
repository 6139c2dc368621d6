"""`stepline export`: the documents of a conversation, printed or in a folder."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.errors import NotFoundError
from stepline.local import caller
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.local.command.content.export import exports
from stepline.model.ids import make_lane
from tests.support.log_builder import LogBuilder

LANE = make_lane(caller.TENANT, caller.PROJECT, "c1")


@pytest.fixture
def log() -> MemoryLog:
    builder = LogBuilder()
    builder.message("hello")
    builder.answer("there\x1b[2J\x9b2J\u202e")
    builder.close()
    log = MemoryLog()
    for batch in builder.batches:
        log.put(LANE, batch)
    return log


@pytest.fixture
def run(log, monkeypatch):
    monkeypatch.setattr(caller, "find_stage", lambda: None)
    monkeypatch.setattr(logview, "open_log", lambda _: (log, MemoryArtifacts()))
    return lambda *words: CliRunner().invoke(main, ["export", *words])


def test_a_conversation_is_printed_one_document_a_line(run):
    done = run("c1")
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.exit_code == 0
    assert done.stdout.replace("\n", "").isprintable()
    assert [one["kind"] for one in documents] == [
        *("artifact:conv.timeline.v1", "artifact:conv:sources_pool", "artifact:turn.log")
    ]
    assert documents[0]["payload"]["conversation_title"] == "hello"


def test_one_turn_is_one_document(run):
    (line,) = run("c1", "--turn", "turn_0001").stdout.splitlines()
    assert json.loads(line)["payload"]["turn_id"] == "turn_0001"


def test_with_json_the_file_of_a_document_is_one_object_a_line(run, tmp_path):
    lines = [json.loads(line) for line in run("c1", "--out", str(tmp_path), "--json").stdout.splitlines()]
    assert lines[0] == {"kind": "artifact:conv.timeline.v1", "path": str(tmp_path / "conv.timeline.v1.json")}


def test_documents_are_files_of_a_folder(run, tmp_path):
    out = tmp_path / "out"
    printed = run("c1", "--out", str(out)).stdout.splitlines()
    names = ["conv.timeline.v1.json", "conv.sources_pool.json", "turn.log/turn_0001.json"]
    assert printed == [str(out / name) for name in names]
    assert json.loads((out / names[2]).read_text())["turn_id"] == "turn_0001"


@pytest.mark.parametrize(
    ("words", "code"), [(("c2",), "not_found"), (("c1", "--turn", "t"), "turn_not_found")]
)
def test_what_is_not_there_is_said_in_a_line(run, words, code):
    done = run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {code}: ")


def test_a_place_where_nothing_can_be_written_is_said_in_a_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file/below", "/proc/nowhere"):
        done = run("c1", "--out", str(place))
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: not_writable: {place}/")
        assert done.stderr.count("\n") == 1


def test_a_conversation_that_is_not_there_has_no_documents():
    with pytest.raises(NotFoundError):
        exports(MemoryLog(), MemoryArtifacts(), LANE)
