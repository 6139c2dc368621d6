"""The isolation that a program has in a task of a deployed stage: the task closes a jail and prints its report.

The probe starts one task of the stage's own definition, in the stage's own network, with another command for each
container: the executor's closes its jail with the payload of every program and prints the report; the supervisor's
waits. So it shows the host's kernel, the calls that its profile refuses, and that a task starts and logs, without a
turn, a handover or a model.

Source: docs/concepts/execution.md#the-jail; API reference of ECS, RunTask.
"""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from botocore.exceptions import ClientError

from stepline.adapters.docker.payload import render_container_payload
from stepline.local.check import Check, failed, passed, warned
from stepline.local.cloud.account import AwsAccount, aws_error_code, look
from stepline.model.ids import Lane
from stepline.model.program.execution import ExecRequest, Isolation, RuntimeProfile
from stepline.ports.clock import Clock

PERMISSIONS: Final = (
    "ecs:RunTask, StopTask, DescribeTasks, DescribeTaskDefinition, iam:PassRole and logs:GetLogEvents"
)
STARTED_BY: Final = "stepline-doctor"
REMAINS: Final = "docs/concepts/execution.md#known-limitations"
PATIENCE_S: Final = 240.0
PAUSE_S: Final = 2.0

_PYTHON: Final = ("/opt/exec/bin/python", "-I", "-B", "-c")
_IDLE: Final = ("/opt/exec/bin/python", "-I", "-c", f"import time; time.sleep({PATIENCE_S})")
_NO_IMAGE: Final = "CannotPullContainer"
_MARKER: Final = "stepline isolation: "
_PROGRAM: Final = f"""
import json, sys
sys.path.insert(0, "/opt/executor")
from executor import jail
try:
    found = {{"isolation": jail.confine(json.loads(sys.argv[1]))}}
except jail.JailError as error:
    found = {{"failed": str(error)}}
print({_MARKER!r} + json.dumps(found), flush=True)
"""


def probe_command(*, combined: bool = False) -> list[str]:
    """Return the command of a container that reports its isolation on standard output."""
    lane = Lane(tenant="doctor", project="doctor", conversation="doctor")
    request = ExecRequest(
        exec_id="tc_000000000000",
        lane=lane,
        turn="turn_doctor",
        iteration=0,
        at="",
        n=0,
        code="",
        contract=(),
        profile=RuntimeProfile(placement="remote", backend="fargate"),
    )
    payload = render_container_payload(request, "", "combined" if combined else "split", backend="fargate")
    return [*_PYTHON, _PROGRAM, payload.decode()]


def read_report(line: str) -> Isolation | str:
    """Return the isolation in the line that a probe printed, or the reason why the jail did not close."""
    found = json.loads(line.removeprefix(_MARKER))
    return found.get("failed") or msgspec.convert(found["isolation"], Isolation)


def check_isolation(account: AwsAccount, outputs: dict[str, str], clock: Clock) -> Check:
    """Run the probe in a task of the stage with these outputs, and judge the isolation."""
    if "TaskFamily" not in outputs:
        return Check(
            name="programs", ok=True, note="off", detail="the stage runs no programs (exec_image=none)"
        )
    return look("programs", PERMISSIONS, lambda: _Probe(account, outputs, clock).check(), vital=False)


class _Probe:
    """One task, from its start to its report."""

    def __init__(self, account: AwsAccount, outputs: dict[str, str], clock: Clock) -> None:
        self._ecs = account.client("ecs")
        self._logs = account.client("logs")
        self._outputs = outputs
        self._clock = clock

    def check(self) -> Check:
        """Raises botocore's errors."""
        cluster, family = self._outputs["ClusterName"], self._outputs["TaskFamily"]
        definition = self._ecs.describe_task_definition(taskDefinition=family)["taskDefinition"]
        *others, probed = definition["containerDefinitions"]
        commands = {one["name"]: list(_IDLE) for one in others}
        commands[probed["name"]] = probe_command(combined=not others)
        network = {
            "subnets": self._outputs["TaskSubnets"].split(","),
            "securityGroups": self._outputs["TaskSecurityGroups"].split(","),
            "assignPublicIp": self._outputs["TaskPublicIp"],
        }
        answer = self._ecs.run_task(
            cluster=cluster,
            taskDefinition=family,
            launchType="FARGATE",
            startedBy=STARTED_BY,
            networkConfiguration={"awsvpcConfiguration": network},
            overrides={
                "containerOverrides": [
                    {"name": name, "command": command} for name, command in commands.items()
                ]
            },
        )
        if not answer["tasks"]:
            reasons = ", ".join(str(one.get("reason")) for one in answer["failures"])
            return failed("programs", f"no task was started: {reasons}", "docs/how-to/deploy.md#programs")
        task = answer["tasks"][0]["taskArn"]
        try:
            found = self._wait(cluster, task, probed)
        finally:
            self._ecs.stop_task(cluster=cluster, task=task, reason="the probe has reported")
        if isinstance(found, str) and _NO_IMAGE in found and (project := self._outputs.get("ImageProject")):
            return failed(
                "programs",
                f"the agent has no programs, because their image was not built: {found}",
                f"the reason is in the log of CodeBuild's project {project}; then: aws codebuild start-build"
                f" --project-name {project}",
            )
        return _judge_isolation(found)

    def _wait(self, cluster: str, task: str, container: dict[str, Any]) -> Isolation | str:
        """Return the report, or the reason why there is none."""
        until_s = self._clock.monotonic_s() + PATIENCE_S
        while True:
            (state,) = self._ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"]
            # After the state: a stopped task has written all its log lines.
            for line in self._lines(task, container):
                if line.startswith(_MARKER):
                    return read_report(line)
            if state["lastStatus"] == "STOPPED":
                return f"the task stopped without a report: {state.get('stoppedReason', 'no reason given')}"
            if self._clock.monotonic_s() > until_s:
                return f"the task is {state['lastStatus']} and has not reported for {PATIENCE_S:.0f} s"
            self._clock.pause(PAUSE_S)

    def _lines(self, task: str, container: dict[str, Any]) -> list[str]:
        options = container["logConfiguration"]["options"]
        stream = (options["awslogs-stream-prefix"], container["name"], task.rpartition("/")[2])
        try:
            found = self._logs.get_log_events(
                logGroupName=options["awslogs-group"], logStreamName="/".join(stream), startFromHead=True
            )
        except ClientError as error:
            if aws_error_code(error) != "ResourceNotFoundException":
                raise
            return []  # the container has not logged anything yet
        return [event["message"] for event in found["events"]]


def _judge_isolation(found: Isolation | str) -> Check:
    """Return the result of the check for a probe's report."""
    if isinstance(found, str):
        return failed("programs", f"programs cannot run: {found}", f"report this line; {REMAINS}")
    words = [
        f"kernel {found.kernel}",
        f"Landlock {found.landlock_abi or 'none'}",
        f"signals: {found.signals}",
    ]
    words.append(f"refused: {', '.join(found.refused) or 'nothing'}")
    detail = f"a program is isolated in a task ({'; '.join(words)})"
    if not found.landlock_abi:
        return warned("programs", detail, f"without Landlock programs are isolated less: {REMAINS}")
    return passed("programs", detail)
