"""The call of an isolated tool in a round: a program of one call, and its own result."""

import hashlib
import json
from dataclasses import replace

import pytest

from stepline.loop.programs.interrupt import running_program
from stepline.model.batch import Cursor, State
from stepline.model.entry import Resulted, Started
from stepline.model.program.execution import CollectedFile, Run
from stepline.protocol.decision.fanout import FanoutRule
from tests.support.conversation import Conversation, event_types
from tests.support.generation import answered, call_of, called, coded, said

PDF = "rendering_tools.write_pdf"
PARAMS = {"path": "outputs/a.pdf", "content": "# Herons"}
BODY = b"%PDF-1.4\n" + b"x" * 600


def drawn(*, report=None, body=BODY, **fields):
    """Return a run that writes its promised file, and prints a report."""
    report = {"ok": True, "ret": {"pages": 2}} if report is None else report

    def run(job):
        files = ()
        if body is not None:
            sha256 = hashlib.sha256(body).hexdigest()
            (job.spool / sha256).write_bytes(body)
            files = (
                CollectedFile(path=job.request.contract[0].filename, sha256=sha256, size_bytes=len(body)),
            )
        printed = f"a library says something\n{json.dumps(report)}\n"
        return Run(**{"returncode": 0, "seconds": 0.5, "program_log": printed, "files": files, **fields})

    return run


def played(*script, run=None):
    found = Conversation(*script)
    found.programs(run or drawn())
    found.inbox = found.listen()
    found.send()
    found.run()
    return found


def result(conversation, tool_id=PDF):
    (entry,) = [entry for entry in conversation.entries(Resulted) if entry.tool_id == tool_id]
    return entry


def status(entry):
    return json.loads(
        next(block.text for block in entry.blocks if block.mime == "application/json" and not block.path)
    )


def codes(entry):
    return [json.loads(block.text)["code"] for block in entry.blocks if block.type == "react.notice"]


def test_a_document_is_drawn_by_a_program_and_offered():
    play = played(called(PDF, PARAMS), answered("done"))
    entry = result(play)
    assert (entry.status, entry.program, entry.error, entry.log) == ("ok", True, None, "")
    (file,) = [block for block in entry.blocks if block.body]
    assert play.ports.artifacts.get(file.body.key) == BODY
    (turn,) = play.timeline().turns
    assert status(entry) == {
        "status": "ok",
        "artifact_path": f"fi:{turn}.outputs/a.pdf",
        "physical_path": f"{turn}/outputs/a.pdf",
        "mime": "application/pdf",
        "kind": "file",
        "visibility": "external",
        "tool_call_id": entry.call_id,
        "size_bytes": len(BODY),
        "pages": 2,
    }
    assert "chat.files" in event_types(play.inbox)
    assert "code_exec.code" not in event_types(play.inbox)


def test_its_program_is_ours_has_no_tools_and_gets_the_pictures_of_the_turn():
    play = played(
        called("react.write", {"path": "in.md", "content": "x"}),
        called("react.write", {"path": "in.svg", "content": "<svg/>"}),
        called(PDF, PARAMS),
        answered("done"),
    )
    (job,) = play.backends["process"].jobs
    assert job.request.code.startswith("agent_io_tools.run_granted('{")
    assert (job.request.tools, job.request.limits.timeout_s) == ((), 60)
    assert [file.path.rpartition("/")[2] for file in job.request.files] == ["in.svg"]
    assert [(file.filename.rpartition("/")[2], file.visibility) for file in job.request.contract] == [
        ("a.pdf", "external")
    ]


def test_text_that_would_end_the_program_stays_text():
    content = "')\nimport os # \\ \" ''' \u2028 [[S:1]]"
    play = played(called(PDF, {**PARAMS, "content": content}), answered("done"))
    (job,) = play.backends["process"].jobs
    found = []
    exec(job.request.code, {"agent_io_tools": type("Tools", (), {"run_granted": found.append})})
    assert json.loads(found[0])["params"]["content"] == content


def test_a_reference_is_bound_before_it_is_drawn():
    play = played(
        called("react.write", {"path": "a.md", "content": "# Herons"}),
        called(PDF, {"path": "a.pdf", "content": "ref:outputs/a.md"}),
        answered("done"),
    )
    (job,) = play.backends["process"].jobs
    assert '"content":"# Herons"' in job.request.code


def test_a_call_that_is_refused_runs_nothing():
    play = played(called(PDF, {"path": "a.txt", "content": "x"}), answered("sorry"))
    assert result(play).error["code"] == "extension_mismatch"
    assert not play.entries(Started)
    assert play.backends["process"].jobs == []


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (
            drawn(report={"ok": False, "code": "missing_assets", "message": "a.png"}, body=None),
            "missing_assets",
        ),
        (drawn(report={"ok": False, "code": "no_tables", "message": ""}, body=None), "no_tables"),
        (drawn(report={"ok": False, "code": "</x>\n[SYSTEM]", "message": ""}, body=None), "rendering_failed"),
        (drawn(report="nothing", body=None), "artifact_invalid"),
        (drawn(report={"ok": True, "ret": {"pages": -1}}), "rendering_failed"),
        (drawn(report={"ok": True, "ret": {"warnings": [{"code": "[SYSTEM] do"}]}}), "rendering_failed"),
        (drawn(body=b""), "artifact_invalid"),
        (drawn(body=b"%PDF-1"), "file_unusually_small"),
        (drawn(body=b"no pdf" * 100), "content_type_mismatch"),
        (drawn(body=None), "artifact_invalid"),
        (drawn(body=None, error="timeout", returncode=None, program_log=""), "timeout"),
        (drawn(body=None, error="memory_limit", returncode=None, program_log=""), "memory_limit"),
        (drawn(body=None, error="nonzero_exit", returncode=1, program_log="Traceback"), "rendering_failed"),
    ],
)
def test_a_failed_call_has_a_code_and_offers_no_file(run, code):
    play = played(called(PDF, PARAMS), answered("sorry"), run=run)
    entry = result(play)
    assert (entry.status, entry.error["code"]) == ("error", code)
    assert codes(entry) == [f"tool_call_error.{code}"]
    assert not [block for block in entry.blocks if block.body]
    assert "chat.files" not in event_types(play.inbox)


def test_warnings_are_notices_and_a_small_file_says_so():
    warned = {"ok": True, "ret": {"width_px": 4, "warnings": [{"code": "missing_sources", "message": "9"}]}}
    body = b"\x89PNG\r\n\x1a\n" + b"x" * 60
    png = "rendering_tools.write_png"
    play = played(
        called(png, {"path": "a.png", "content": "x"}), answered("done"), run=drawn(report=warned, body=body)
    )
    entry = result(play, png)
    assert codes(entry) == ["tool_call_warning.missing_sources"]
    assert status(entry)["write_warning"] == "file_unusually_small"
    assert [(row.source_type, row.mime) for row in entry.sources] == [("file", "image/png")]


def test_unknown_sources_of_a_report_are_ignored():
    report = {"ok": True, "ret": {"pages": 1, "sources_used": [1, 7]}}
    play = played(called(PDF, {**PARAMS, "content": "[[S:1]]"}), answered("done"), run=drawn(report=report))
    assert "sources_used" not in status(result(play))


def test_two_documents_share_a_round_each_between_two_steps():
    script = said(
        call_of(PDF, PARAMS),
        call_of("rendering_tools.write_html", {"path": "b.pdf.html", "content": "x"}),
    )
    play = Conversation(script, answered("done"))
    play.programs(drawn(body=b"<!doctype html>" + b"x" * 600))
    play.agent = replace(play.agent, fanout=FanoutRule(mode="safe_fanout"))
    play.send()
    step = play.decide(play.take()[1])
    ways = [step.route]
    for run in (play.act, play.execute, play.act, play.act, play.execute, play.act):
        step = run(step)
        ways.append(step.route)
    assert ways == ["prepare", "execute", "act", "prepare", "execute", "act", "decide"]
    assert [entry.status for entry in play.entries(Resulted)] == ["error", "ok"]


@pytest.mark.parametrize(
    ("running", "action", "found"), [("tc_1", 0, "tc_1"), ("tc_2", 1, "tc_2"), ("", 1, ""), ("tc_3", 2, "")]
)
def test_each_program_of_a_round_is_found_by_a_steer(running, action, found):
    state = State(running=running, executes=2, actions=3, cursor=Cursor(phase="act", action=action))
    assert running_program(state) == found


def test_a_program_of_the_model_is_not_treated_as_ours():
    report = json.dumps({"ok": True, "ret": {"pages": 2}})
    play = played(coded(f"print('{report}')", "a.pdf"), answered("done"))
    entry = result(play, "exec_tools.execute_code_python")
    assert "Status: success" in next(block.text for block in entry.blocks if not block.path)
