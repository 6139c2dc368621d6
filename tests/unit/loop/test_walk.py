"""The course of a turn without a state machine, compared with the machine's own definition."""

import pytest
from msgspec.structs import replace

from stepline.errors import (
    DependencyError,
    Fenced,
    ModelOverloaded,
    ModelRateLimited,
    ModelTimeout,
    ToolError,
)
from stepline.loop.graph import STATES, TASKS, UNKNOWN_ERROR
from stepline.loop.turn import Patience, catcher, caught, following, turn
from stepline.model.step import Step
from stepline_cdk.definition import render_definition

STEP = Step(tenant="acme", project="docs", conversation="c1", turn="turn_1", epoch=3)
MACHINE = render_definition({task.function: f"arn:{task.function}" for task in TASKS}, remote=True)["States"]
WORDS = ["decide", "act", "prepare", "close", "wait", "done", "stop", "execute", "execute_task", "unheard"]


def chosen(state, word):
    """Return the rendered machine's next state after a state that returned a route."""
    target = MACHINE[state]["Next"]
    if MACHINE[target]["Type"] != "Choice":
        return target
    choices = MACHINE[target]["Choices"]
    return next((c["Next"] for c in choices if c["StringEquals"] == word), MACHINE[target]["Default"])


def whole(most_s):
    return most_s


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("word", WORDS)
def test_each_word_leads_where_the_state_machine_goes(state, word):
    assert following(state, replace(STEP, route=word)) == chosen(state, word)


@pytest.mark.parametrize("state", STATES)
def test_each_failure_leads_where_the_state_machine_catches_it(state):
    assert catcher(state) == MACHINE[state]["Catch"][0]["Next"]


def test_a_wait_is_a_pause_before_the_next_decision_and_no_other_state_waits():
    course = turn(STEP, jitter=whole)
    assert next(course).pause_s == 0
    visit = course.send(replace(STEP, route="wait", wait_s=42))
    assert (visit.state, visit.pause_s, visit.step.attempt) == (MACHINE["Wait"]["Next"], 42, 0)
    again = course.throw(Fenced("x"))
    assert (again.state, again.pause_s, again.step.attempt) == ("Decide", 1, 1)
    assert course.send(replace(STEP, route="act")) == ("Act", replace(STEP, route="act"), 0)


def test_an_error_is_beside_the_step_as_in_the_state_machine():
    after = caught(STEP, DependencyError("the table is away"))
    assert after.error == {
        "Error": "DependencyError",
        "Cause": '{"errorType":"DependencyError","errorMessage":"the table is away"}',
    }
    assert (after.turn, after.attempt) == (STEP.turn, 0)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_each_list_of_errors_is_tried_as_often_as_the_machine_does(task):
    for retry in task.retries:
        patience = Patience(task.name, whole)
        error = type(retry.errors[0], (Exception,), {})()
        waits = [patience.pause_s(error) for _ in range(retry.tries)]
        assert waits == [min(retry.max_s, retry.interval_s * 2**n) for n in range(retry.tries)]
        assert patience.pause_s(error) is None
        assert patience.attempt == retry.tries


def test_lists_are_counted_apart_and_attempts_together():
    patience = Patience("Decide", whole)
    assert patience.attempt == 0
    assert [patience.pause_s(ModelTimeout("x")) for _ in range(2)] == [1, 2]
    assert patience.pause_s(type(UNKNOWN_ERROR, (Exception,), {})()) == 2
    assert patience.attempt == 3
    assert patience.pause_s(DependencyError("x")) is None


@pytest.mark.parametrize(
    "error", [ToolError("x"), KeyError("x"), ModelOverloaded("x"), ModelRateLimited("x")]
)
def test_an_unlisted_error_is_not_retried(error):
    assert Patience("Decide", whole).pause_s(error) is None


@pytest.mark.parametrize("state", ["Execute", "ExecuteTask"])
def test_a_program_is_never_tried_again(state):
    assert Patience(state, whole).pause_s(TimeoutError("the program's own")) is None


def test_a_pause_is_as_long_as_the_jitter_says():
    assert Patience("Decide", lambda most_s: most_s / 4).pause_s(ModelTimeout("x")) == 0.25
