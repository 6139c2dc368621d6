"""Who may do what: one table of rows, prefixes and calls per function, turned into its role.

Rows are scoped by the first word of their partition key, objects by the first word of their key, calls by ARN.
A transaction needs the actions it is made of and none of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3

from stacks.function import Function
from stacks.state import LANE_INDEX

SEE_ACTIONS: Final = ("GetItem", "Query")
ROW_ACTIONS: Final = ("GetItem", "Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
LOG_ROWS: Final = ("LOG#*", "CONV#*", "DELTA#*", "SOCKET#*")


@dataclass(frozen=True, kw_only=True)
class Access:
    """One function's rights; `reads` and `writes` are prefixes of S3 keys, `machine` names calls on executions.

    `rows` may be read and written, `seen_rows` read only.
    """

    rows: tuple[str, ...] = ()
    seen_rows: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    machine: tuple[str, ...] = ()
    posts: bool = False
    lanes: bool = False
    model: bool = False


ACCESS: Final = {
    "authorizer": Access(),
    "socket": Access(
        rows=LOG_ROWS,
        reads=("att", "out"),
        writes=("att", "out"),  # what a message brings, and the close of a turn it finds lost
        machine=("StartExecution", "DescribeExecution"),
        posts=True,
    ),
    "decide": Access(rows=LOG_ROWS, reads=("att", "out"), writes=("out",), posts=True, model=True),
    "act": Access(rows=LOG_ROWS, reads=("att", "out", "exec"), writes=("out", "exec"), posts=True),
    # The programs' side: it learns from the log and says what came of a run, and nothing else.
    "execute": Access(seen_rows=("LOG#*",), reads=("att", "out", "exec"), writes=("out", "exec")),
    "close": Access(
        rows=LOG_ROWS,
        reads=("att", "out"),
        writes=("out",),
        machine=("StartExecution", "DescribeExecution"),
        posts=True,
    ),
    "sweeper": Access(
        rows=LOG_ROWS,
        reads=("att", "out"),
        writes=("out",),
        machine=("StartExecution", "DescribeExecution", "StopExecution"),
        posts=True,
        lanes=True,
    ),
}


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What rights are given on."""

    table: dynamodb.ITableV2
    bucket: s3.IBucket
    machine_arn: str
    execution_arn: str
    connections_arn: str
    model_secret_arn: str
    model_arns: tuple[str, ...]


def grant(function: Function, resources: Resources) -> None:
    """Write the function's row of the table into its role."""
    access = ACCESS[function.name]
    _grant_rows(function, resources, access.rows, ROW_ACTIONS)
    _grant_rows(function, resources, access.seen_rows, SEE_ACTIONS)
    if access.lanes:
        function.allow(["dynamodb:Query"], [f"{resources.table.table_arn}/index/{LANE_INDEX}"])
    if access.reads:
        function.allow(["s3:GetObject"], _objects(resources.bucket, access.reads))
    if access.writes:
        function.allow(["s3:PutObject"], _objects(resources.bucket, access.writes))
    if starts := [name for name in access.machine if name == "StartExecution"]:
        function.allow([f"states:{name}" for name in starts], [resources.machine_arn])
    if others := [name for name in access.machine if name != "StartExecution"]:
        function.allow([f"states:{name}" for name in others], [resources.execution_arn])
    if access.posts:
        function.allow(["execute-api:ManageConnections"], [resources.connections_arn])
    if access.model and resources.model_secret_arn:
        function.allow(["secretsmanager:GetSecretValue"], [resources.model_secret_arn])
    if access.model and resources.model_arns:
        function.allow(
            ["bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"], list(resources.model_arns)
        )


def _grant_rows(
    function: Function, resources: Resources, rows: tuple[str, ...], actions: Iterable[str]
) -> None:
    if rows:
        function.allow(
            [f"dynamodb:{action}" for action in actions],
            [resources.table.table_arn],
            {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(rows)}},
        )


def function_names(*, executes: bool) -> list[str]:
    """Return the functions of a deployment; only one that runs programs has `execute`."""
    return [name for name in ACCESS if executes or name != "execute"]


def bedrock_arns(stack: cdk.Stack) -> tuple[str, ...]:
    """Return Anthropic's models in every region an inference profile may route to, and those profiles."""
    return (
        f"arn:{stack.partition}:bedrock:*::foundation-model/anthropic.*",
        f"arn:{stack.partition}:bedrock:{stack.region}:{stack.account}:inference-profile/*anthropic.*",
    )


def _objects(bucket: s3.IBucket, classes: Iterable[str]) -> list[str]:
    return [bucket.arn_for_objects(f"{name}/*") for name in classes]
