"""A program in the loop: launched once, and settled by the objects of its run, even if a process dies on the way."""

import hashlib
import json

import pytest
from msgspec.structs import replace

from stepline.errors import DependencyError
from stepline.loop.act import act
from stepline.loop.programs.make_outcome import NOT_STARTED, RESULT, STARTED, claim_run
from stepline.model.entry import Decided, Resulted, Started
from stepline.model.path import exec_key
from stepline.model.program.execution import CollectedFile, Run, ToolEvent
from tests.support.conversation import LANE, Conversation, closings, durable, event_types, tool
from tests.support.generation import answered, called, coded

HELLO = "print('hello')"


def wrote(text, *, events=()):
    """Return a run that keeps the first promise of its contract with this text."""

    def run(job):
        body = text.encode()
        sha256 = hashlib.sha256(body).hexdigest()
        (job.spool / sha256).write_bytes(body)
        file = CollectedFile(path=job.request.contract[0].filename, sha256=sha256, size_bytes=len(body))
        return Run(
            returncode=0, seconds=0.5, program_log="hello\n", log_bytes=6, files=(file,), events=events
        )

    return run


def conversation(*script, run=None):
    found = Conversation(*script)
    found.programs(run or wrote("a,b\n1,2\n"))
    return found


def opened(*script, **fields):
    """Return a conversation whose first round has decided to run a program."""
    found = conversation(*script, **fields)
    found.send()
    step = found.decide(found.take()[1])
    return found, step


def result(conversation):
    (entry,) = conversation.entries(Resulted)
    return entry


def key(conversation, name):
    (decision,) = [entry for entry in conversation.entries(Decided) if entry.actions][:1]
    return exec_key(LANE, conversation.state.turn, decision.actions[0].call_id, name)


def test_a_program_runs_between_two_steps_and_logs_its_files():
    play = conversation(coded(HELLO, "totals.csv"), answered("done"))
    play.send()
    play.run()
    entry = result(play)
    assert (entry.status, entry.program, entry.duration_ms) == ("ok", True, 500)
    (body,) = [block.body for block in entry.blocks if block.body]
    assert play.ports.artifacts.get(body.key) == b"a,b\n1,2\n"
    assert any("Status: success" in block.text for block in entry.blocks)


def test_a_program_takes_six_steps():
    play, step = opened(coded(HELLO, "totals.csv"))
    ways = [step.route]
    for run in (play.act, play.execute, play.act):
        step = run(step)
        ways.append(step.route)
    assert ways == ["prepare", "execute", "act", "decide"]


def test_the_time_of_a_program_counts_for_the_step_that_puts_its_result():
    play, step = opened(coded(HELLO, "totals.csv"))
    ports, step = play.own_ports, play.execute(play.act(step))
    act(ports, play.agent, play.history, step)
    assert ports.ledger.consumption().exec_ms == 500


def test_a_program_gets_its_unchanged_text_and_the_files_of_its_turn():
    text = "\n# Übung\nx = '</b>'\n"
    play = conversation(
        called("react.write", {"path": "in.csv", "content": "x"}), coded(text, "a.txt"), answered("done")
    )
    play.send()
    play.run()
    (job,) = play.backends["process"].jobs
    assert job.request.code == text
    (file,) = job.request.files
    assert file.path.endswith("/outputs/in.csv")
    assert job.fetch(file.key) == b"x"
    assert "react.read" in job.request.tools


def test_a_call_without_a_usable_contract_runs_nothing_and_says_why():
    play = conversation(coded(HELLO, "../x"), answered("sorry"))
    play.send()
    play.run()
    entry = result(play)
    assert entry.error["code"] == "invalid_filename"
    assert not play.entries(Started)
    assert play.backends["process"].jobs == []


def test_a_program_that_names_a_file_not_pulled_does_not_run():
    play = conversation(coded("open('turn_old/outputs/x.csv')", "a.txt"), answered("sorry"))
    play.send()
    play.run()
    assert result(play).error["code"] == "pre_exec_pull_required"
    assert play.backends["process"].jobs == []


def test_a_deployment_without_programs_reports_that_to_the_model():
    play, step = opened(coded(HELLO, "a.txt"))
    play.forget()
    play.act(step)
    assert result(play).error["code"] == "execution_unavailable"


def test_an_absent_backend_is_an_error_of_the_run():
    play = conversation(coded(HELLO, "a.txt"), answered("sorry"))
    play.backends.clear()
    play.send()
    play.run()
    assert result(play).error["code"] == "backend_unavailable"


def test_a_backend_that_breaks_is_an_error_of_the_run():
    def broken(job):
        raise OSError("no space left")

    play = conversation(coded(HELLO, "a.txt"), answered("sorry"), run=broken)
    play.send()
    play.run()
    entry = result(play)
    assert entry.error["code"] == "sandbox_execution_failed"
    assert "no space" not in json.dumps([block.text for block in entry.blocks])


def test_a_step_that_is_tried_again_before_the_run_launches_the_same_run():
    play, step = opened(coded(HELLO, "a.txt"))
    first = play.act(step)
    again = play.act(replace(step, attempt=1))
    assert first == again
    assert len(play.entries(Started)) == 1
    play.execute(again)
    play.execute(again)
    assert len(play.backends["process"].jobs) == 1


def test_an_unclaimed_run_is_denied_and_can_never_begin():
    play, step = opened(coded(HELLO, "a.txt"))
    launched = play.act(step)
    lost = launched.__class__(**{**vars_of(launched), "error": {"Error": "Lambda.TooManyRequestsException"}})
    play.act(lost)
    assert (result(play).status, result(play).error["code"]) == ("error", NOT_STARTED)
    play.execute(launched)
    assert play.backends["process"].jobs == []


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [("Lambda.Unknown", "unverified", "unverified"), ("States.Timeout", "error", "timeout")],
)
def test_a_run_that_began_and_left_nothing_is_not_called_done(error, status, code):
    play, step = opened(coded(HELLO, "a.txt"))
    launched = play.act(step)
    call = play.state.running
    assert claim_run(play.ports.artifacts, LANE, play.state.turn, call, "another")
    play.act(launched.__class__(**{**vars_of(launched), "error": {"Error": error}}))
    assert (result(play).status, result(play).error["code"]) == (status, code)


def test_a_run_whose_state_failed_after_its_end_is_collected():
    play, step = opened(coded(HELLO, "a.txt"))
    launched = play.act(step)
    play.execute(launched)
    play.act(launched.__class__(**{**vars_of(launched), "error": {"Error": "Lambda.Unknown"}}))
    assert result(play).status == "ok"


def test_two_invocations_run_the_program_once():
    play, step = opened(coded(HELLO, "a.txt"))
    launched = play.act(step)
    play.execute(launched)
    play.execute(launched)
    assert len(play.backends["process"].jobs) == 1
    assert {name for name in (STARTED, RESULT) if play.ports.artifacts.get(key(play, name))} == {
        STARTED,
        RESULT,
    }


def test_a_store_that_fails_while_the_result_is_put_is_raised():
    play, step = opened(coded(HELLO, "a.txt"))
    launched = play.act(step)
    put = play.ports.artifacts.put

    def failing(key, body, *, mime):
        if key.endswith(RESULT):
            raise DependencyError("the store is away")
        return put(key, body, mime=mime)

    play.ports.artifacts.put = failing
    with pytest.raises(DependencyError):
        play.execute(launched)
    play.ports.artifacts.put = put
    play.act(launched)
    assert result(play).status == "unverified"


def test_a_program_that_leaves_hundreds_of_files_is_recorded_like_any_other():
    def many(job):
        run = wrote("1")(job)
        turn, body = job.request.turn, run.files[0]
        files = [
            CollectedFile(path=f"{turn}/files/{i}.txt", sha256=body.sha256, size_bytes=body.size_bytes)
            for i in range(400)
        ]
        return Run(returncode=0, files=(*run.files, *files))

    play = conversation(coded(HELLO, "a.txt"), coded(HELLO, "b.txt"), answered("done"), run=many)
    play.send()
    play.run()
    assert closings(play)[0].outcome == "completed"
    again = play.backends["process"].jobs[1]
    assert len(again.request.files) == 401


def test_clients_see_the_programs_start_and_end_and_its_tool_events():
    said = ToolEvent(type="rows", at="2026-01-01T00:00:00.000Z", tool_id="x.y", data={"count": 3})
    play = conversation(
        coded(HELLO, "a.txt", notes="Count it.", prog_name="Counter"),
        answered("done"),
        run=wrote("1", events=(said,)),
    )
    inbox = play.listen()
    play.send()
    play.run()
    kinds = event_types(inbox)
    shown = [kind for kind in kinds if kind.startswith(("code_exec", "react.tool"))]
    assert shown == [
        "react.tool.call",
        "code_exec.objective",
        "code_exec.program.name",
        "code_exec.code",
        "code_exec.contract",
        "code_exec.status",
        "code_exec.status",
        "react.tool.result",
        "react.tool.event",
        "code_exec.log",
        "code_exec.status",
    ]
    assert "chat.files" in kinds
    sent = [event for _, events in durable(inbox) for event in events]
    statuses = [event.data for event in sent if event.type == "code_exec.status"]
    assert [(data["status"], list(data.get("timings") or ())) for data in statuses] == [
        ("gen", ["codegen"]),
        ("exec", []),
        ("done", ["exec", "start", "collect"]),
    ]
    (log,) = [event for event in sent if event.type == "code_exec.log"]
    assert log.data == {"execution_id": result(play).call_id, "text": "hello\n", "log_bytes": 6}


def test_an_event_of_an_ordinary_tool_reaches_the_clients_too():
    def speak(context):
        context.emit("progress", {"percent": 50})
        from stepline.tools.context import ToolOutput

        return ToolOutput()

    play = Conversation(called("test.speak"), answered("done"))
    play.use(tool("test.speak", "pure", speak))
    inbox = play.listen()
    play.send()
    play.run()
    assert "react.tool.event" in event_types(inbox)


def vars_of(step):
    return {name: getattr(step, name) for name in step.__struct_fields__}
