"""The permissions of all roles: one table, for the roles' policies and docs/reference/access.md.

Rows are scoped by the first word of their partition key, objects by the first word of their key, everything
else by ARN. A transaction needs the actions it consists of and none of its own. AWS does not document whether
it checks each action against that action's key or against all keys of the transaction: a role that opens a
turn, or charges an account, has the actions on all of these rows, which adds no power, since a row that may be put may be changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3

from stepline.model.program.running_log import LOG
from stepline.settings import EMBEDDING_MODEL
from stepline_cdk.key import key_statement, key_uses
from stepline_cdk.owned import FEEDBACK_INDEX, LANE_INDEX, USER_INDEX

TARGETS: Final[Mapping[str, str]] = {
    "rows": "rows of the table whose partition key begins with one of these words",
    "lanes": f"index `{LANE_INDEX}` of the table, for partitions with these names",
    "users": f"keys of index `{USER_INDEX}` of the table that begin with one of these words",
    "feedback": f"keys of index `{FEEDBACK_INDEX}` of the table that begin with one of these words",
    "objects": "objects of the bucket below these prefixes, or with such a key",
    "absence": "the bucket, for keys below these prefixes: without it an object that is not there is a refusal",
    "machine": "the state machine, by a name-built ARN",
    "executions": "its executions",
    "connections": "connections of the websocket API's stage, to post to them",
    "endings": "the same, to close them",
    "model key": "the secrets that `model_secret_arn` and the rows of `model_providers` name",
    "search key": "the secret that `search_secret_arn` names",
    "traces' headers": "the secret that `tracing_secret_arn` names",
    "traces": "everything, where `tracing` is on and no server is named",
    "Redis's URL": "the secret that `redis_secret_arn` names",
    "models": "the models of roles over Converse; and Anthropic's models in the regions of an inference profile, those profiles, and the application inference profiles and "
    "provisioned throughputs that `model_roles` names",
    "memory": "indexes of the vector bucket that `memory=s3_vectors` makes",
    "embedding model": "the one model that makes the vectors of memory, in the deployment's region",
    "aliases": "aliases `live` of these functions",
    "eraser": "alias `live` of the function `eraser`, by a name-built ARN",
    "decide": "alias `live` of the function `decide`, by a name-built ARN",
    "serve": "alias `live` of the function `serve`, by a name-built ARN",
    "handovers": "secrets `stepline/<stage>/exec/*`",
    "tools' secrets": "secrets `stepline/<stage>/secret/*`",
    "tasks": "tasks of the deployment's cluster",
    "cluster": "everything, on condition that it is in the deployment's cluster",
    "undelivered": "the dead-letter queue of this function, into which Lambda puts what it failed",
    "log deliveries": "everything, since a delivery of logs has no resource",
    "task definition": "every revision of the deployment's task definition, on condition of its cluster",
    "task roles": "the task's two roles, to be passed to ECS",
    "repository": "the image's repository, if it is one of ECR",
    "network": "the subnets and security groups of the functions' VPC, and network interfaces",
    "interfaces": "everything that the account has of EC2 in the region, of which the actions concern network interfaces alone",
    "networks": "everything, where `vpc` is chosen",
}
"""The targets of rights, as named on the page."""

_DELIVERS: Final = (
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery"),
    *("logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:DescribeResourcePolicies"),
    "logs:DescribeLogGroups",
)
"""Source: docs.aws.amazon.com/step-functions, "IAM policies for logging to CloudWatch Logs"."""

UNSCOPED: Final[Mapping[str, str]] = {
    "ecs:ListTasks": "knows no resource for tasks; a condition names the cluster",
    **dict.fromkeys(
        ("ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"),
        "knows no resource; Lambda looks for the network interfaces of functions in a VPC",
    ),
    "xray:PutTraceSegments": "knows no resource; it adds spans, and reads none",
    **dict.fromkeys(
        _DELIVERS,
        "Step Functions delivers the log of executions that fail by the machine's role, and asks for this on everything",
    ),
    "ecr:GetAuthorizationToken": "knows no resource; what may be pulled is said beside it",
}
"""The actions on `*`, for which AWS offers no narrower resource, each with its other limit."""

OWN_MODEL: Final = re.compile(r"^arn:[^:]+:bedrock:.*:(application-inference-profile|provisioned-model)/")
"""An account's own resource that models are called by; its ARN does not contain the model's name."""

TASKS: Final = "tasks"
"""Only where programs run in tasks."""


class Right(NamedTuple):
    """Actions of one service on one kind of target.

    `of` are words, prefixes or functions, `only` a condition.
    """

    actions: tuple[str, ...]
    on: str
    of: tuple[str, ...] = ()
    only: str = ""


def _right(service: str, actions: str, on: str, *of: str, only: str = "") -> Right:
    return Right(tuple(f"{service}:{action}" for action in actions.split()), on, of, only)


def _rows(only: str = "", /, **actions: str) -> tuple[Right, ...]:
    """Return one right for all actions with the same words."""
    words: dict[str, list[str]] = {}
    for word, names in actions.items():
        for name in names.split():
            words.setdefault(name, []).append(f"{word}#*")
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, found in words.items():
        groups.setdefault(tuple(found), []).append(name)
    return tuple(_right("dynamodb", " ".join(names), "rows", *of, only=only) for of, names in groups.items())


def _objects(*, reads: str = "", writes: str = "", deletes: str = "", finds: str = "") -> tuple[Right, ...]:
    return tuple(
        _right("s3", action, on, *classes.split())
        for action, on, classes in (
            ("GetObject", "objects", reads),
            ("PutObject", "objects", writes),
            ("DeleteObject", "objects", deletes),
            ("ListBucket", "absence", finds),
        )
        if classes
    )


_POSTS: Final = _right("execute-api", "ManageConnections", "connections")
_STARTS: Final = _right("states", "StartExecution", "machine")
_INTERRUPTS: Final = (
    # Its row says whether the running program is in a task.
    *_rows(EXEC="GetItem"),
    *_rows(TASKS, EXEC="UpdateItem"),
    _right("secretsmanager", "DeleteSecret", "handovers", only=TASKS),
    _right("ecs", "DescribeTasks StopTask", "tasks", only=TASKS),
    _right("ecs", "ListTasks", "cluster", only=TASKS),
    _right("states", "SendTaskFailure", "machine", only=TASKS),
)
"""For roles that admit events, or erase: a steer ends the program of a task, as does the end of its conversation."""

_TELLS: Final = _right("secretsmanager", "GetSecretValue", "Redis's URL")
"""For roles that notify followers."""

_ASKS: Final = (
    _right("secretsmanager", "GetSecretValue", "model key"),
    _right("bedrock", "InvokeModel InvokeModelWithResponseStream", "models"),
)
"""For roles that ask the model."""

_WAKES: Final = _right("lambda", "InvokeFunction", "eraser")
"""For the role that deletes a conversation."""

_REPLAYS: Final = _right("lambda", "InvokeFunction", "decide")
"""For the role that starts replays of rounds: it has no key of the model."""

_SERVED: Final = _right("lambda", "InvokeFunction", "serve")
"""For the role of programs' supervisors: a function makes the calls that need a key."""

_SEARCHES: Final = _right("secretsmanager", "GetSecretValue", "search key")
"""For the role of the tools."""

_KNOWS: Final = _right("secretsmanager", "GetSecretValue", "tools' secrets")
"""For roles whose functions run tools, hooks or resolvers, or ask MCP servers."""

_TRACES: Final = (
    _right("secretsmanager", "GetSecretValue", "traces' headers"),
    _right("xray", "PutTraceSegments", "traces"),
)
"""For roles whose functions send spans."""

_EMBEDS: Final = _right("bedrock", "InvokeModel", "embedding model")
_REMEMBERS: Final = (_right("s3vectors", "CreateIndex PutVectors", "memory"), _EMBEDS)
"""For roles that carry out the effects of a turn's end, in which its compactions are remembered, too."""
_RECALLS: Final = (
    # A query that filters, or returns what is stored beside the vectors, needs both.
    _right("s3vectors", "QueryVectors GetVectors", "memory"),
    _EMBEDS,
)
"""For roles that search memory."""
_FORGETS: Final = _right("s3vectors", "ListVectors GetVectors DeleteVectors", "memory")
"""What is stored beside vectors says whose they are."""

_LOGS: Final = f"exec/*/{LOG}"
"""The logs of running programs; beside them are rights and requests, which are for `act` and `execute`."""

_LOG: Final = "GetItem Query PutItem"
_OPENS: Final = f"{_LOG} UpdateItem ConditionCheckItem"
_TALK: Final = "GetItem Query PutItem UpdateItem DeleteItem ConditionCheckItem"
"""On what is beside the log of a conversation: for roles that admit something, unless it was deleted."""
_FREES: Final = "UpdateItem DeleteItem"
_SLOTS: Final = f"Query PutItem ConditionCheckItem {_FREES}"
"""On slots, for roles that open turns, of which a limited number may run at once; roles that clear a turn's mark only free slots."""
_QUEUE: Final = _SLOTS
"""On queued turns, for roles that enqueue them or start them when a slot of the stage is free."""
_CHARGE: Final = "GetItem PutItem UpdateItem"
"""On what a conversation was charged, for roles that charge accounts with it."""
_ACCOUNT: Final = "PutItem UpdateItem"
_LIMITED: Final = f"BatchGetItem {_ACCOUNT}"
"""On accounts, for roles that also refuse what is beyond a limit."""

_CONTENT: Final = "att out seg exec git store quarantine mem"
"""The objects that the eraser deletes, with all versions: everything but tombstones."""

ACCESS: Final[Mapping[str, tuple[Right, ...]]] = {
    "authorizer": _rows(TICKET="DeleteItem"),
    "api": (
        # Titles and feedback are batches; beside the log are the list, the mark of what was read, and what feedback counts.
        *_rows(
            LOG=_OPENS,
            CONV=_TALK,
            USER="Query DeleteItem",
            DELTA="Query",
            TICKET="PutItem",
            RATE="UpdateItem",
            UPLOAD="GetItem PutItem UpdateItem",
            LIMITS="BatchGetItem PutItem",
            ACCOUNT=_LIMITED,
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            CHARGE=_CHARGE,
            COST="Query PutItem",
            PERSON="GetItem PutItem",
            REPLAY="GetItem Query PutItem DeleteItem",
        ),
        _right("dynamodb", "Query", "users", "USER#*", "RATED#*"),
        _right("dynamodb", "Query", "feedback", "FEEDBACK#*"),
        # What a conversation's log names, and its segments; the long texts of an import, and the segment of a fork. A
        # client posts files with a signature of this role. A stream has the log of a running program.
        *_objects(reads=f"att out seg {_LOGS}", writes="att seg quarantine", finds="exec seg"),
        _WAKES,
        _REPLAYS,
        _STARTS,  # of a turn that waits for the slot of one that was deleted
        *_REMEMBERS,  # the turns of an import
        _POSTS,
        _TELLS,
    ),
    # A user's conversations: rows are read from their logs, packed, and read again. It posts nothing.
    "search": (
        *_rows(LOG="Query", CONV="GetItem", RATE="UpdateItem", COST="PutItem"),
        _right("dynamodb", "Query", "users", "USER#*"),
        *_objects(reads="att out seg mem", writes="mem", finds="mem"),
        *_RECALLS,
    ),
    # A user's conversation as a stream: it reads the log, the running text, and the log of a running program.
    "stream": (
        *_rows(LOG="GetItem Query", CONV="GetItem", DELTA="Query", RATE="UpdateItem"),
        *_objects(reads=f"att out {_LOGS}", finds="exec"),
    ),
    "socket": (
        *_rows(
            LOG=_OPENS,
            CONV=_TALK,
            SOCKET="GetItem PutItem DeleteItem",
            USER="Query PutItem DeleteItem",
            DELTA="Query",
            TICKET="DeleteItem",
            RATE="UpdateItem",
            UPLOAD="GetItem",
            LIMITS="BatchGetItem",
            ACCOUNT=_LIMITED,
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            CHARGE=_CHARGE,
            COST="PutItem",
        ),
        # The objects of a message, of closing a turn that the message finds lost, and the log of a program; segments for
        # feedback, whose turn is looked up.
        *_objects(reads=f"att out seg {_LOGS}", writes="att out", finds="exec"),
        _STARTS,
        _right("states", "DescribeExecution", "executions"),
        _POSTS,
        _TELLS,
        *_INTERRUPTS,
    ),
    # Another service of the account, through the library: it submits events, and reads no answers.
    "events": (
        *_rows(
            LOG=_OPENS,
            CONV=_TALK,
            USER="Query DeleteItem",
            DELTA="Query",
            LIMITS="BatchGetItem",
            ACCOUNT=_LIMITED,
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            CHARGE=_CHARGE,
        ),
        *_objects(reads="att out", writes="att out"),
        _STARTS,
        _right("states", "DescribeExecution", "executions"),
        _POSTS,
        _TELLS,
        *_INTERRUPTS,
    ),
    "decide": (
        *_rows(
            LOG=_LOG,
            CONV="Query DeleteItem",
            USER="DeleteItem",
            DELTA="Query PutItem",
            LIMITS="BatchGetItem",
            ACCOUNT=_LIMITED,
            CHARGE=_CHARGE,
            COST="PutItem",
            REPLAY="GetItem PutItem",
        ),
        *_objects(reads="att out git seg store", writes="out seg store", finds="git store"),
        _POSTS,
        _TELLS,
        *_ASKS,
        _KNOWS,  # MCP servers are asked for their tools
        *_TRACES,
    ),
    "act": (
        # A turn that waits for a person is removed from the index of open lanes, and a queued turn starts.
        *_rows(
            LOG=_OPENS,
            CONV="GetItem Query UpdateItem DeleteItem ConditionCheckItem",
            USER="DeleteItem",
            DELTA="Query PutItem",
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            COST="PutItem",
        ),
        # Its role also signs the URLs of a task's requests. A search of memory reads a user's conversations.
        *_objects(reads="att out exec seg mem store", writes="out exec mem store", finds="exec mem store"),
        _right("dynamodb", "Query", "users", "USER#*"),
        _STARTS,
        _POSTS,
        _TELLS,
        *_ASKS,  # a tool of the bundle may ask the model
        _KNOWS,
        *_TRACES,
        _SEARCHES,
        *_RECALLS,
        *_rows(TASKS, EXEC="GetItem UpdateItem DeleteItem"),
        _right("secretsmanager", "CreateSecret DeleteSecret", "handovers", only=TASKS),
        _right("ecs", "RunTask", "task definition", only=TASKS),
        _right("iam", "PassRole", "task roles", only=TASKS),
        _right("states", "SendTaskFailure", "machine", only=TASKS),
    ),
    # The role of programs' supervisors: it reads the log and what tools need, stores a run's results and what it cost.
    "execute": (
        *_rows(LOG="GetItem Query", COST="PutItem"),
        *_objects(reads="att out exec", writes="out exec", finds="exec"),
        _KNOWS,  # for the tools that a program calls
        _SERVED,
    ),
    # It makes the calls of programs that need a key, and puts nothing into the log.
    "serve": (
        *_rows(
            LOG="GetItem Query",
            CONV="GetItem",
            DELTA="Query PutItem",
            LIMITS="BatchGetItem",
            ACCOUNT="BatchGetItem",
            COST="PutItem",
        ),
        *_objects(reads="att out exec seg mem", writes="out exec mem", finds="exec mem"),
        _right("dynamodb", "Query", "users", "USER#*"),
        *_ASKS,
        _KNOWS,
        *_RECALLS,
    ),
    # The output of a running program: it reads the program's log and posts it.
    "output": (
        *_rows(LOG="Query", CONV="Query DeleteItem", USER="DeleteItem", COST="PutItem"),
        *_objects(reads=_LOGS, finds="exec"),
        _POSTS,
        _TELLS,
    ),
    # A file that a client has uploaded: it is checked, moved to the attachments or deleted, and the result is posted.
    "preflight": (
        *_rows(
            LOG="Query",
            UPLOAD="GetItem UpdateItem",
            CONV="Query DeleteItem",
            USER="DeleteItem",
            # An accepted file counts towards the storage limit of its user.
            LIMITS="BatchGetItem",
            ACCOUNT=_LIMITED,
            CHARGE=_CHARGE,
            COST="PutItem",
        ),
        *_objects(reads="quarantine", writes="att", deletes="quarantine", finds="quarantine"),
        # The tag that GuardDuty's malware protection leaves.
        _right("s3", "GetObjectTagging", "objects", "quarantine"),
        _right("sqs", "SendMessage", "undelivered", "preflight"),
        _POSTS,
        _TELLS,
    ),
    "close": (
        *_rows(
            LOG=_OPENS,
            # The hook after the close may rate the turn.
            CONV=_TALK,
            USER="Query DeleteItem",
            DELTA="Query PutItem",
            ACCOUNT=_ACCOUNT,
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            CHARGE=_CHARGE,
            COST="PutItem",
        ),
        *_objects(reads="att out git seg store", writes="out git store", finds="git store"),
        _STARTS,
        _POSTS,
        _TELLS,
        *_ASKS,  # the bundle's hook after the close may ask the model
        _KNOWS,
        *_TRACES,
        *_REMEMBERS,
    ),
    "sweeper": (
        # It cleans up handovers to tasks even where tasks have been turned off.
        *_rows(
            LOG=_OPENS,
            CONV="GetItem Query UpdateItem DeleteItem ConditionCheckItem",
            USER="Query DeleteItem",
            EXEC="GetItem DeleteItem",
            DELTA="Query",
            ACCOUNT=_ACCOUNT,
            SLOT=_SLOTS,
            QUEUE=_QUEUE,
            CHARGE=_CHARGE,
            COST="PutItem",
        ),
        _right("secretsmanager", "DeleteSecret", "handovers"),
        _right("sqs", "SendMessage", "undelivered", "sweeper"),
        _right("dynamodb", "Query", "lanes", *"0123456789abcdef", "exec"),
        *_objects(reads="att out git seg", writes="out git", finds="git"),
        _STARTS,
        _right("states", "DescribeExecution StopExecution", "executions"),
        _right("states", "ListExecutions", "machine"),
        _POSTS,
        _TELLS,
        *_REMEMBERS,
        *_TRACES,
        _right("ecs", "DescribeTasks StopTask", "tasks", only=TASKS),
        _right("ecs", "ListTasks", "cluster", only=TASKS),
        _right("states", "SendTaskFailure", "machine", only=TASKS),
    ),
    # It removes deleted conversations, and finds their objects in the batches it reads; tombstones and requests stay.
    "eraser": (
        *_rows(
            LOG="GetItem Query PutItem BatchWriteItem",
            CONV="GetItem Query PutItem UpdateItem DeleteItem BatchWriteItem",
            SOCKET="GetItem DeleteItem",
            USER="Query DeleteItem BatchWriteItem",
            TICKET="Query DeleteItem",
            DELTA="Query BatchWriteItem",
            UPLOAD="Query BatchWriteItem",
            COST="Query BatchWriteItem",
            REPLAY="Query BatchWriteItem",
            SLOT=_FREES,
            QUEUE="DeleteItem",
            CHARGE=f"{_CHARGE} Query BatchWriteItem",
            ACCOUNT=f"{_ACCOUNT} Query DeleteItem",
            LIMITS="BatchGetItem DeleteItem",
            PERSON="GetItem PutItem",
        ),
        _right("dynamodb", "Query", "lanes", "erase", "erase_user"),
        _right("dynamodb", "Query", "users", "USER#*"),
        _right("s3", "ListBucketVersions", "absence", *_CONTENT.split()),
        # A request for many versions needs both. Source: S3 API reference, DeleteObjects.
        _right("s3", "DeleteObject DeleteObjectVersion", "objects", *_CONTENT.split()),
        *_objects(reads="mem", writes="mem tomb", finds="mem"),
        _FORGETS,
        _right("execute-api", "ManageConnections", "endings"),
        _right("sqs", "SendMessage", "undelivered", "eraser"),
        _POSTS,
        _TELLS,
        *_INTERRUPTS,
    ),
    "machine": (
        _right("lambda", "InvokeFunction", "aliases", "decide", "act", "execute", "close"),
        Right(_DELIVERS, "log deliveries"),
    ),
}
"""Every principal but the task itself, whose two roles are made by its own stack."""

TRACING: Final = frozenset(name for name, rights in ACCESS.items() if set(_TRACES) <= set(rights))
"""The principals whose functions send spans."""
TELLING: Final = frozenset(name for name, rights in ACCESS.items() if _TELLS in rights)
"""The principals that get the URL of Redis."""
MODEL: Final = frozenset(name for name, rights in ACCESS.items() if set(_ASKS) <= set(rights))
"""The principals that get the key of the model's provider."""
SEARCHING: Final = frozenset(name for name, rights in ACCESS.items() if _SEARCHES in rights)
"""The principals that get the key of the search engine."""
HANDING: Final = frozenset(
    name
    for name, rights in ACCESS.items()
    if any("secretsmanager:CreateSecret" in right.actions for right in rights)
)
"""The principals that hand runs over to tasks."""
WAKING: Final = frozenset(name for name, rights in ACCESS.items() if _WAKES in rights)
"""The principals that invoke the eraser."""
REPLAYING: Final = frozenset(name for name, rights in ACCESS.items() if _REPLAYS in rights)
"""The principals that invoke Decide, for replays."""
SERVED: Final = frozenset(name for name, rights in ACCESS.items() if _SERVED in rights)
"""The principals whose programs have calls made by a function, besides tasks."""
ATTACHES: Final = (
    _right("ec2", "CreateNetworkInterface", "network"),
    _right("ec2", "AssignPrivateIpAddresses DeleteNetworkInterface UnassignPrivateIpAddresses", "interfaces"),
    _right("ec2", "DescribeNetworkInterfaces DescribeSubnets", "networks"),
)
"""For the role of each function in a VPC: Lambda makes and removes the function's network interfaces with it.

Source: docs.aws.amazon.com/lambda, "Giving Lambda functions access to resources in an Amazon VPC", whose managed policy has the
same actions on everything, and which names the resources of DeleteNetworkInterface.
"""
INGRESS: Final = ("authorizer", "socket", "api", "search", "stream")
LOOP: Final = ("decide", "act", "execute", "serve", "output", "preflight", "close", "sweeper", "eraser")


@dataclass(frozen=True, kw_only=True)
class Resources:
    """The resources that rights apply to; a missing one is empty, and no right applies to it."""

    table: dynamodb.ITable
    bucket: s3.IBucket
    machine_arn: str
    executions_arn: str
    connections_arn: str
    endings_arn: str = ""
    model_secrets: tuple[str, ...] = ()
    search_secret_arn: str = ""
    redis_secret_arn: str = ""
    traces_secret_arn: str = ""
    traces: str = ""
    model_arns: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    undelivered: Mapping[str, str] = field(default_factory=dict)
    delivers_logs: bool = False
    eraser_arn: str = ""
    decide_arn: str = ""
    serve_arn: str = ""
    handovers_arn: str = ""
    tools_secrets_arn: str = ""
    memory_arn: str = ""
    embedding_arn: str = ""
    cluster_arn: str = ""
    tasks_arn: str = ""
    task_definition_arn: str = ""
    task_role_arns: tuple[str, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    network_arns: tuple[str, ...] = ()
    interfaces_arn: str = ""


def statements(principal: str, resources: Resources) -> list[iam.PolicyStatement]:
    """Return a principal's rights on these resources as policy statements."""
    functions = (*INGRESS, *LOOP)
    table = (*ACCESS[principal], *(ATTACHES if principal in functions and resources.network_arns else ()))
    rights = [right for right in table if resources.cluster_arn or right.only != TASKS]
    made = [
        iam.PolicyStatement(
            actions=list(right.actions), resources=arns, conditions=_conditions(right, resources)
        )
        for right in rights
        if (arns := _arns(right, resources))
    ]
    return [*made, *_key_statements((action for one in made for action in one.actions), resources.keys)]


def _key_statements(actions: Iterable[str], keys: Mapping[str, str]) -> Iterable[iam.PolicyStatement]:
    """Yield the rights on the owner's keys that follow from these actions."""
    for action, services in key_uses(actions).items():
        for key in dict.fromkeys(keys[service] for service in services if service in keys):
            yield key_statement(key, action, [one for one in services if keys.get(one) == key])


def _arns(right: Right, resources: Resources) -> list[str]:
    match right.on:
        case "objects":
            keys = [name if "/" in name else f"{name}/*" for name in right.of]
            return [resources.bucket.arn_for_objects(key) for key in keys]
        case "aliases" | "undelivered":
            there = resources.aliases if right.on == "aliases" else resources.undelivered
            return [there[name] for name in right.of if name in there]
        case "models" | "model key":
            return list(resources.model_arns if right.on == "models" else resources.model_secrets)
        case "task roles":
            return list(resources.task_role_arns)
        case "network":
            return list(resources.network_arns)
        case on:
            named = {
                "rows": resources.table.table_arn,
                "lanes": f"{resources.table.table_arn}/index/{LANE_INDEX}",
                "users": f"{resources.table.table_arn}/index/{USER_INDEX}",
                "feedback": f"{resources.table.table_arn}/index/{FEEDBACK_INDEX}",
                "absence": resources.bucket.bucket_arn,
                "eraser": resources.eraser_arn,
                "decide": resources.decide_arn,
                "serve": resources.serve_arn,
                "machine": resources.machine_arn,
                "executions": resources.executions_arn,
                "connections": resources.connections_arn,
                "endings": resources.endings_arn,
                "search key": resources.search_secret_arn,
                "traces' headers": resources.traces_secret_arn,
                "traces": resources.traces,
                "Redis's URL": resources.redis_secret_arn,
                "handovers": resources.handovers_arn,
                "tools' secrets": resources.tools_secrets_arn,
                "memory": resources.memory_arn and f"{resources.memory_arn}/index/*",
                "embedding model": resources.embedding_arn,
                "tasks": resources.tasks_arn,
                "cluster": "*",
                "interfaces": resources.interfaces_arn,
                "networks": "*",
                "log deliveries": "*" if resources.delivers_logs else "",
                "task definition": resources.task_definition_arn,
            }
            return [named[on]] if named[on] else []


def _conditions(right: Right, resources: Resources) -> dict[str, Any]:
    match right.on:
        case "rows" | "users" | "feedback" | "lanes":
            return {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": list(right.of)}}
        case "absence":
            return {"StringLike": {"s3:prefix": [f"{name}/*" for name in right.of]}}
        case "cluster" | "task definition":
            return {"ArnEquals": {"ecs:cluster": resources.cluster_arn}}
        case "task roles":
            return {"StringEquals": {"iam:PassedToService": "ecs-tasks.amazonaws.com"}}
        case _:
            return {}


_GEOGRAPHY: Final = re.compile(r"^(us-gov|us|eu|apac|global|jp|au|ca)\.")


def converse_arns(stack: cdk.Stack, models: Iterable[str]) -> tuple[str, ...]:
    """Return the models of other makers that roles name by their ids, and the profiles that route to them, or their ARNs."""
    found: list[str] = []
    for model in models:
        if model.startswith("arn:"):
            found.append(model)
            continue
        own = _GEOGRAPHY.sub("", model)
        found.append(f"arn:{stack.partition}:bedrock:*::foundation-model/{own}")
        if own != model:
            found.append(
                f"arn:{stack.partition}:bedrock:{stack.region}:{stack.account}:inference-profile/{model}"
            )
    return tuple(found)


def bedrock_arns(stack: cdk.Stack, models: Iterable[str] = ()) -> tuple[str, ...]:
    """Return Anthropic's models in every region that an inference profile may route to, and those profiles.

    Of `models`, the names of the roles' models, those that are a profile or a throughput of the account come as well:
    a call by a profile needs the profile and the models that it routes to. A global profile routes to models without a
    region, which `*` includes. Source: docs.aws.amazon.com/bedrock, "Prerequisites for inference profiles".
    """
    return (
        f"arn:{stack.partition}:bedrock:*::foundation-model/anthropic.*",
        f"arn:{stack.partition}:bedrock:{stack.region}:{stack.account}:inference-profile/*anthropic.*",
        *sorted({model for model in models if OWN_MODEL.search(model)}),
    )


def embedding_arn(stack: cdk.Stack) -> str:
    """Return the model that makes the vectors of memory; AWS's own models are in no account."""
    return f"arn:{stack.partition}:bedrock:{stack.region}::foundation-model/{EMBEDDING_MODEL}"
