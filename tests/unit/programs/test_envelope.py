from __future__ import annotations

import msgspec
import pytest

from stepline.model.path import out_key
from stepline.model.program.execution import ToolCallRecord, ToolEvent, WorkFile
from stepline.model.source import Source
from stepline.programs.envelope import (
    RUNTIME_TAIL_CHARS,
    STDERR_TAIL_CHARS,
    TRACEBACK_CHARS_MAX,
    USER_TAIL_CHARS,
    error_lines,
    last_exception,
    lost_envelope,
    output_bodies,
    tail,
    tracebacks,
)
from stepline.programs.outcome import Envelope
from tests.unit.programs.program_run import AT, CALL, LANE, TURN, ProgramRun, at, promised, workbook

MANDATORY = {
    *("ok", "artifacts", "items", "error", "report_text", "errors", "succeeded", "result_filename"),
    *("user_out_tail", "runtime_err_tail", "user_error_lines", "user_tracebacks"),
    *("runtime_error_lines", "runtime_tracebacks"),
}
TRACE = 'Traceback (most recent call last):\n  File "user_code.py", line 3, in <module>\n    f()\nValueError: bad month'


@pytest.fixture
def program(tmp_path) -> ProgramRun:
    return ProgramRun(spool=tmp_path, contract=promised("a.csv"))


def stored(envelope) -> dict:
    return msgspec.json.decode(msgspec.json.encode(envelope))


def test_a_success_has_no_error_and_names_its_files(program) -> None:
    program.left("outputs/a.csv", "1,2\n")
    envelope = program.envelope(program_log="done\n", log_bytes=5, seconds=0.25)
    found = stored(envelope)
    output = {
        "path": at("outputs/a.csv"),
        "logical_path": f"fi:{TURN}.outputs/a.csv",
        "size_bytes": 4,
        "sha256": program.files[0].sha256,
    }
    assert (envelope.ok, envelope.code, envelope.message, found["error"]) == (True, "", "", None)
    assert found["result_filename"] == f"exec_result_{CALL}.json"
    assert found["artifacts"] == [
        {
            "resource_id": "artifact:a",
            "output": output,
            "type": "file",
            "mime": "text/csv",
            "description": "about a.csv",
            "visibility": "external",
        }
    ]
    assert found["items"] == [
        {
            "artifact_id": "a",
            "output": output,
            "artifact_kind": "file",
            "filename": at("outputs/a.csv"),
            "visibility": "external",
        }
    ]
    assert (found["user_out_tail"], found["backend"], found["seconds"]) == ("done\n", "process", 0.25)


def runs(program: ProgramRun):
    """Yield one envelope of every way a run can end."""
    request = program.request
    yield lost_envelope(request, "unverified", "it may have happened")
    yield lost_envelope(request, "timeout", "cut off")
    yield lost_envelope(request, "sandbox_execution_failed", "broken")
    for error in ("timeout", "nonzero_exit", "isolation_failed", "docker_unavailable", "collect_failed"):
        yield program.envelope(error=error, returncode=None)
    yield program.envelope(returncode=3, program_log=TRACE)
    yield program.envelope()
    program.left("outputs/a.csv", "1")
    yield program.envelope()


def test_every_end_has_the_same_keys(program) -> None:
    every = [stored(envelope) for envelope in runs(program)]
    assert {frozenset(one) for one in every} == {frozenset(every[0])}
    assert every[0].keys() >= MANDATORY
    assert {frozenset(one["error"]) for one in every if one["error"]} == {
        frozenset({"where", "code", "message", "error", "description", "managed", "details"})
    }
    assert [one["ok"] for one in every] == [False] * (len(every) - 1) + [True]
    assert all(one["report_text"].startswith("Status: ") for one in every)


def test_a_stored_envelope_is_read_back_unchanged(program) -> None:
    for envelope in runs(program):
        assert msgspec.json.decode(msgspec.json.encode(envelope), type=Envelope) == envelope


def test_a_lost_run_says_why_and_accuses_no_file(program) -> None:
    envelope = lost_envelope(program.request, "unverified", "it may have happened")
    assert (envelope.code, envelope.message) == ("unverified", "it may have happened")
    assert (envelope.errors, envelope.files, envelope.seconds) == ((), (), 0.0)
    assert envelope.report_text.startswith("Status: error — unverified: it may have happened\n")


def test_a_program_failure_precedes_missing_and_invalid_files(program) -> None:
    program.contract = promised("a.csv", "b.xlsx")
    program.left("outputs/b.xlsx", workbook("hidden"))
    both = program.envelope(error="timeout", message="it ran for 600 s", returncode=-9)
    missing = program.envelope()
    program.left("outputs/a.csv", "1")
    broken = program.envelope()
    assert [one.code for one in (both, missing, broken)] == [
        "timeout",
        "missing_output_files",
        "artifact_validation_failed",
    ]
    details = both.error.details
    assert details["missing"] == [at("outputs/a.csv")]
    assert [one["code"] for one in details["errors"]] == ["artifact_invalid"]
    assert details["run"]["returncode"] == -9
    assert [one.code for one in both.errors] == ["missing_file", "artifact_invalid"]
    assert [one.filename for one in broken.succeeded] == [at("outputs/a.csv")]


@pytest.mark.parametrize(
    ("fields", "code", "message"),
    [
        ({"error": "nonzero_exit", "returncode": 1, "program_log": TRACE}, "nonzero_exit", "ValueError: bad month — exit status 1"),
        ({"error": "nonzero_exit", "returncode": 2, "program_log": "x\nerror: no data\n"}, "nonzero_exit", "error: no data — exit status 2"),
        ({"error": "nonzero_exit", "returncode": 3, "message": "killed"}, "nonzero_exit", "killed — exit status 3"),
        ({"error": "timeout: 600 s", "returncode": 124, "message": "ended after 600 s"}, "timeout", "ended after 600 s"),
        ({"error": "isolation_failed", "returncode": 126}, "isolation_failed", "exit status 126"),
        ({"returncode": 5}, "execution_failed", "exit status 5"),
        ({"returncode": None}, "execution_failed", "it left no exit status"),
    ],
)  # fmt: skip
def test_a_failed_run_is_named_by_its_code_and_its_last_words(program, fields, code, message) -> None:
    program.left("outputs/a.csv", "1")
    envelope = program.envelope(**fields)
    assert (envelope.ok, envelope.code, envelope.message) == (False, code, message)


def test_a_program_that_ends_well_is_a_success_whatever_it_printed(program) -> None:
    program.left("outputs/a.csv", "1")
    envelope = program.envelope(program_log=TRACE)
    assert envelope.ok
    assert envelope.user_tracebacks == (TRACE,)
    assert "Warning: it ended with 0, but its log holds 1 traceback" in envelope.report_text


def test_long_logs_are_kept_by_their_ends(program) -> None:
    lines = "".join(f"line {i}\n" for i in range(10_000))
    envelope = program.envelope(program_log=lines, runtime_log=lines, error="timeout", returncode=124)
    assert len(envelope.user_out_tail) <= USER_TAIL_CHARS
    assert USER_TAIL_CHARS < len(envelope.runtime_err_tail) <= RUNTIME_TAIL_CHARS
    assert len(envelope.error.details["stderr_tail"]) <= STDERR_TAIL_CHARS
    assert envelope.user_out_tail.startswith("line ")
    assert envelope.user_out_tail.endswith("line 9999\n")


def test_bodies_are_named_by_their_content_and_stored_once(program) -> None:
    program.contract = promised("a.csv", "b.csv", "kept.csv", "gone.csv")
    before = WorkFile(
        path=at("outputs/kept.csv"), key="out/k", sha256="ab" * 32, size_bytes=9, mime="text/csv"
    )
    program.inputs = (before,)
    program.left("outputs/a.csv", "same")
    program.left("outputs/b.csv", "same")
    program.left("outputs/other.csv", "other")
    fields = {"unchanged": (before.path,)}
    bodies = output_bodies(program.request, program.judge(**fields), program.spool)
    assert {body.key: path.read_text() for path, body in bodies} == {
        out_key(LANE, TURN, file.sha256): text
        for file, text in zip(program.files[1:], ("same", "other"), strict=True)
    }
    files = {file.path: file for file in program.envelope(**fields).files}
    assert {path.rpartition("/")[2] for path in files} == {"a.csv", "b.csv", "kept.csv", "other.csv"}
    assert files[before.path].body.key == "out/k"
    named = {file.body.key for file in files.values()} - {"out/k"}
    assert named == {body.key for _, body in bodies}


def test_tool_calls_are_passed_on(program) -> None:
    call = ToolCallRecord(tool_id="web.search", params={"q": 1}, status="ok", at=AT)
    event = ToolEvent(type="note", at=AT)
    row = Source(sid=3, title="Prices", url="https://e.example/prices")
    deleted = (at("outputs/old.csv"),)
    envelope = program.envelope(calls=(call,), events=(event,), sources=(row,), deleted=deleted)
    assert (envelope.calls, envelope.events) == ((call,), (event,))
    assert (envelope.sources, envelope.deleted) == ((row,), deleted)
    assert msgspec.json.decode(msgspec.json.encode(envelope), type=Envelope).sources == (row,)


def test_lines_of_errors_are_found_once_each_without_noise() -> None:
    log = """loading
ERROR first
  KeyError: 'x'
terror
ERROR first
RuntimeError: Event loop is closed
Exception in thread 1
"""
    assert error_lines(log) == ("KeyError: 'x'", "ERROR first", "Exception in thread 1")


def test_tracebacks_are_cut_out_of_a_log() -> None:
    log = f"start\n{TRACE}\nmore\n{TRACE}\nTraceback (most recent call last):\n  File"
    assert tracebacks(log) == (TRACE, "Traceback (most recent call last):\n  File")
    assert last_exception(log) == "ValueError: bad month"
    assert last_exception(TRACE) == "ValueError: bad month"
    assert last_exception("no") == ""


def test_a_long_traceback_keeps_both_its_ends() -> None:
    frames = "\n".join(f"  File {i}" for i in range(2000))
    (shown,) = tracebacks(f"Traceback (most recent call last):\n{frames}\nRecursionError: deep")
    assert len(shown) <= TRACEBACK_CHARS_MAX + 3
    assert shown.startswith("Traceback")
    assert shown.endswith("RecursionError: deep")


@pytest.mark.parametrize(
    ("text", "end"), [("abc", "abc"), ("12\n3\nbcdef", "3\nbcdef"), ("x" * 9 + "y\nz", "xxxxy\nz")]
)
def test_a_tail_begins_with_a_line_if_that_is_cheap(text, end) -> None:
    assert tail(text, 7) == end
