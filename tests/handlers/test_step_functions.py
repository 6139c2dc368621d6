import subprocess
import sys
from typing import Any

import pytest

from lambdas import act, close, decide, socket, sweeper
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Fail
from stepline.adapters.memory.task import MemoryTasks
from stepline.errors import DependencyError, Fenced, ModelTimeout, SteplineError
from stepline.model.entry import Closed
from stepline.model.ids import Lane, execution_name
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.support.generation import BROKEN, answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
STATES: dict[str, Any] = {"decide": decide.handler, "act": act.handler, "close": close.handler}


def opened(runtime: LambdaRuntime, *script: str | Fail) -> dict[str, Any]:
    """Let a message open a turn; return the event of its first state."""
    runtime.model.add(*script)
    runtime.call(socket.handler, recorded("connect"))
    runtime.call(socket.handler, recorded("message"))
    event = recorded("step")
    assert event["step"]["turn"] == runtime.app.ports.machine.queue[0][1].turn  # type: ignore[attr-defined]  # the memory twin's own
    return event


def run(runtime: LambdaRuntime, event: dict[str, Any]) -> list[str]:
    """Act as the state machine; return the states in the order in which they ran."""
    state, ran = "decide", []
    while state in STATES:
        ran.append(state)
        step = runtime.call(STATES[state], event)
        event = {"step": step, "attempt": 0}
        state = "decide" if state == "act" else step["route"]
    return [*ran, state]


def test_a_turn_passes_its_states_and_is_counted(runtime: LambdaRuntime) -> None:
    write = {"path": "a.md", "channel": "canvas", "content": "secret file", "kind": "file"}
    event = opened(runtime, called("react.write", write, notes="secret note"), answered("secret answer"))
    assert run(runtime, event) == ["decide", "act", "decide", "close", "done"]
    counted = runtime.metrics()
    assert {name: counted[name] for name in ("RoundsDecided", "ToolCalls", "TurnsClosed")} == {
        "RoundsDecided": 2,
        "ToolCalls": 1,
        "TurnsClosed": 1,
    }
    assert counted["InputTokens"] > 0


def test_every_log_line_is_json_that_names_the_turn_and_contains_no_message(
    runtime: LambdaRuntime,
) -> None:
    write = {"path": "a.md", "channel": "canvas", "content": "secret file", "kind": "file"}
    event = opened(runtime, called("react.write", write, notes="secret note"), answered("secret answer"))
    run(runtime, event)
    done = [line for line in runtime.lines if line["message"] == "step done"]
    assert [line["round"] for line in done] == [0, 0, 1, 1]
    assert {line["turn_id"] for line in done} == {event["step"]["turn"]}
    assert [line["route"] for line in done] == ["act", "decide", "close", "done"]
    inner = [line for line in runtime.lines if line["message"] == "action run"]
    assert [(line["turn_id"], line["tool_id"]) for line in inner] == [(event["step"]["turn"], "react.write")]
    assert "secret" not in runtime.text


def test_a_waiting_state_starts_its_task_with_its_token_and_gets_no_step(
    runtime: LambdaRuntime,
) -> None:
    launch = {
        "ref": "r",
        "client_token": "r-1",
        "secret": "s",
        "cluster": "c",
        "task_definition": "t",
        "container_name": "supervisor",
        "subnets": ["subnet-1"],
        "security_groups": ["sg-1"],
        "assign_public_ip": "ENABLED",
        "platform_version": "LATEST",
    }
    event = opened(runtime, answered("done"))
    waiting = {"step": {**event["step"], "launch": launch}, "attempt": 2, "token": "the token"}
    assert runtime.call(act.handler, waiting) == {}
    tasks = runtime.app.ports.tasks
    assert isinstance(tasks, MemoryTasks)
    assert [(name, task.variables["STEPLINE_TASK_TOKEN"]) for name, task in tasks.tasks.items()] == [
        ("task-r-1-2", "the token")
    ]


def test_a_line_is_written_once(runtime: LambdaRuntime) -> None:
    runtime.call(decide.handler, opened(runtime, answered("done")))
    for message in ("round decided", "step done"):
        assert [line["message"] for line in runtime.lines].count(message) == 1


def test_a_step_is_passed_on_complete_and_contains_no_content(runtime: LambdaRuntime) -> None:
    event = opened(runtime, BROKEN, answered("secret answer"))
    step = runtime.call(decide.handler, event)
    assert step == {**event["step"], "iteration": 1, "visit": 1}
    closing = runtime.call(decide.handler, {"step": step, "attempt": 0})
    assert closing == {**step, "route": "close", "visit": 2}


def test_a_step_from_a_newer_release_is_left_to_the_state_machines_retry(
    runtime: LambdaRuntime,
) -> None:
    event = opened(runtime, answered("done"))
    later = {**event, "step": {**event["step"], "v": 2}}
    for handler in STATES.values():
        with pytest.raises(DependencyError):
            runtime.call(handler, later)
    assert [line["code"] for line in runtime.lines if line["level"] == "WARNING"] == ["format_newer"] * 3
    assert runtime.call(decide.handler, {**event, "step": {**event["step"], "new": 1}})["route"] == "close"


def test_a_refused_step_keeps_the_name_of_its_class_for_the_state_machine(runtime: LambdaRuntime) -> None:
    event = opened(runtime, *[Fail(error=ModelTimeout("busy"))] * 3)
    with pytest.raises(ModelTimeout):
        runtime.call(decide.handler, {**event, "attempt": 1})
    with pytest.raises(Fenced):
        runtime.call(decide.handler, event)
    refused = [line for line in runtime.lines if line["level"] == "WARNING"]
    assert [(line["code"], line["attempt"]) for line in refused] == [("model_timeout", 1), ("fenced", 0)]
    assert {line["turn_id"] for line in refused} == {event["step"]["turn"]}


class Bug(MemoryLog):
    error: Exception | None = None

    def since(self, *args: Any, **fields: Any) -> Any:
        if self.error:
            raise self.error
        return super().since(*args, **fields)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError(), SteplineError("AWS answered AccessDeniedException", operation="Query")]
)
def test_a_bug_or_a_missing_permission_is_counted_logged_and_raised(
    runtime: LambdaRuntime, error: Exception
) -> None:
    log = Bug()
    runtime.wire(log)
    event = opened(runtime)
    log.error = error
    with pytest.raises(type(error)):
        runtime.call(decide.handler, event)
    assert runtime.metrics()["EdgeErrors"] == 1
    assert runtime.lines[-1]["level"] == "ERROR"
    assert runtime.lines[-1]["exception_name"] == type(error).__name__


def test_a_failed_turn_is_counted_as_failed(runtime: LambdaRuntime) -> None:
    event = opened(runtime)
    error = {"Error": "ContextLimit", "Cause": '{"errorMessage": "secret"}'}
    step = runtime.call(close.handler, {"step": {**event["step"], "error": error}, "attempt": 0})
    assert (step["route"], runtime.metrics()["TurnsFailed"]) == ("done", 1)
    assert "secret" not in runtime.text


def test_a_retry_by_the_state_machine_counts_as_a_later_attempt(runtime: LambdaRuntime) -> None:
    event = opened(runtime, answered("done"))
    runtime.call(decide.handler, {**event, "attempt": 1})
    assert runtime.app.ports.log.tail(LANE).state.attempt == 1  # type: ignore[union-attr]  # there is one


# --- the sweeper


def test_a_turn_is_taken_over_if_its_execution_ended_without_closing_it(runtime: LambdaRuntime) -> None:
    opened(runtime)
    runtime.app.ports.machine.stop(execution_name(LANE, 1))
    assert runtime.call(sweeper.handler, recorded("execution_status")) == {"taken_over": 1}
    assert runtime.metrics()["TurnsTakenOver"] == 1


def test_an_execution_that_ended_its_turn_leaves_nothing_to_sweep(runtime: LambdaRuntime) -> None:
    event = opened(runtime, answered("done"))
    run(runtime, event)
    runtime.app.ports.machine.stop(execution_name(LANE, 1))
    runtime.metrics()
    assert runtime.call(sweeper.handler, recorded("execution_status")) == {"idle": 1}
    assert "TurnsTakenOver" not in runtime.metrics()


def test_the_schedule_sweeps_what_has_been_open_for_a_while(runtime: LambdaRuntime) -> None:
    opened(runtime)
    assert runtime.call(sweeper.handler, recorded("schedule")) == {}
    runtime.app.ports.machine.stop(execution_name(LANE, 1))
    runtime.app.ports.clock.pause(61)
    assert runtime.call(sweeper.handler, recorded("schedule")) == {"taken_over": 1}


def test_a_log_line_has_no_fields_of_the_previous_invocation(runtime: LambdaRuntime) -> None:
    event = opened(runtime, answered("done"))
    run(runtime, event)
    runtime.call(sweeper.handler, recorded("schedule"))
    assert "turn_id" not in runtime.lines[-1]


def test_an_abandoned_turn_ends_with_one_error(runtime: LambdaRuntime) -> None:
    opened(runtime)
    for takeover in range(4):
        tail = runtime.app.ports.log.tail(LANE)
        assert tail is not None
        runtime.app.ports.machine.stop(execution_name(LANE, tail.state.epoch))
        swept = runtime.call(sweeper.handler, recorded("execution_status"))
        assert swept == ({"closed": 1} if takeover == 3 else {"taken_over": 1})
    closings = [
        entry.code
        for batch in runtime.app.ports.log.since(LANE, 0)
        for entry in batch.entries
        if isinstance(entry, Closed)
    ]
    assert closings == ["execution_lost"]


# --- what a cold start loads


def test_no_handler_loads_the_models_sdk_when_it_is_imported() -> None:
    program = (
        "import sys\n"
        "import lambdas.act, lambdas.authorizer, lambdas.close, lambdas.decide, lambdas.output, lambdas.socket, lambdas.sweeper\n"
        "print(*sorted({'anthropic', 'aws_cdk', 'click', 'redis', 'rich', 'websockets', 'httpx'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize(
    ("handler", "unneeded"),
    [
        ("authorizer", ["stepline.log", "stepline.loop", "stepline.events", "stepline.bootstrap.aws_wiring"]),
        ("socket", ["stepline.tools", "stepline.timeline.fold", "stepline.protocol.citation"]),
        ("act", ["stepline.programs.archive", "stepline.protocol.stream", "tarfile", "xml.parsers.expat"]),
        ("close", ["stepline.tools", "stepline.loop.agent", "stepline.bootstrap.loop_app"]),
    ],
)
def test_a_handler_does_not_load_rarely_needed_modules(handler: str, unneeded: list[str]) -> None:
    program = f"import sys, lambdas.{handler}; print(*sorted(set({unneeded}) & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
