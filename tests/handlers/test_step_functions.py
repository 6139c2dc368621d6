import subprocess
import sys
from typing import Any

import pytest

from lambdas import act, close, decide, socket, sweeper
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Fail
from stepline.errors import DependencyError, Fenced, ModelOverloaded, SteplineError
from stepline.model.entry import Closed
from stepline.model.ids import Lane, execution_name
from tests.handlers.conftest import Stage, recorded
from tests.support.conversation import BROKEN, answered, called

LANE = Lane(tenant="acme", project="support", conversation="c-1")
STATES: dict[str, Any] = {"decide": decide.handler, "act": act.handler, "close": close.handler}


def opened(stage: Stage, *script: str | Fail) -> dict[str, Any]:
    """Let a message open a turn; return the event of its first state."""
    stage.model.add(*script)
    stage.call(socket.handler, recorded("connect"))
    stage.call(socket.handler, recorded("message"))
    event = recorded("step")
    assert event["step"]["turn"] == stage.app.ports.machine.queue[0][1].turn  # type: ignore[attr-defined]  # the memory twin's own
    return event


def run(stage: Stage, event: dict[str, Any]) -> list[str]:
    """Be the state machine; return the states in the order in which they ran."""
    state, ran = "decide", []
    while state in STATES:
        ran.append(state)
        step = stage.call(STATES[state], event)
        event = {"step": step, "attempt": 0}
        state = "decide" if state == "act" else step["route"]
    return [*ran, state]


def test_a_turn_goes_through_its_states_and_is_counted(stage: Stage) -> None:
    write = {"path": "a.md", "channel": "canvas", "content": "secret file", "kind": "file"}
    event = opened(stage, called("react.write", write, notes="secret note"), answered("secret answer"))
    assert run(stage, event) == ["decide", "act", "decide", "close", "done"]
    counted = stage.metrics()
    assert {name: counted[name] for name in ("RoundsDecided", "ToolCalls", "TurnsClosed")} == {
        "RoundsDecided": 2,
        "ToolCalls": 1,
        "TurnsClosed": 1,
    }
    assert counted["InputTokens"] > 0


def test_every_line_of_a_turn_is_json_that_names_the_turn_and_nothing_of_what_was_said(stage: Stage) -> None:
    write = {"path": "a.md", "channel": "canvas", "content": "secret file", "kind": "file"}
    event = opened(stage, called("react.write", write, notes="secret note"), answered("secret answer"))
    run(stage, event)
    done = [line for line in stage.lines if line["message"] == "step done"]
    assert [line["round"] for line in done] == [0, 0, 1, 1]
    assert {line["turn_id"] for line in done} == {event["step"]["turn"]}
    assert [line["route"] for line in done] == ["act", "decide", "close", "done"]
    inner = [line for line in stage.lines if line["message"] == "action run"]
    assert [(line["turn_id"], line["tool_id"]) for line in inner] == [(event["step"]["turn"], "react.write")]
    assert "secret" not in stage.text


def test_a_line_is_written_once(stage: Stage) -> None:
    stage.call(decide.handler, opened(stage, answered("done")))
    for message in ("round decided", "step done"):
        assert [line["message"] for line in stage.lines].count(message) == 1


def test_a_step_travels_whole_and_holds_no_content(stage: Stage) -> None:
    event = opened(stage, BROKEN, answered("secret answer"))
    step = stage.call(decide.handler, event)
    assert step == {**event["step"], "iteration": 1}
    assert stage.call(decide.handler, {"step": step, "attempt": 0}) == {**step, "route": "close"}


def test_a_step_that_a_release_after_this_one_answered_is_left_to_the_retry_of_the_state_machine(
    stage: Stage,
) -> None:
    event = opened(stage, answered("done"))
    later = {**event, "step": {**event["step"], "v": 2}}
    for handler in STATES.values():
        with pytest.raises(DependencyError):
            stage.call(handler, later)
    assert [line["code"] for line in stage.lines if line["level"] == "WARNING"] == ["format_newer"] * 3
    assert stage.call(decide.handler, {**event, "step": {**event["step"], "new": 1}})["route"] == "close"


def test_a_refused_step_keeps_the_name_of_its_class_for_the_state_machine(stage: Stage) -> None:
    event = opened(stage, *[Fail(error=ModelOverloaded("busy"))] * 3)
    with pytest.raises(ModelOverloaded):
        stage.call(decide.handler, {**event, "attempt": 1})
    with pytest.raises(Fenced):
        stage.call(decide.handler, event)
    refused = [line for line in stage.lines if line["level"] == "WARNING"]
    assert [(line["code"], line["attempt"]) for line in refused] == [("model_overloaded", 1), ("fenced", 0)]
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
def test_a_bug_or_a_missing_right_is_counted_logged_and_left_to_the_state_machine(
    stage: Stage, error: Exception
) -> None:
    log = Bug()
    stage.wire(log)
    event = opened(stage)
    log.error = error
    with pytest.raises(type(error)):
        stage.call(decide.handler, event)
    assert stage.metrics()["EdgeErrors"] == 1
    assert stage.lines[-1]["level"] == "ERROR"
    assert stage.lines[-1]["exception_name"] == type(error).__name__


def test_a_failed_turn_is_counted_as_failed(stage: Stage) -> None:
    event = opened(stage)
    error = {"Error": "ContextLimit", "Cause": '{"errorMessage": "secret"}'}
    step = stage.call(close.handler, {"step": {**event["step"], "error": error}, "attempt": 0})
    assert (step["route"], stage.metrics()["TurnsFailed"]) == ("done", 1)
    assert "secret" not in stage.text


def test_a_retry_by_the_state_machine_counts_as_a_later_attempt(stage: Stage) -> None:
    event = opened(stage, answered("done"))
    stage.call(decide.handler, {**event, "attempt": 1})
    assert stage.app.ports.log.tail(LANE).state.attempt == 1  # type: ignore[union-attr]  # there is one


# --- the sweeper


def test_an_execution_that_ended_without_closing_its_turn_is_taken_over(stage: Stage) -> None:
    opened(stage)
    stage.app.ports.machine.stop(execution_name(LANE, 1))
    assert stage.call(sweeper.handler, recorded("execution_status")) == {"taken_over": 1}
    assert stage.metrics()["TurnsTakenOver"] == 1


def test_an_execution_that_ended_its_turn_leaves_nothing_to_sweep(stage: Stage) -> None:
    event = opened(stage, answered("done"))
    run(stage, event)
    stage.app.ports.machine.stop(execution_name(LANE, 1))
    stage.metrics()
    assert stage.call(sweeper.handler, recorded("execution_status")) == {"idle": 1}
    assert "TurnsTakenOver" not in stage.metrics()


def test_the_schedule_sweeps_what_has_been_open_for_a_while(stage: Stage) -> None:
    opened(stage)
    assert stage.call(sweeper.handler, recorded("schedule")) == {}
    stage.app.ports.machine.stop(execution_name(LANE, 1))
    stage.app.ports.clock.pause(61)
    assert stage.call(sweeper.handler, recorded("schedule")) == {"taken_over": 1}


def test_a_line_says_nothing_of_the_invocation_before(stage: Stage) -> None:
    event = opened(stage, answered("done"))
    run(stage, event)
    stage.call(sweeper.handler, recorded("schedule"))
    assert "turn_id" not in stage.lines[-1]


def test_a_turn_that_was_given_up_ends_with_one_error(stage: Stage) -> None:
    opened(stage)
    for takeover in range(4):
        tail = stage.app.ports.log.tail(LANE)
        assert tail is not None
        stage.app.ports.machine.stop(execution_name(LANE, tail.state.epoch))
        swept = stage.call(sweeper.handler, recorded("execution_status"))
        assert swept == ({"closed": 1} if takeover == 3 else {"taken_over": 1})
    closings = [
        entry.code
        for batch in stage.app.ports.log.since(LANE, 0)
        for entry in batch.entries
        if isinstance(entry, Closed)
    ]
    assert closings == ["execution_lost"]


# --- what a cold start loads


def test_no_handler_loads_the_models_sdk_when_it_is_imported() -> None:
    program = (
        "import sys\n"
        "import lambdas.act, lambdas.authorizer, lambdas.close, lambdas.decide, lambdas.socket, lambdas.sweeper\n"
        "print(*sorted({'anthropic', 'aws_cdk', 'click', 'redis', 'rich', 'websockets', 'httpx'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
