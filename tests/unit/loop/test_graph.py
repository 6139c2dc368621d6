import json

import pytest

from docs.build.loop import EXAMPLE_STEP, render_mermaid
from stepline import errors
from stepline.loop import graph
from stepline.model.step import Step
from stepline_cdk.definition import ERRORS, render_definition

FUNCTIONS = {
    task.function: f"arn:aws:lambda:eu-west-1:1:function:{task.function}:live" for task in graph.TASKS
}


@pytest.fixture
def definition():
    return render_definition(FUNCTIONS, remote=True)


def edges(state):
    named = [state.get("Next"), state.get("Default")]
    rules = [*state.get("Choices", []), *state.get("Catch", [])]
    return {name for name in [*named, *(rule["Next"] for rule in rules)] if name}


def test_every_edge_ends_in_a_state_and_every_state_is_reached(definition):
    states = definition["States"]
    reached, waiting = set(), [definition["StartAt"]]
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += edges(states[name])
    assert reached == set(states)


def test_a_round_with_tools_takes_three_transitions(definition):
    states = definition["States"]
    assert states["Decide"]["Next"] == "Route"
    assert {rule["StringEquals"]: rule["Next"] for rule in states["Route"]["Choices"]}["act"] == "Act"
    assert states["Act"]["Next"] == "Decide"


def test_a_round_that_runs_a_program_takes_six_transitions(definition):
    states = definition["States"]
    assert {rule["StringEquals"]: rule["Next"] for rule in states["Route"]["Choices"]}["prepare"] == "Prepare"
    assert states["Prepare"]["Next"] == "Launch"
    assert [rule["Next"] for rule in states["Launch"]["Choices"]] == ["Execute", "ExecuteTask"]
    assert states["Launch"]["Default"] == "Decide"
    assert states["Execute"]["Next"] == "Act"


def test_a_run_is_never_tried_again_and_is_always_collected(definition):
    execute = definition["States"]["Execute"]
    assert "Retry" not in execute
    assert [rule["Next"] for rule in execute["Catch"]] == ["Act"]


def test_a_deployment_without_execution_has_no_state_that_runs_programs():
    functions = {name: arn for name, arn in FUNCTIONS.items() if name != "execute"}
    states = render_definition(functions)["States"]
    assert not {"Prepare", "Launch", "Execute", "ExecuteTask"} & set(states)
    assert {rule["StringEquals"]: rule["Next"] for rule in states["Route"]["Choices"]}["prepare"] == "Act"


@pytest.mark.parametrize(
    ("executes", "remote", "places"),
    [(True, False, {"Execute"}), (False, True, {"ExecuteTask"}), (True, True, {"Execute", "ExecuteTask"})],
)
def test_a_program_is_launched_in_a_placement_of_the_deployment(executes, remote, places):
    functions = {name: arn for name, arn in FUNCTIONS.items() if executes or name != "execute"}
    states = render_definition(functions, remote=remote)["States"]
    assert {"Execute", "ExecuteTask"} & set(states) == places
    assert {rule["Next"] for rule in states["Launch"]["Choices"]} == places


def test_a_task_is_given_up_when_it_is_silent_or_late_and_tried_again_only_if_it_was_not_started(definition):
    state = definition["States"]["ExecuteTask"]
    assert state["Resource"].endswith(":lambda:invoke.waitForTaskToken")
    assert state["HeartbeatSeconds"] < state["TimeoutSeconds"]
    retried = {name for rule in state["Retry"] for name in rule["ErrorEquals"]}
    assert retried == {"TaskNotStarted", *ERRORS[graph.TRANSPORT], *graph.OWN_ERRORS}
    assert state["Catch"] == [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Act"}]
    assert state["Next"] == "Act"


def test_a_function_starts_the_task_with_the_token_and_the_same_step(definition):
    state = definition["States"]["ExecuteTask"]
    assert state["Parameters"] == {
        "FunctionName": FUNCTIONS["act"],
        "Payload": {"step.$": "$", "attempt.$": "$$.State.RetryCount", "token.$": "$$.Task.Token"},
    }
    assert state["ResultPath"] is None


def test_a_wait_runs_nothing_and_lasts_as_long_as_the_step_says(definition):
    assert definition["States"]["Wait"] == {"Type": "Wait", "SecondsPath": "$.wait_s", "Next": "Decide"}
    assert "wait_s" in Step.__struct_fields__


def test_an_unknown_route_closes_the_turn(definition):
    assert definition["States"]["Route"]["Default"] == "Close"


def test_a_stale_execution_ends_without_closing_anything():
    assert graph.ROUTES["stop"] == graph.END


@pytest.mark.parametrize("task", graph.TASKS, ids=lambda task: task.name)
def test_a_task_never_times_out_before_its_function(definition, task):
    assert definition["States"][task.name]["TimeoutSeconds"] >= task.function_timeout_s + 30
    assert task.function_timeout_s <= 900


@pytest.mark.parametrize("task", graph.TASKS, ids=lambda task: task.name)
def test_a_task_gets_its_step_and_the_number_of_its_attempt(definition, task):
    state = definition["States"][task.name]
    assert state["Parameters"]["Payload"] == {"step.$": "$", "attempt.$": "$$.State.RetryCount"}
    assert state["Parameters"]["FunctionName"] == FUNCTIONS[task.function]
    assert state["OutputPath"] == "$.Payload"


@pytest.mark.parametrize("task", graph.TASKS, ids=lambda task: task.name)
def test_a_failure_that_is_not_retried_keeps_the_step_beside_the_error(definition, task):
    assert definition["States"][task.name]["Catch"] == [
        {"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": task.catch}
    ]


RETRIED = [task for task in graph.TASKS if task.retries]


@pytest.mark.parametrize("task", RETRIED, ids=lambda task: task.name)
def test_every_retryable_error_of_ours_is_retried_where_it_can_be_raised(task):
    retried = [name for retry in task.retries for name in retry.errors]
    waited_for = set(graph.SHED_LOAD)
    never = waited_for if task.name == "Decide" else {*waited_for, *graph.NO_ANSWER}
    assert set(errors.retryable_names()) - never <= set(retried)
    assert not waited_for & set(retried)
    assert len(retried) == len(set(retried))


@pytest.mark.parametrize("task", RETRIED, ids=lambda task: task.name)
def test_unknown_outcomes_are_matched_after_every_named_error(task, definition):
    assert task.retries[-1].errors == (graph.UNKNOWN_ERROR,)
    assert task.retries[0].errors == (graph.TRANSPORT,)
    rendered = [retry["ErrorEquals"] for retry in definition["States"][task.name]["Retry"]]
    assert rendered[-1] == list(ERRORS[graph.UNKNOWN_ERROR])
    assert rendered[0] == list(ERRORS[graph.TRANSPORT])


def test_a_delay_never_grows_past_its_cap(definition):
    for task in graph.TASKS:
        for retry in definition["States"][task.name].get("Retry", []):
            assert retry["MaxDelaySeconds"] > retry["IntervalSeconds"]
            assert retry["JitterStrategy"] == "FULL"


def test_the_definition_uses_no_variables_and_stays_small(definition):
    text = json.dumps(definition)
    assert '"Assign"' not in text
    assert "QueryLanguage" not in text
    assert len(text) < 20_000


def test_a_step_carries_keys_and_no_content():
    assert set(EXAMPLE_STEP) == {
        *("tenant", "project", "conversation", "turn"),
        *("epoch", "iteration", "route"),
    }


def test_the_diagram_shows_every_edge(definition):
    diagram = render_mermaid()
    for name, state in definition["States"].items():
        for target in edges(state):
            assert f"{name} --> {target}" in diagram
