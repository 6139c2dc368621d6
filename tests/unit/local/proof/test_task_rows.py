"""The loss of a task: a program without a code, one that went on, and one that ran in two tasks fail."""

from dataclasses import replace

import pytest

from stepline.local.client.change import TextAppended
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.program_rows import CODE_EVENT, Ran
from stepline.local.proof.row.task_rows import judge_lost, list_tasks, prints, prove_task_loss, refer_to_run
from stepline.settings import TABLE
from tests.unit.local.proof.test_program_rows import Recorded, event
from tests.unit.local.proof.test_stage_function import stage

LOST = Ran(call="a", log="begun\n", status="error", code="task_stopped")


def test_a_lost_program_with_its_code_is_held():
    judge_lost(LOST, ["task/1", "task/1"])  # listed twice: it stopped between the two questions


@pytest.mark.parametrize(
    ("ran", "tasks"),
    [
        (replace(LOST, status="ok", code=""), ["task/1"]),
        (replace(LOST, code=""), ["task/1"]),
        (replace(LOST, log="begun\nlate\n"), ["task/1"]),
        (LOST, ["task/1", "task/2"]),
        (LOST, []),
    ],
    ids=["succeeded", "no code", "went on", "two tasks", "no task"],
)
def test_a_program_that_was_not_lost_once_fails(ran, tasks):
    with pytest.raises(NotHeldError):
        judge_lost(ran, tasks)


@pytest.mark.parametrize("mode", ["", "process", "docker"])
def test_programs_that_run_in_no_task_prove_nothing(mode):
    with pytest.raises(NotRunError):
        prove_task_loss(stage(**{TABLE["exec_mode"].variable: mode}), "c")


@pytest.mark.parametrize(
    ("events", "ends"), [((), []), ((event(CODE_EVENT, execution_id="a", text="x"),), ["end"])]
)
def test_a_program_that_did_not_begin_or_has_ended_proves_nothing(events, ends):
    client = Recorded(*events)
    client.ends = ends
    with pytest.raises(NotRunError):
        refer_to_run(None, "c", client)


def test_the_program_has_begun_when_its_output_is_shown():
    assert prints(TextAppended(claim=3, lane="exec.0.log", off=0, text="begun\n"))
    assert not prints(TextAppended(claim=3, lane="answer.0", off=0, text="begun"))


def test_tasks_are_listed_whether_they_run_or_not():
    class Ecs:
        def list_tasks(self, **given):
            assert (given["cluster"], given["startedBy"]) == ("c", "run-1")
            return {"taskArns": [f"task/{given['desiredStatus']}"]}

    assert list_tasks(Ecs(), "c", "run-1") == ["task/RUNNING", "task/STOPPED"]
