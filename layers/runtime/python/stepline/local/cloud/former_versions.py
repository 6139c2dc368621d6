"""The versions of functions that a deployment replaced: the last one stays for a rollback, older ones are deleted.

A version of a function with a snapshot costs as much as the live one until it is deleted. Stages with snapshots therefore
have a role that deletes the last one too, `ROLLBACK_S` after the deployment. AWS refuses to delete a version that an alias
names, so one that a rollback made live again remains. Source: docs/how-to/deploy.md#by-parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepline.local.cloud.account import AwsAccount, aws_error_code
from stepline.local.stage.cdk import read_templates
from stepline.local.stage.emulator import Progress

ROLLBACK_S: Final = 24 * 3600
"""The time in which a release can be rolled back by its versions."""
GROUP_OUTPUT: Final = "FormerVersionsGroup"
ROLE_OUTPUT: Final = "FormerVersionsRole"
"""The outputs of a stage with snapshots: the group of its schedules, and the role that they delete with."""
ALIAS: Final = "live"
NEWEST: Final = "$LATEST"
_FUNCTION: Final = "AWS::Lambda::Function"
_RETRIES: Final = 2


class VersionPlan(NamedTuple):
    """The versions to delete now, and the one to delete once it is no longer needed for a rollback, if there is one."""

    now: list[int]
    later: int | None


def find_functions(assembly: Path) -> list[str]:
    """Return the names of the functions that have versions, from the templates in `assembly`."""
    return [
        name
        for _, template in read_templates(assembly)
        for resource in template["Resources"].values()
        if resource["Type"] == _FUNCTION
        and isinstance(name := resource["Properties"].get("FunctionName"), str)
    ]


def retire_versions(
    account: AwsAccount,
    functions: Iterable[str],
    outputs: Mapping[str, str],
    now: datetime,
    say: Progress,
) -> None:
    """Delete the versions before the last two, and schedule the end of the one before `live`. Refusals are reported.

    `outputs` are those of the stage; without the role, its versions have no snapshots, and the last one stays until the
    next deployment. `now` is in UTC.
    """
    client = account.client("lambda")
    for function in functions:
        try:
            plan = plan_versions(_versions(client, function), _aliased_versions(client, function))
            for version in plan.now:
                client.delete_function(FunctionName=function, Qualifier=str(version))
            if plan.later is not None and ROLE_OUTPUT in outputs:
                _schedule_end(account, function, plan.later, outputs, now)
        except (BotoCoreError, ClientError) as error:
            say(f"warn: former versions of {function} remain, each may have a snapshot: {error}")


def plan_versions(versions: Iterable[int], named: Iterable[int]) -> VersionPlan:
    """Return the end of each version that is older than all those that the alias names."""
    oldest = min(named)
    older = sorted(version for version in versions if version < oldest)
    return VersionPlan(now=older[:-1], later=older[-1] if older else None)


def _schedule_end(
    account: AwsAccount, function: str, version: int, outputs: Mapping[str, str], now: datetime
) -> None:
    """Let AWS delete a version later; an earlier deployment's schedule for the same version stays."""
    role = outputs[ROLE_OUTPUT]
    partition = role.split(":")[1]
    ends = now + timedelta(seconds=ROLLBACK_S)
    try:
        account.client("scheduler").create_schedule(
            GroupName=outputs[GROUP_OUTPUT],
            Name=f"{function}-{version}",
            ScheduleExpression=f"at({ends:%Y-%m-%dT%H:%M:%S})",
            FlexibleTimeWindow={"Mode": "OFF"},
            ActionAfterCompletion="DELETE",
            Target={
                "Arn": f"arn:{partition}:scheduler:::aws-sdk:lambda:deleteFunction",
                "RoleArn": role,
                "Input": json.dumps({"FunctionName": function, "Qualifier": str(version)}),
                "RetryPolicy": {"MaximumRetryAttempts": _RETRIES},
            },
        )
    except ClientError as error:
        if aws_error_code(error) != "ConflictException":
            raise


def _versions(client: Any, function: str) -> list[int]:
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    return [int(one["Version"]) for page in pages for one in page["Versions"] if one["Version"] != NEWEST]


def _aliased_versions(client: Any, function: str) -> list[int]:
    """Return the versions that the alias points to: two while it moves."""
    alias = client.get_alias(FunctionName=function, Name=ALIAS)
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    return [int(version) for version in (alias["FunctionVersion"], *weights)]
