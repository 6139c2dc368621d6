import json
import uuid

import msgspec
import pytest
from moto.core.config import default_user_config
from msgspec.structs import replace

from stepline.errors import DependencyError, SteplineError
from stepline.loop.graph import TASKS
from stepline.model.step import Step
from stepline.ports.machine import Machine
from stepline_cdk.definition import render_definition

EXISTS = {"__type": "ExecutionAlreadyExists", "message": "…"}
ABSENT = {"__type": "ExecutionDoesNotExist", "message": "…"}
KEPT = {"Route", "Launch", "Wait", "Done", "CloseFailed"}
STEP = Step(tenant="acme", project="docs", conversation="c1", turn="turn_1", epoch=3)


@pytest.fixture
def machine(backend) -> Machine:
    return backend.machine


@pytest.fixture
def name() -> str:
    return f"{uuid.uuid4().hex[:16]}-3"


def test_a_started_execution_runs_until_it_ends(machine, name):
    assert machine.status(name) == "absent"
    assert machine.start(name, STEP)
    assert machine.status(name) == "running"
    machine.stop(name)
    assert machine.status(name) == "ended"


def test_a_name_is_never_used_again_after_its_execution_ended(machine, name):
    machine.start(name, STEP)
    machine.stop(name)
    assert not machine.start(name, STEP)
    assert machine.status(name) == "ended"


def test_a_running_name_is_not_started_with_another_step(machine, name):
    machine.start(name, STEP)
    assert not machine.start(name, Step(tenant="acme", project="docs", conversation="c1", turn="t", epoch=4))
    assert machine.status(name) == "running"


def test_starting_a_running_execution_again_leaves_one(machine, name):
    machine.start(name, STEP)
    machine.start(name, STEP)
    machine.stop(name)
    assert machine.status(name) == "ended"


def test_names_are_independent(machine, name):
    machine.start(name, STEP)
    machine.start(f"{name}0", STEP)
    machine.stop(name)
    assert machine.status(f"{name}0") == "running"


def test_running_executions_are_listed_without_ended_ones(machine, name):
    for at in range(3):
        machine.start(f"{name}{at}", STEP)
    machine.stop(f"{name}1")
    found = machine.running()
    assert {at for at in range(3) if f"{name}{at}" in found} == {0, 2}


def test_stopping_an_absent_execution_has_no_effect(machine, name):
    machine.stop(name)
    assert machine.status(name) == "absent"
    machine.start(name, STEP)
    machine.stop(name)
    machine.stop(name)
    assert machine.status(name) == "ended"


def test_the_input_holds_every_field_of_the_step(aws, name):
    aws.machine.start(name, STEP)
    arn = aws.machine_arn.replace(":stateMachine:", ":execution:") + f":{name}"
    found = json.loads(aws.machine.client.describe_execution(executionArn=arn)["input"])
    assert found == {
        "tenant": "acme",
        "project": "docs",
        "conversation": "c1",
        "turn": "turn_1",
        "epoch": 3,
        "iteration": 0,
        "route": "decide",
        "attempt": 0,
        "error": None,
        "launch": None,
        "segment": 0,
        "wait_s": 0,
        "due_ms": 0,
        "bundle": "",
        "visit": 0,
        "v": 1,
    }


def test_a_machine_waits_as_the_step_says_and_decides_again(aws, name, monkeypatch):
    rendered = render_definition({task.function: "unused" for task in TASKS}, remote=True)
    decides = {"Type": "Pass", "Result": "done", "ResultPath": "$.route", "Next": "Route"}
    tasks = {task: {"Type": "Pass", "Next": "Route"} for task in rendered["States"] if task not in KEPT}
    states = {**rendered["States"], **tasks, "Decide": decides}
    client = aws.machine.client
    role = client.describe_state_machine(stateMachineArn=aws.machine_arn)["roleArn"]
    monkeypatch.setitem(default_user_config, "stepfunctions", {"execute_state_machine": True})
    made = client.create_state_machine(
        name=name, definition=json.dumps({**rendered, "StartAt": "Route", "States": states}), roleArn=role
    )
    step = msgspec.to_builtins(replace(STEP, route="wait", wait_s=0))
    arn = client.start_execution(stateMachineArn=made["stateMachineArn"], input=json.dumps(step))[
        "executionArn"
    ]
    while client.describe_execution(executionArn=arn)["status"] == "RUNNING":
        pass
    events = client.get_execution_history(executionArn=arn)["events"]
    entered = [e["stateEnteredEventDetails"]["name"] for e in events if "stateEnteredEventDetails" in e]
    assert entered == ["Route", "Wait", "Decide", "Route", "Done"]


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED"])
def test_every_final_status_is_an_end(aws, name, faults, status):
    faults.answer(aws.machine.client, "DescribeExecution", 200, {"status": status})
    assert aws.machine.status(name) == "ended"


def test_the_list_of_running_executions_has_every_page(aws, name, monkeypatch):
    monkeypatch.setattr("stepline.adapters.aws.machine.LISTED_MAX", 2)
    names = {f"{name}{at}" for at in range(5)}
    for one in names:
        aws.machine.start(one, STEP)
    assert names <= aws.machine.running()


def test_an_execution_that_waits_for_its_redrive_is_not_over(aws, name, faults):
    faults.answer(aws.machine.client, "DescribeExecution", 200, {"status": "PENDING_REDRIVE"})
    assert aws.machine.status(name) == "running"


def test_the_services_words_for_a_known_and_an_unknown_name_are_answers(aws, name, faults):
    faults.answer(aws.machine.client, "StartExecution", 400, EXISTS)
    faults.answer(aws.machine.client, "DescribeExecution", 400, ABSENT)
    assert not aws.machine.start(name, STEP)
    assert aws.machine.status(name) == "absent"


@pytest.mark.parametrize(
    ("code", "kind"),
    [("ExecutionLimitExceeded", DependencyError), ("StateMachineDoesNotExist", SteplineError)],
)
def test_any_other_refusal_to_start_is_raised(aws, name, faults, code, kind):
    faults.answer(aws.machine.client, "StartExecution", 400, {"__type": code, "message": "…"})
    with pytest.raises(SteplineError) as caught:
        aws.machine.start(name, STEP)
    assert type(caught.value) is kind


def test_the_memory_machine_hands_out_executions_in_their_order():
    from stepline.adapters.memory.machine import MemoryMachine

    machine = MemoryMachine()
    machine.start("a", STEP)
    machine.start("b", STEP)
    machine.end("a")
    assert machine.queue == [("b", STEP)]
    machine.end("never")
    assert machine.status("never") == "absent"
