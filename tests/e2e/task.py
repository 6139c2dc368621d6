"""The tasks of the local stage as the emulator runs them, and the leftovers of a run."""

from __future__ import annotations

import json
import subprocess

from stepline.adapters.aws.table import HEAD, exec_pk, key
from stepline.local.stage.deployed import client
from stepline.model.ids import make_lane
from stepline.model.program.handover import run_ref, secret_name

FAMILY = "stepline-local-exec"
TASK_LABEL = "com.amazonaws.ecs.task-arn"
SWEEPER = "stepline-local-sweeper"


class TaskOfRun:
    """The one task of a run, found by the name that the run has in the account."""

    def __init__(self, stage, conversation, turn, call) -> None:
        self._stage = stage
        self.ref = run_ref(make_lane("local", "default", conversation), turn, call)
        self.secret = secret_name("local", self.ref)
        self._ecs = client("ecs", stage.deployed)

    def describe(self):
        """Return what the service says of the task, whether it runs or has ended."""
        (arn,) = [
            arn
            for status in ("RUNNING", "STOPPED")
            for arn in self._ecs.list_tasks(cluster=FAMILY, startedBy=self.ref, desiredStatus=status)[
                "taskArns"
            ]
        ]
        (task,) = self._ecs.describe_tasks(cluster=FAMILY, tasks=[arn])["tasks"]
        return task

    def variables(self):
        """Return the variables of the task's start."""
        (override,) = self.describe()["overrides"]["containerOverrides"]
        assert override["name"] == "supervisor"
        return {pair["name"]: pair["value"] for pair in override["environment"]}

    def kill(self):
        """End the task's container as a failing machine would, without any notice."""
        (container,) = self._containers()
        subprocess.run(["docker", "kill", container], check=True, capture_output=True)

    def report_stop(self):
        """Report to the sweeper that the task has stopped, as the service's event would: the emulator has none."""
        task = self.describe()
        self._sweep(
            {
                "detail-type": "ECS Task State Change",
                "source": "aws.ecs",
                "detail": {name: task[name] for name in ("taskArn", "clusterArn", "startedBy", "overrides")}
                | {"lastStatus": "STOPPED", "stoppedReason": "Host terminated", "containers": []},
            }
        )

    def sweep(self):
        """Let the sweeper look at everything, as by its clock."""
        self._sweep({})

    def leftovers(self):
        """Return the names of leftovers of the run's handover and of its task."""
        table, secrets = (
            client("dynamodb", self._stage.deployed),
            client("secretsmanager", self._stage.deployed),
        )
        row = table.get_item(
            TableName=self._stage.deployed.table, Key=key(exec_pk(self.ref), HEAD), ConsistentRead=True
        )
        named = secrets.list_secrets(Filters=[{"Key": "name", "Values": [self.secret]}])["SecretList"]
        return [
            *(["row"] if "Item" in row else []),
            *[secret["Name"] for secret in named],
            *self._containers(),
        ]

    def _containers(self):
        label = f"label={TASK_LABEL}={self.describe()['taskArn']}"
        listed = subprocess.run(
            ["docker", "ps", "--quiet", "--filter", label], check=True, capture_output=True, text=True
        )
        return listed.stdout.split()

    def _sweep(self, event):
        answer = client("lambda", self._stage.deployed).invoke(
            FunctionName=SWEEPER, Qualifier="live", Payload=json.dumps(event).encode()
        )
        assert "FunctionError" not in answer, answer["Payload"].read()
