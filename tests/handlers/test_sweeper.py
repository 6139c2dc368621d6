"""The sweeper's three events: an execution that ended, a task that stopped, and the clock."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambdas import sweeper
from stepline.adapters.memory.task import MemoryTask, MemoryTasks

from .conftest import LambdaRuntime, recorded

SCHEDULED = {"detail-type": "Scheduled Event", "detail": {}}


@pytest.fixture
def tasks(runtime: LambdaRuntime) -> MemoryTasks:
    found = runtime.app.ports.tasks
    assert isinstance(found, MemoryTasks)
    return found


@pytest.fixture
def stopped() -> dict[str, Any]:
    return recorded("task_stopped")


def test_a_stopped_task_ends_the_state_that_waits_for_it_and_says_how_it_ended(runtime, tasks, stopped):
    tasks.waiting.add("token-1")
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 1}
    error, cause = tasks.ended["token-1"]
    assert error == "TaskStopped"
    assert cause == (
        "Essential container in task exited; supervisor ended with 137 "
        "(OutOfMemoryError: Container killed due to memory usage); executor ended with no exit code"
    )


def test_a_stopped_task_nobody_waits_for_is_nothing(runtime, tasks, stopped):
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 0}
    assert tasks.ended == {}


@pytest.mark.parametrize("said", [{}, {"environment": []}, {"environment": [{"name": "A", "value": "b"}]}])
def test_an_event_that_does_not_say_how_a_task_was_started_is_asked_after(runtime, tasks, stopped, said):
    detail = stopped["detail"]
    detail["overrides"] = {"containerOverrides": [{"name": "supervisor", **said}]}
    tasks.tasks[detail["taskArn"]] = MemoryTask(
        ref="r", cluster=detail["clusterArn"], variables={"STEPLINE_TASK_TOKEN": "token-1"}
    )
    tasks.waiting.add("token-1")
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 1}


def test_a_task_that_was_started_by_somebody_else_is_left_alone(runtime, tasks, stopped):
    stopped["detail"]["overrides"] = {"containerOverrides": []}
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 0}


def test_the_clock_sweeps_handovers_past_their_deadline(runtime, tasks):
    tasks.hand_over("r", "{}", cluster="c", deadline="2026-01-01T00:00:00.000Z")
    tasks.tasks["t"] = MemoryTask(ref="r", cluster="c")
    assert runtime.call(sweeper.handler, SCHEDULED) == {"tasks_swept": 1}
    assert (tasks.secrets, tasks.rows) == ({}, {})
    assert tasks.tasks["t"].reason
    assert runtime.call(sweeper.handler, SCHEDULED) == {}


def test_the_token_of_a_task_is_in_no_line_of_the_log(runtime, tasks, stopped):
    tasks.waiting.add("token-1")
    runtime.call(sweeper.handler, stopped)
    assert "token-1" not in runtime.text
    assert any("waits_ended" in json.dumps(line) for line in runtime.lines)
