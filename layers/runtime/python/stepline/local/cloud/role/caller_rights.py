"""The rights of the caller of the commands on a stage in AWS: one table, for a role and a page.

What the CDK does, its own roles do, which the bootstrap created; the caller assumes them. Everything else is by the
library, on resources of the one stage. Source: Service Authorization Reference, by service.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from msgspec import field

from stepline.local.cloud.health import STACKS, stack_name
from stepline.local.cloud.readiness import BOOTSTRAP_PARAMETER, OWN_MODEL, QUALIFIER, QUALIFIER_KEY
from stepline.local.cloud.stage_choices import RECORD
from stepline.model.base import Value
from stepline.settings import KEYED, TABLE

FUNCTIONS: Final = (
    *("authorizer", "socket", "api", "search", "stream"),
    *("decide", "act", "execute", "serve", "output", "preflight", "close", "sweeper", "eraser"),
    *("exec-image", "page-upload", "version-sweep"),
)
"""The functions of a stage, after `stepline-<stage>-`. A pattern of all would include those of a stage `<stage>-two`."""
EVERYTHING: Final = "everything: AWS offers no narrower resource"
_SUB: Final = "Fn::Sub"
_ARN: Final = "arn:${{AWS::Partition}}:{service}:${{AWS::Region}}:${{AWS::AccountId}}:{resource}"
_ROLE: Final = "arn:${{AWS::Partition}}:iam::${{AWS::AccountId}}:role/{name}"


class StagePlace(Value):
    """A stage, with what its rights depend on: its choices, and the outputs of its last deployment, if there was one."""

    stage: str
    context: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)


class CallerRight(NamedTuple):
    """Actions of one service on a target, for commands. `on` is a key of `RESOURCES`, or a text for the page alone."""

    commands: str
    service: str
    actions: str
    on: str
    why: str


RIGHTS: Final = (
    CallerRight("deploy, restore, destroy", "sts", "AssumeRole", "CDK's roles", "what the CDK does"),
    CallerRight(
        "deploy, doctor", "ssm", "GetParameter", "bootstrap's version", "whether the account is bootstrapped"
    ),
    CallerRight(
        "deploy, doctor", "ssm", "GetParameter", "stage's record", "the choices that it was deployed with"
    ),
    CallerRight(
        "deploy, doctor, rollback, destroy",
        "cloudformation",
        "DescribeStacks DescribeStackEvents",
        "stacks",
        "the stage as it is, and why a deployment failed",
    ),
    CallerRight(
        "deploy, doctor",
        "cloudfront",
        "ListDistributions",
        EVERYTHING,
        "whether CloudFront serves the account",
    ),
    CallerRight(
        "deploy, doctor",
        "servicequotas",
        "GetServiceQuota",
        EVERYTHING,
        "the quotas of builds and of programs",
    ),
    CallerRight("deploy, doctor", "lambda", "GetAccountSettings", EVERYTHING, "how many turns run at once"),
    CallerRight(
        "deploy, doctor", "lambda", "GetFunctionConcurrency", "functions", "how many of them are the stage's"
    ),
    CallerRight(
        "deploy, rollback",
        "lambda",
        "GetAlias UpdateAlias CreateAlias",
        "functions",
        "the versions that served before, and the return to them",
    ),
    CallerRight("deploy, doctor", "secretsmanager", "GetSecretValue", "model's key", "whether it has a key"),
    CallerRight(
        "deploy, doctor",
        "bedrock",
        "ListInferenceProfiles ListFoundationModels",
        "models of Bedrock",
        "whether it offers the models",
    ),
    CallerRight(
        "deploy, doctor",
        "bedrock",
        "GetInferenceProfile GetProvisionedModelThroughput",
        "account's models",
        "which models they call",
    ),
    CallerRight(
        "deploy",
        "cognito-idp",
        "AdminCreateUser AdminSetUserPassword AdminInitiateAuth AdminDeleteUser",
        "user pool",
        "the user of the first turn",
    ),
    CallerRight(
        "doctor, prove",
        "lambda",
        "GetFunctionConfiguration",
        "the stage's functions",
        "whether they are ready, and their settings",
    ),
    CallerRight(
        "doctor",
        "dynamodb",
        "DescribeTable DescribeContinuousBackups DescribeTimeToLive Query",
        "the stage's table",
        "its settings, and the queued turns",
    ),
    CallerRight(
        "doctor", "guardduty", "GetMalwareProtectionPlan", "the stage's plan", "whether uploads are scanned"
    ),
    CallerRight(
        "doctor, prove",
        "states",
        "DescribeStateMachine",
        "the stage's machine",
        "whether it is active, and its revision",
    ),
    CallerRight("doctor", "cognito-idp", "DescribeUserPool", "the stage's pool", "whether it has users"),
    CallerRight("doctor", "cloudwatch", "DescribeAlarms", EVERYTHING, "alarms that ring"),
    CallerRight(
        "doctor",
        "ecs",
        "RunTask StopTask DescribeTasks DescribeTaskDefinition",
        "the stage's tasks",
        "the line `programs`",
    ),
    CallerRight("doctor", "iam", "PassRole", "the two roles of the task", "the same"),
    CallerRight("doctor", "logs", "GetLogEvents", "the tasks' log group", "the same"),
    CallerRight(
        "doctor, rollback, destroy",
        "cloudformation",
        "ListStackResources",
        "the stage's stacks",
        "what they have",
    ),
    CallerRight("destroy", "cloudformation", "GetTemplate", "the stage's stacks", "what outlives them"),
    CallerRight(
        "destroy",
        "s3",
        "ListBucketVersions DeleteObject DeleteObjectVersion",
        "the stage's buckets",
        "a bucket is deleted when it is empty",
    ),
    CallerRight("destroy", "s3vectors", "ListIndexes DeleteIndex", "the stage's vector bucket", "the same"),
    CallerRight(
        "restore",
        "dynamodb",
        "RestoreTableToPointInTime DescribeContinuousBackups UpdateContinuousBackups DescribeTable UpdateTable"
        " DescribeTimeToLive UpdateTimeToLive Scan Query GetItem PutItem UpdateItem DeleteItem BatchWriteItem",
        "the stage's table, and the restored one",
        "the new table, and what was deleted since",
    ),
    CallerRight(
        "restore",
        "s3",
        "ListBucketVersions GetObject GetObjectVersion PutObject DeleteObject DeleteObjectVersion",
        "the stage's bucket",
        "objects that the restored log names",
    ),
    CallerRight("prove", "lambda", "ListFunctions", EVERYTHING, "which functions are the stage's"),
    CallerRight("prove", "states", "StopExecution", "the stage's executions", "the row `kill`"),
    CallerRight(
        "prove",
        "lambda",
        "GetAlias UpdateAlias UpdateFunctionConfiguration PublishVersion DeleteFunction",
        "`decide` and `close`",
        "the row `upgrade`",
    ),
    CallerRight("prove", "ecs", "ListTasks StopTask", "the stage's tasks", "the row `task-kill`"),
    CallerRight("prove", "dynamodb", "DescribeContinuousBackups", "the stage's table", "the row `recovery`"),
    CallerRight("prove", "s3", "GetBucketVersioning", "the stage's bucket", "the same"),
    CallerRight("prove", "ce", "GetCostAndUsage", EVERYTHING, "the row `bill`"),
    CallerRight(
        "secrets",
        "secretsmanager",
        "CreateSecret GetSecretValue PutSecretValue DeleteSecret TagResource UntagResource ListSecrets",
        "secrets `stepline/<stage>/secret/*`, and the list of all",
        "what tools read",
    ),
)


def _arn(service: str, resource: str) -> str:
    return _ARN.format(service=service, resource=resource)


def _cdk_roles(place: StagePlace) -> list[str]:
    """Return the roles that `cdk deploy` assumes; it looks nothing up, so not the one that may read the whole account."""
    qualifier = place.context.get(QUALIFIER_KEY, QUALIFIER)
    builds_here = place.context.get("exec_image") == "asset"
    kinds = ("deploy", "file-publishing", *(("image-publishing",) if builds_here else ()))
    return [
        _ROLE.format(name=f"cdk-{qualifier}-{kind}-role-${{AWS::AccountId}}-${{AWS::Region}}")
        for kind in kinds
    ]


def _functions(place: StagePlace, *qualifiers: str) -> list[str]:
    named = [f"function:stepline-{place.stage}-{name}" for name in FUNCTIONS]
    return [_arn("lambda", f"{function}{qualifier}") for function in named for qualifier in qualifiers]


def _own_models(place: StagePlace) -> list[str]:
    roles = TABLE["model_roles"].parse(place.context.get("model_roles", "")).values()
    named = {model for role in roles for model in (role.model, role.fallback)}
    return sorted(model for model in named if OWN_MODEL.match(model)) if _on_bedrock(place) else []


def _on_bedrock(place: StagePlace) -> bool:
    return place.context.get("model_provider", "anthropic") not in KEYED


def _bootstrap(place: StagePlace) -> list[str]:
    qualifier = place.context.get(QUALIFIER_KEY, QUALIFIER)
    return [_arn("ssm", f"parameter{BOOTSTRAP_PARAMETER.format(qualifier)}")]


def _record(place: StagePlace) -> list[str]:
    return [_arn("ssm", f"parameter{RECORD.format(place.stage)}")]


def _stacks(place: StagePlace) -> list[str]:
    return [_arn("cloudformation", f"stack/{stack_name(place.stage, word)}/*") for word in STACKS]


def _model_key(place: StagePlace) -> list[str]:
    secret = "" if _on_bedrock(place) else place.context.get("model_secret_arn", "")
    rows = TABLE["model_providers"].parse(place.context.get("model_providers", "")).values()
    return sorted({one for one in (secret, *(row.secret_arn for row in rows)) if one})


def _pool(place: StagePlace) -> list[str]:
    pool = place.outputs.get("UserPoolId", "*")
    return [] if place.context.get("oidc_issuer") else [_arn("cognito-idp", f"userpool/{pool}")]


RESOURCES: Final[Mapping[str, Callable[[StagePlace], list[str]]]] = {
    EVERYTHING: lambda _place: ["*"],
    "CDK's roles": _cdk_roles,
    "bootstrap's version": _bootstrap,
    "stage's record": _record,
    "stacks": _stacks,
    "functions": lambda place: _functions(place, "", ":*"),
    "model's key": _model_key,
    "models of Bedrock": lambda place: ["*"] if _on_bedrock(place) else [],
    "account's models": _own_models,
    "user pool": _pool,
}
"""The ARNs of a target for a stage, with CloudFormation's pseudo parameters; none if the stage has none of it."""


def _conditions(on: str, place: StagePlace) -> dict[str, Any]:
    if on == "user pool" and "UserPoolId" not in place.outputs:
        # Until a deployment has made the pool, only CloudFormation's tag names it.
        stack = stack_name(place.stage, "state")
        return {"StringEquals": {"aws:ResourceTag/aws:cloudformation:stack-name": stack}}
    return {}


def deploy_statements(place: StagePlace) -> list[dict[str, Any]]:
    """Return the statements of a policy by which a stage can be deployed, in a template of CloudFormation."""
    actions: dict[str, list[str]] = {}
    for right in RIGHTS:
        if "deploy" in right.commands.split(", "):
            named = [f"{right.service}:{action}" for action in right.actions.split()]
            actions.setdefault(right.on, []).extend(named)
    found: list[dict[str, Any]] = []
    for on, named in actions.items():
        if arns := RESOURCES[on](place):
            conditions = _conditions(on, place)
            found.append(
                {
                    "Effect": "Allow",
                    "Action": named,
                    "Resource": [{_SUB: arn} if "${" in arn else arn for arn in arns],
                    **({"Condition": conditions} if conditions else {}),
                }
            )
    return found
