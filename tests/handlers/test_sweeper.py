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


def test_a_stopped_task_ends_its_waiting_state_with_the_reason(runtime, tasks, stopped):
    tasks.waiting.add("token-1")
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 1}
    error, cause = tasks.ended["token-1"]
    assert error == "TaskStopped"
    assert cause == (
        "Essential container in task exited; supervisor ended with 137 "
        "(OutOfMemoryError: Container killed due to memory usage); executor ended with no exit code"
    )


def test_a_stopped_task_without_a_waiting_state_is_ignored(runtime, tasks, stopped):
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 0}
    assert tasks.ended == {}


@pytest.mark.parametrize("said", [{}, {"environment": []}, {"environment": [{"name": "A", "value": "b"}]}])
def test_the_overrides_of_a_task_are_fetched_if_the_event_lacks_them(runtime, tasks, stopped, said):
    detail = stopped["detail"]
    detail["overrides"] = {"containerOverrides": [{"name": "supervisor", **said}]}
    tasks.tasks[detail["taskArn"]] = MemoryTask(
        ref="r", cluster=detail["clusterArn"], variables={"STEPLINE_TASK_TOKEN": "token-1"}
    )
    tasks.waiting.add("token-1")
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 1}


def test_a_task_of_another_starter_is_ignored(runtime, tasks, stopped):
    stopped["detail"]["overrides"] = {"containerOverrides": []}
    assert runtime.call(sweeper.handler, stopped) == {"waits_ended": 0}


def test_the_clock_sweeps_handovers_past_their_deadline(runtime, tasks):
    tasks.hand_over("r", "{}", cluster="c", deadline="2026-01-01T00:00:00.000Z")
    tasks.tasks["t"] = MemoryTask(ref="r", cluster="c")
    assert runtime.call(sweeper.handler, SCHEDULED) == {"tasks_swept": 1}
    assert (tasks.secrets, tasks.rows) == ({}, {})
    assert tasks.tasks["t"].reason
    assert runtime.call(sweeper.handler, SCHEDULED) == {}


def test_no_log_line_contains_a_task_token(runtime, tasks, stopped):
    tasks.waiting.add("token-1")
    runtime.call(sweeper.handler, stopped)
    assert "token-1" not in runtime.text
    assert any("waits_ended" in json.dumps(line) for line in runtime.lines)
