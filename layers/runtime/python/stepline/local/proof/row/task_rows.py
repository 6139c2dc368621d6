"""The loss of a task: its program ends in the middle, the turn gets a result with a code and goes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stepline.local.client.change import Effect, TextAppended
from stepline.local.proof.judge_stream import judge_ends
from stepline.local.proof.proof_client import ProofClient
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.midturn_rows import finish
from stepline.local.proof.row.program_rows import CODE_EVENT, Ran, ask_to_run, find_run
from stepline.local.proof.stage_function import read_setting
from stepline.model.ids import make_lane
from stepline.model.program.handover import run_ref

TASKS: Final = "fargate"
STATUSES: Final = ("RUNNING", "STOPPED")
TASK_RIGHTS: Final = "ecs:ListTasks and StopTask"
BEGUN: Final = "begun"
LATE: Final = "late"
SLEEPER: Final = f"""\
import time
open("outputs/sleeper.txt", "w").write("x")
print("{BEGUN}", flush=True)
time.sleep(240)
print("{LATE}")"""


def prove_task_loss(stage: ProvedStage, conversation: str) -> Evidence:
    """Stop the task of a running program, as a failure of its machine would."""
    if read_setting(stage, "act", "exec_mode") != TASKS:
        raise NotRunError("the programs of the stage do not run in tasks")
    cluster = read_setting(stage, "act", "fargate_cluster")
    with stage.listen(conversation) as client:
        client.session.say(ask_to_run(SLEEPER))
        client.until(lambda effect: prints(effect) or (not client.state.open and bool(client.ends)))
        reference = refer_to_run(stage, conversation, client)
        (task,) = list_tasks(stage.aws("ecs"), cluster, reference)
        stage.aws("ecs").stop_task(cluster=cluster, task=task, reason="stepline prove")
        finish(stage, conversation, client)
    ran = find_run(client, SLEEPER)
    judge_lost(ran, list_tasks(stage.aws("ecs"), cluster, reference))
    judge_ends(client.ends)
    return {"call": ran.call, "code": ran.code, "task": task.rpartition("/")[2]}


def prints(effect: Effect) -> bool:
    """Return True for output of the running program."""
    return isinstance(effect, TextAppended) and effect.lane.startswith("exec.") and BEGUN in effect.text


def refer_to_run(stage: ProvedStage, conversation: str, client: ProofClient) -> str:
    """Return the name by which the account knows the run. Raises NotRunError if the program ended, or did not begin."""
    calls = [str(event.data["execution_id"]) for _, event in client.events(CODE_EVENT)]
    if client.ends or not calls:
        raise NotRunError("the turn ended before the program had printed anything")
    here = stage.api.read_limits()
    lane = make_lane(here.tenant, here.project, conversation)
    return run_ref(lane, client.events("chat.start")[0][1].data["turn_id"], calls[0])


def list_tasks(ecs: Any, cluster: str, reference: str) -> list[str]:
    """Return the ARNs of a run's tasks, those that have stopped too."""
    return [
        str(arn)
        for status in STATUSES
        for arn in ecs.list_tasks(cluster=cluster, startedBy=reference, desiredStatus=status)["taskArns"]
    ]


def judge_lost(ran: Ran, tasks: Sequence[str]) -> None:
    """Require that a lost program has a code, did not go on, and was not started again."""
    require(
        ran.status == "error" and bool(ran.code), f"the lost program ended as {ran.status}, without a code"
    )
    require(LATE not in ran.log, "the program went on after its task was stopped")
    require(len(set(tasks)) == 1, f"{len(set(tasks))} tasks were started for one program")
