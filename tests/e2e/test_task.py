"""Programs in tasks of their own, on the deployed stage: the emulator's RunTask in Docker, by the state ExecuteTask."""

from __future__ import annotations

import json
import platform
from types import SimpleNamespace

import pytest

from stepline.adapters.system import SystemClock
from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.checks.probe import check_isolation
from stepline.local.stage.deployed import client
from stepline.model.ids import make_lane
from stepline.model.path import exec_key
from stepline.model.program.handover import SECRET_VARIABLE, TOKEN_VARIABLE
from tests.e2e.mode import obstacle, programs_in
from tests.e2e.order import check_order, events, terminals
from tests.e2e.sales import PNG, TOTALS, WRITE, table_of, totals_of, written_totals
from tests.e2e.stage import a_word, answer_of, read_until
from tests.e2e.task import TaskOfRun
from tests.e2e.test_execution import (
    DEADLINES_S,
    EXEC,
    RUN,
    WAITING,
    bodies,
    entered,
    is_running,
    report_of,
    the_call,
    the_run,
    wait_for_start,
)
from tests.e2e.test_recovery import check_log

pytestmark = pytest.mark.emulator

PARTIAL = """\
import time
from pathlib import Path

Path("outputs/part.txt").write_text("{word}")
print("{word}", flush=True)
time.sleep(60)
"""


@pytest.fixture
def tasks(scripted):
    """The stage with its programs in tasks."""
    if why := obstacle(scripted, "fargate"):
        pytest.skip(f"fargate: {why}")
    with programs_in(scripted, "fargate"):
        yield scripted


def task_of(stage, conversation, lines):
    """Return the task of the one program in a conversation."""
    turn = events(lines, "chat.start")[0]["turn_id"]
    return TaskOfRun(stage, conversation, turn, the_call(stage, conversation)["call_id"])


def envelope(stage, conversation, lines):
    """Return what was stored of the one run."""
    turn, call = events(lines, "chat.start")[0]["turn_id"], the_call(stage, conversation)["call_id"]
    lane = make_lane("local", "default", conversation)
    return json.loads(stage.object_bytes(exec_key(lane, turn, call, "result.json")))


def test_the_doctor_measures_the_isolation_of_a_task(scripted):
    if why := obstacle(scripted, "fargate"):
        pytest.skip(f"fargate: {why}")
    stage = scripted.deployed
    pages = client("cloudformation", stage).describe_stacks()["Stacks"]
    outputs = {row["OutputKey"]: row["OutputValue"] for stack in pages for row in stack.get("Outputs", [])}
    found = check_isolation(LocalAccount(stage), outputs, SystemClock())
    assert found.ok, found
    assert platform.release() in found.detail
    assert "refused: nothing" in found.detail


class LocalAccount(AwsAccount):
    """The emulator's account: the same requests as in AWS."""

    def __init__(self, stage):
        super().__init__(SimpleNamespace(region_name=stage.region))
        self._stage = stage

    def client(self, service):
        return client(service, self._stage)


def test_a_table_of_an_earlier_turn_becomes_monthly_totals_and_a_chart_in_a_task(tasks, conversation):
    tasks.send(WRITE.format(word=a_word()), conversation)
    lines = tasks.send(TOTALS, conversation)
    assert len(terminals(lines)) == 1
    names = entered(tasks, conversation, events(lines, "chat.start")[0]["n"])
    assert (names.count("ExecuteTask"), names.count("Execute")) == (1, 0)

    results = {entry["tool_id"]: entry for entry in tasks.entries(conversation, "result")}
    expected = totals_of(tasks.object_bytes(bodies(results["react.write"])["sales.csv"]["key"]))
    assert table_of(answer_of(lines)) == expected
    kept = bodies(results[EXEC])
    assert sorted(kept) == ["monthly_totals.csv", "monthly_totals.png"]
    assert tasks.object_bytes(kept["monthly_totals.png"]["key"]).startswith(PNG)
    assert written_totals(tasks.object_bytes(kept["monthly_totals.csv"]["key"])) == expected

    task = task_of(tasks, conversation, lines)
    variables = task.variables()
    assert variables.keys() == {TOKEN_VARIABLE, SECRET_VARIABLE}
    assert variables[SECRET_VARIABLE] == task.secret
    assert task.leftovers() == []
    assert [container["exitCode"] for container in task.describe()["containers"]] == [0]


def test_a_failed_program_in_a_task_is_reported_in_the_same_words(tasks, conversation):
    word = a_word()
    well = tasks.send(RUN.format("open('outputs/a.txt', 'w').write('a')"), f"{conversation}-well")
    lines = tasks.send(RUN.format(f"import sys\nprint('{word}')\nsys.exit(3)"), conversation)
    result = the_run(tasks, conversation)
    assert (result["status"], result["error"]["code"]) == ("error", "nonzero_exit")
    assert word in report_of(result)
    assert word in answer_of(lines)
    found = envelope(tasks, conversation, lines)
    assert found.keys() == envelope(tasks, f"{conversation}-well", well).keys()
    task = task_of(tasks, conversation, lines)
    assert task.leftovers() == []
    # What the program ended with is in its report; the task did what it was for.
    assert [container["exitCode"] for container in task.describe()["containers"]] == [0]


def test_a_program_that_times_out_in_a_task_keeps_its_files(tasks, conversation):
    word = a_word()
    said, name = RUN.format(PARTIAL.format(word=word)), conversation
    for timeout_s in DEADLINES_S:
        conversation = f"{name}-{timeout_s}"
        lines = tasks.send(said.replace(":", f" with a timeout of {timeout_s} seconds:", 1), conversation)
        result = the_run(tasks, conversation)
        if word in report_of(result):
            break
    assert (result["status"], result["error"]["code"]) == ("error", "timeout")
    assert word in report_of(result)
    assert "timeout" in answer_of(lines)
    assert [tasks.object_bytes(body["key"]).decode() for body in bodies(result).values()] == [word]
    assert task_of(tasks, conversation, lines).leftovers() == []


def test_a_task_killed_in_mid_run_costs_the_program_and_leaves_nothing(tasks, conversation):
    word = a_word()
    with tasks.sending(RUN.format(WAITING.format(word=word)), conversation) as sender:
        seen = read_until(sender, is_running)
        wait_for_start(tasks, conversation, seen)
        task = task_of(tasks, conversation, seen)
        row, _container = task.leftovers()  # the secret is gone: the task has read it
        assert row == "row"
        task.kill()
        task.report_stop()
        seen += read_until(sender, lambda line: line.get("terminal", False))
    check_order(seen)
    assert len(terminals(seen)) == 1
    result = the_run(tasks, conversation)
    assert (result["status"], bodies(result)) == ("unverified", {})
    assert "I cannot tell whether" in answer_of(seen)
    check_log(tasks, conversation)
    names = entered(tasks, conversation, events(seen, "chat.start")[0]["n"])
    assert names.count("ExecuteTask") == 1
    task.sweep()
    assert task.leftovers() == []
