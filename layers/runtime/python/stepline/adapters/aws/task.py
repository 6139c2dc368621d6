"""Tasks on ECS: a run's handover in Secrets Manager, and its row in the table.

A secret lives until it is deleted, so every secret has a row, which is written first and deleted last. `begun` and
`done` are the sets of callers that hand over, before and after the secret is written; they are sets because a call
repeated after a lost answer must count once. The caller that takes back the handover leaves the row to the sweeper
if another caller had not finished when the secret was deleted, or began before the row could be deleted.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import (
    CONDITION_FAILED,
    NOBODY_WAITS,
    SECRET_ABSENT,
    SECRET_EXISTS,
    SECRET_GOING,
    Item,
    mapped,
    tolerated,
)
from stepline.adapters.aws.table import HEAD, OPEN_INDEX, Table, exec_pk, key
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.model.ids import utc
from stepline.model.program.handover import (
    SECRET_MAX_BYTES,
    SECRET_VARIABLE,
    TOKEN_VARIABLE,
    TaskLaunch,
    secret_name,
)
from stepline.ports.task import Stale

if TYPE_CHECKING:
    from mypy_boto3_ecs.client import ECSClient
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_stepfunctions.client import SFNClient

    from stepline.ports.clock import Clock

SHARD: Final = "exec"
"""The index partition that lists handovers by deadline."""
KEPT_S: Final = 14 * 24 * 3600
"""How long an unswept row is kept after its deadline."""
ERROR_CHARS, CAUSE_CHARS = 256, 1000
REASON_CHARS: Final = 255

SCARCE: Final = ("Capacity is unavailable", "limit on the number of")
"""Words of a temporary refusal, with any code: no capacity in the zones, or in the account's quota."""
CLUSTER_ABSENT: Final = "ClusterNotFoundException"
TASK_ABSENT: Final = "InvalidParameterException"


class EcsTasks:
    """The handovers of one stage. `clock` decides on expiry."""

    def __init__(self, table: Table, stage: str, clock: Clock, *, key_arn: str = "") -> None:
        """Store rows in `table`, and secrets under the name of `stage`, encrypted with a key of its owner if there is one."""
        self._table = table
        self._stage = stage
        self._clock = clock
        self._key: dict[str, Any] = {"KmsKeyId": key_arn} if key_arn else {}

    @cached_property
    def secrets(self) -> SecretsManagerClient:
        """The client, created on first use."""
        client: SecretsManagerClient = connect("secretsmanager", read_timeout_s=10)
        return client

    @cached_property
    def ecs(self) -> ECSClient:
        """The client, created on first use."""
        client: ECSClient = connect("ecs", read_timeout_s=10)
        return client

    @cached_property
    def states(self) -> SFNClient:
        """The client, created on first use."""
        client: SFNClient = connect("stepfunctions", read_timeout_s=10)
        return client

    def hand_over(self, ref: str, text: str, *, cluster: str, deadline: str) -> str:
        if (size_bytes := len(text.encode())) > SECRET_MAX_BYTES:
            raise InputError(
                f"a handover of {size_bytes} bytes; a secret holds {SECRET_MAX_BYTES}",
                code="payload_too_large",
            )
        name = secret_name(self._stage, ref)
        expires_at = int(datetime.fromisoformat(deadline).timestamp()) + KEPT_S
        me = {"SS": [secrets.token_hex(4)]}
        with mapped():
            self._update(
                ref,
                "SET lane_shard = :shard, lane_since = :deadline, #cluster = :cluster, expires_at = :ends ADD begun :me",
                {
                    ":shard": {"S": SHARD},
                    ":deadline": {"S": deadline},
                    ":cluster": {"S": cluster},
                    ":ends": {"N": str(expires_at)},
                    ":me": me,
                },
                ExpressionAttributeNames={"#cluster": "cluster"},
            )
        with mapped(), tolerated(SECRET_EXISTS):
            self.secrets.create_secret(Name=name, SecretString=text, **self._key)
        with mapped(), tolerated(CONDITION_FAILED):  # the sweeper deleted it, after the deadline
            self._update(
                ref,
                "ADD done :me",
                {":me": me},
                ConditionExpression="attribute_exists(pk)",
            )
        return name

    def start(self, launch: TaskLaunch, token: str, attempt: int) -> None:
        variables = {TOKEN_VARIABLE: token, SECRET_VARIABLE: launch.secret}
        try:
            with mapped():
                answer = self.ecs.run_task(
                    cluster=launch.cluster,
                    taskDefinition=launch.task_definition,
                    clientToken=f"{launch.client_token}-{attempt}",
                    startedBy=launch.ref,
                    launchType="FARGATE",
                    platformVersion=launch.platform_version,
                    networkConfiguration={
                        "awsvpcConfiguration": {
                            "subnets": list(launch.subnets),
                            "securityGroups": list(launch.security_groups),
                            "assignPublicIp": launch.assign_public_ip,
                        }
                    },
                    overrides={
                        "containerOverrides": [
                            {
                                "name": launch.container_name,
                                "environment": [
                                    {"name": name, "value": value} for name, value in variables.items()
                                ],
                            }
                        ]
                    },
                )
        except SteplineError as error:
            cause = str(error.__cause__)
            if any(word in cause for word in SCARCE):
                raise DependencyError(f"no task now: {cause}", code="task_not_started") from error
            raise
        if not answer["tasks"]:
            # ECS refuses with an answer that is not an error.
            reasons = ", ".join(one.get("reason", "no reason given") for one in answer["failures"])
            raise DependencyError(f"no task was started: {reasons}", code="task_not_started")

    def take_back(self, ref: str) -> None:
        seen = self._look(ref)
        self._delete_secret(ref)
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "delete_item",
                TableName=self._table.name,
                Key=key(exec_pk(ref), HEAD),
                ConditionExpression="attribute_exists(begun) AND (size(begun) = :seen OR lane_since <= :now)",
                ExpressionAttributeValues={":seen": {"N": str(seen)}, ":now": self._now()},
            )

    def give_up(self, ref: str) -> None:
        seen = self._look(ref)
        self._delete_secret(ref)
        with mapped(), tolerated(CONDITION_FAILED):
            self._update(
                ref,
                "SET lane_since = :now",
                {":seen": {"N": str(seen)}, ":now": self._now()},
                ConditionExpression="attribute_exists(begun) AND size(begun) = :seen AND lane_since > :now",
            )

    def stale(self, *, before: str) -> Iterator[Stale]:
        listed = self._table.query(
            "lane_shard = :shard AND lane_since <= :before",
            {":shard": {"S": SHARD}, ":before": {"S": before}},
            IndexName=OPEN_INDEX,
        )
        for item in listed:
            # The index is late and lacks the cluster; the row is current.
            row = self._table.get(item["pk"]["S"], HEAD, consistent=True)
            if row is not None and row["lane_since"]["S"] <= before:
                yield Stale(ref=item["pk"]["S"].partition("#")[2], cluster=row["cluster"]["S"])

    def stop(self, ref: str, cluster: str, reason: str) -> int:
        stopped = 0
        for task in self.running(ref, cluster):
            with mapped(), tolerated(CLUSTER_ABSENT, TASK_ABSENT):
                self.ecs.stop_task(cluster=cluster, task=task, reason=reason[:REASON_CHARS])
                stopped += 1
        return stopped

    def cluster(self, ref: str) -> str:
        row = self._table.get(exec_pk(ref), HEAD, consistent=True)
        return row["cluster"]["S"] if row else ""

    def running(self, ref: str, cluster: str) -> tuple[str, ...]:
        with mapped(), tolerated(CLUSTER_ABSENT):
            pages = self.ecs.get_paginator("list_tasks").paginate(cluster=cluster, startedBy=ref)
            return tuple(task for page in pages for task in page["taskArns"])
        return ()

    def overrides(self, task: str, cluster: str) -> dict[str, str]:
        with mapped(), tolerated(CLUSTER_ABSENT, TASK_ABSENT):
            found = self.ecs.describe_tasks(cluster=cluster, tasks=[task])["tasks"]
            containers = [
                one for task in found for one in task.get("overrides", {}).get("containerOverrides", [])
            ]
            return {pair["name"]: pair["value"] for one in containers for pair in one.get("environment", [])}
        return {}

    def fail(self, token: str, error: str, cause: str) -> bool:
        with mapped(), tolerated(*NOBODY_WAITS):
            self.states.send_task_failure(
                taskToken=token, error=error[:ERROR_CHARS], cause=cause[:CAUSE_CHARS]
            )
            return True
        return False

    def _look(self, ref: str) -> int:
        """Return the number of callers that have begun, if all of them are done; otherwise 0."""
        row = self._table.get(exec_pk(ref), HEAD, consistent=True) or {}
        begun, done = (set(row.get(name, {"SS": []})["SS"]) for name in ("begun", "done"))
        return len(begun) if begun <= done else 0

    def _now(self) -> Item:
        return {"S": utc(self._clock.now())}

    def _delete_secret(self, ref: str) -> None:
        with mapped(), tolerated(SECRET_ABSENT, SECRET_GOING):
            self.secrets.delete_secret(
                SecretId=secret_name(self._stage, ref), ForceDeleteWithoutRecovery=True
            )

    def _update(self, ref: str, expression: str, values: Item, **params: Any) -> None:
        """Update the row. Raises botocore's errors."""
        self._table.call(
            "update_item",
            TableName=self._table.name,
            Key=key(exec_pk(ref), HEAD),
            UpdateExpression=expression,
            ExpressionAttributeValues=values,
            **params,
        )
