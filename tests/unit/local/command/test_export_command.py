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
from stepline.local.exported_files import plan_files
from stepline.model.ids import make_lane
from stepline.timeline.export import Export
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
def test_a_missing_conversation_or_turn_is_reported_on_one_line(run, words, code):
    done = run(*words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {code}: ")


def test_an_unwritable_folder_is_reported_on_one_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file/below", "/proc/nowhere"):
        done = run("c1", "--out", str(place))
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith(f"error: not_writable: {place}")
        assert done.stderr.count("\n") == 1


def test_an_export_replaces_files_with_overwrite_alone(run, tmp_path):
    mine = tmp_path / "turn.log/turn_0001.json"
    mine.parent.mkdir()
    mine.write_text("mine")
    refused = run("c1", "--out", str(tmp_path))
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"error: file_exists: {mine} ")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]
    assert mine.read_text() == "mine"
    assert run("c1", "--out", str(tmp_path), "--overwrite").exit_code == 0
    assert json.loads(mine.read_text())["turn_id"] == "turn_0001"


def test_a_missing_conversation_has_no_documents():
    with pytest.raises(NotFoundError):
        exports(MemoryLog(), MemoryArtifacts(), LANE)


def test_a_file_whose_content_a_result_repeats_has_its_own_name():
    body = {"sha256": "a", "key": f"out/{LANE.tenant}/{LANE.project}/a"}
    blocks = [{"path": "fi:t.outputs/a.png", "body": body}, {"path": "tc:t.tc_1.view.1", "body": body}]
    document = Export(kind="artifact:turn.log", tags=(), text="", payload={"turn_id": "t", "blocks": blocks})
    names = list(plan_files([document], MemoryArtifacts(), LANE))
    assert names == ["turn.log/t.json", "files/t/outputs/a.png"]
