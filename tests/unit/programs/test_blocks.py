from __future__ import annotations

import json
from typing import ClassVar

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.model.block import Block
from stepline.model.entry import Resulted
from stepline.model.program.execution import ToolCallRecord
from stepline.programs.blocks import CALLS_CHARS, run_blocks
from stepline.programs.envelope import lost_envelope
from stepline.programs.host import sub_call_id
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.render_entry import RESULT_PREVIEW_CHARS
from stepline.rendering.result import lean_blocks, whole_blocks
from stepline.rendering.text_form import STANDARD
from stepline.timeline.workspace import fold_files
from stepline.tools.context import ReadCaps, ToolContext
from stepline.tools.execute_code import EXECUTE
from tests.support.rendered_text import render_result
from tests.unit.programs.program_run import AT, CALL, LANE, TURN, ProgramRun, at, promised


@pytest.fixture
def program(tmp_path) -> ProgramRun:
    return ProgramRun(spool=tmp_path, contract=promised("a.csv", "b.png"))


class NoTimeline:
    plans: ClassVar = {}
    turns = (TURN,)

    def resolve(self, path):
        return ()

    def turn_blocks(self, turn):
        return ()

    def visible(self, path):
        return None


def context() -> ToolContext:
    return ToolContext(
        lane=LANE,
        turn=TURN,
        call_id=CALL,
        iteration=1,
        ts=AT,
        artifacts=MemoryArtifacts(),
        timeline=NoTimeline(),
        caps=ReadCaps(),
    )


def filled(program: ProgramRun, **fields):
    program.left("outputs/a.csv", "month,total\n")
    program.left("outputs/b.png", b"\x89PNG\r\n\x1a\n")
    program.left("files/kept.py", "x")
    return run_blocks(program.envelope(**fields), context())


def recorded(blocks: tuple[Block, ...]) -> Resulted:
    """Return the entry in which the log keeps these blocks."""
    return Resulted(
        call_id=CALL,
        tool_id=EXECUTE.tool_id,
        iteration=1,
        status="ok",
        at=AT,
        blocks=lean_blocks(blocks, f"tc:{TURN}.{CALL}.result"),
    )


def test_the_status_is_first_and_every_file_follows_by_path(program) -> None:
    blocks = filled(program)
    assert [block.path for block in blocks] == [
        f"tc:{TURN}.{CALL}.result",
        f"fi:{TURN}.outputs/a.csv",
        f"tc:{TURN}.{CALL}.view.0",
        f"fi:{TURN}.outputs/b.png",
        f"fi:{TURN}.files/kept.py",
    ]
    status, table, view, *_ = blocks
    assert status.mime == "text/markdown"
    assert status.text.startswith("Status: success\n")
    assert {block.tool_id for block in blocks} == {EXECUTE.tool_id}
    assert table.meta == {
        "artifact_path": f"fi:{TURN}.outputs/a.csv",
        "physical_path": at("outputs/a.csv"),
        "mime": "text/csv",
        "kind": "file",
        "visibility": "external",
        "tool_call_id": CALL,
        "description": "about a.csv",
        "size_bytes": 12,
        "text_symbols": 12,
        "line_count": 1,
    }
    assert view.meta == {"source_path": table.path, "source_sha256": table.body.sha256, "whole": True}
    assert "month,total" in view.text


def test_the_facts_of_a_run_are_beside_its_report(program) -> None:
    status = filled(program, seconds=0.12345, log_bytes=3, deleted=(at("outputs/old.csv"),))[0]
    assert status.meta == {
        "ok": True,
        "returncode": 0,
        "seconds": 0.123,
        "backend": "process",
        "log_bytes": 3,
        "deleted": [at("outputs/old.csv")],
        "isolation": {"backend": "process", "seccomp": True},
    }


def test_a_lost_run_has_its_report_and_nothing_else(program) -> None:
    (status,) = run_blocks(lost_envelope(program.request, "unverified", "it may have happened"), context())
    assert status.text.startswith("Status: error — unverified")
    assert status.meta["code"] == "unverified"


def test_the_next_program_of_the_turn_finds_the_files_of_this_one(program) -> None:
    older = filled(program)
    second = ProgramRun(spool=program.spool, contract=promised("a.csv"))
    second.left("outputs/a.csv", "new")
    newer = run_blocks(second.envelope(deleted=(at("outputs/b.png"),)), context())
    stored = [whole_blocks(recorded(blocks), TURN) for blocks in (older, newer)]
    files = fold_files(block for group in stored for block in group)
    assert {path: file.size_bytes for path, file in files.items()} == {
        at("outputs/a.csv"): 3,
        at("files/kept.py"): 1,
    }
    assert files[at("outputs/a.csv")].key == newer[1].body.key


def call(**fields) -> ToolCallRecord:
    known = {"tool_id": "web.search", "params": {"q": "rain"}, "status": "ok", "at": AT, "ret": '{"hits":[]}'}
    return ToolCallRecord(**(known | fields))


def test_each_call_of_a_tool_is_found_by_its_own_path(program) -> None:
    refused = call(status="error", code="tool_not_allowed", ret="", duration_ms=2, truncated=True)
    *_, asked, answered, asked_again, denied = filled(program, calls=(call(), refused))
    first, second = sub_call_id(CALL, 0), sub_call_id(CALL, 1)
    assert [(block.type, block.path) for block in (asked, answered, asked_again, denied)] == [
        ("react.tool.call", f"tc:{TURN}.{first}.call"),
        ("react.tool.result", f"tc:{TURN}.{first}.result"),
        ("react.tool.call", f"tc:{TURN}.{second}.call"),
        ("react.tool.result", f"tc:{TURN}.{second}.result"),
    ]
    assert json.loads(asked.text) == {
        "tool_id": "web.search",
        "tool_call_id": first,
        "params": {"q": "rain"},
        "ts": AT,
    }
    assert json.loads(answered.text) == {"status": "ok", "duration_ms": 0, "ret": '{"hits":[]}'}
    assert json.loads(denied.text)["code"] == "tool_not_allowed"
    assert json.loads(asked_again.text)["truncated"] is True
    assert denied.meta == {"parent": CALL, "tool_id": "web.search", "status": "error", "silent": True}


def test_very_many_calls_leave_a_bounded_record(program) -> None:
    blocks = filled(program, calls=(call(ret="x" * 4000),) * 200)
    calls = [block for block in blocks if block.meta.get("parent")]
    assert len(calls) == 400
    assert sum(len(block.text) for block in calls) < CALLS_CHARS + 200 * 400


def test_the_model_reads_the_report_the_files_and_the_previews(program) -> None:
    shown = render_result(recorded(filled(program, calls=(call(),))), TURN, last=True)
    assert "  Status: success\n" in shown
    assert f"logical_path: fi:{TURN}.outputs/b.png\nmime: image/png\n" in shown
    assert "  [TEXT FILE PREVIEW]\n" in shown
    assert f"logical_path: fi:{TURN}.files/kept.py" not in shown
    assert f"  - fi:{TURN}.files/kept.py\n" in shown
    assert f"logical_path: tc:{TURN}.{sub_call_id(CALL, 0)}" not in shown
    assert f"  - tc:{TURN}.{sub_call_id(CALL, 0)}.result web.search: ok" in shown


def test_only_blocks_that_the_model_reads_count_as_shown(program) -> None:
    *_, kept, asked, answered = blocks = filled(program, calls=(call(),))
    pieces = list(Writer(STANDARD, TURN, 1).result(1, recorded(blocks), last=True))
    shown = {piece.path for piece in pieces if piece.shows}
    assert not shown & {block.path for block in (kept, asked, answered)}
    assert blocks[0].path in shown
    assert blocks[2].meta["source_path"] in shown


def test_the_models_text_of_a_run_is_bounded(program) -> None:
    names = [f"{i}.txt" for i in range(100)]
    program.contract = promised(*names)
    for i, name in enumerate(names):
        program.left(f"outputs/{name}", f"{i}\n" * 8000)
    for i in range(500):
        program.left(f"files/{i}.txt", "x")
    blocks = run_blocks(
        program.envelope(program_log="y\n" * 8000, calls=(call(ret="z" * 4000),) * 200), context()
    )
    assert all(len(block.text) <= RESULT_PREVIEW_CHARS for block in blocks)
    assert len(render_result(recorded(blocks), TURN, last=True)) < 130_000
