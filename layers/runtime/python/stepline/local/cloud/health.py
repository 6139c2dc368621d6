"""Health of a deployed stage as AWS reports it; the checkout's saved state is not trusted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError
from msgspec import field
from msgspec.structs import replace

from stepline.adapters.system import SystemClock
from stepline.local.check import Check, failed, judged, passed, warned
from stepline.local.cloud.account import AwsAccount, aws_error_code, look
from stepline.local.cloud.checks.capacity import check_readers, check_turns
from stepline.local.cloud.checks.domain_check import HOSTS, check_domains
from stepline.local.cloud.checks.page_check import check_page
from stepline.local.cloud.checks.probe import check_isolation
from stepline.local.cloud.deployment import Deployment
from stepline.local.counted import counted
from stepline.model.base import Value

OUTPUTS: Final = ("WebSocketUrl", "HttpUrl", "TableName", "BucketName", "MachineArn")
UNDER_WAY: Final = ("CREATE_IN_PROGRESS", "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
ABSENT: Final = "ValidationError"
"""CloudFormation's code for a stack that does not exist."""
RUNBOOK: Final = "docs/how-to/runbook.md"
PROTECTION_PLAN: Final = "AWS::GuardDuty::MalwareProtectionPlan"
SCANNER: Final = "APP_AV_SCAN"
SCAN_UPLOADS: Final = "-c av=guardduty scans them, without a server; docs/how-to/uploads.md#malware"
NAME_A_TOPIC: Final = "add a topic: -c alarm_topic_arn=arn:aws:sns:…"

STACKS: Final = ("edge", "state", "ingress", "exec", "loop", "page")
"""The stacks of a stage, by the word that follows its name."""


class Stack(Value):
    """A deployed stack; of one of the user's the part that is an agent's, whose ids begin with `prefix`."""

    name: str
    status: str
    outputs: dict[str, str] = field(default_factory=dict)
    prefix: str = ""


class DeployedResource(Value):
    """A deployed resource; `physical_id` is its name or ARN."""

    stack: str
    logical_id: str
    physical_id: str
    type: str


def stack_name(stage: str, word: str) -> str:
    """Return the name of one of the `STACKS` of a stage."""
    return f"stepline-{stage}-{word}"


def find_stacks(account: AwsAccount, stage: str, known: Deployment | None = None) -> list[Stack]:
    """Return the stacks of a stage, or that of a known agent in an app of the user's. Raises botocore's errors.

    By their names: to list all stacks takes a right on those of others.
    """
    if known and known.stack:
        own = find_stack(account, known.stack)
        return (
            [replace(own, outputs=own_outputs(own.outputs, known.prefix), prefix=known.prefix)] if own else []
        )
    found = (find_stack(account, stack_name(stage, word)) for word in STACKS)
    return [stack for stack in found if stack]


def own_outputs(outputs: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the outputs of an agent by their own names."""
    return {key.removeprefix(prefix): value for key, value in outputs.items() if key.startswith(prefix)}


def find_stack(account: AwsAccount, name: str) -> Stack | None:
    """Return a stack by its name; None if there is none. Raises botocore's errors."""
    try:
        (stack,) = account.client("cloudformation").describe_stacks(StackName=name)["Stacks"]
    except ClientError as error:
        if aws_error_code(error) != ABSENT:
            raise
        return None
    return Stack(
        name=name,
        status=stack["StackStatus"],
        outputs={output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])},
    )


def is_deployed(account: AwsAccount, stage: str) -> bool:
    """Return True if the stage is deployed; False if its stacks cannot be read."""
    try:
        return bool(find_stacks(account, stage))
    except (BotoCoreError, ClientError):  # a deployment follows, which reports the error itself
        return False


def find_resources(account: AwsAccount, stacks: Sequence[Stack]) -> list[DeployedResource]:
    """Return the resources of the stacks. Raises botocore's errors."""
    pages = account.client("cloudformation").get_paginator("list_stack_resources")
    return [
        DeployedResource(
            stack=stack.name,
            logical_id=found["LogicalResourceId"],
            physical_id=found["PhysicalResourceId"],
            type=found["ResourceType"],
        )
        for stack in stacks
        for page in pages.paginate(StackName=stack.name)
        for found in page["StackResourceSummaries"]
        if found.get("PhysicalResourceId") and _is_of(stack, found["LogicalResourceId"])
    ]


def _is_of(stack: Stack, logical_id: str) -> bool:
    """Return True if a resource is of a stage's stack, or of the agent's parts in another one."""
    return not stack.prefix or logical_id.startswith(
        tuple(f"{stack.prefix}{word.title()}" for word in STACKS)
    )


def health(account: AwsAccount, stage: str, known: Deployment | None = None) -> list[Check]:
    """Return all checks of a deployed stage; only the first if it does not exist. `known` is what this machine knows of it."""
    stacks: list[Stack] = []
    resources: list[DeployedResource] = []

    def question() -> Check:
        stacks.extend(find_stacks(account, stage, known))
        resources.extend(find_resources(account, stacks))
        return check_stacks(stage, stacks)

    first = look("stacks", "cloudformation:DescribeStacks and cloudformation:ListStackResources", question)
    if not stacks:
        return _of_app([first], stage, known)
    outputs = {key: value for stack in stacks for key, value in stack.outputs.items()}
    checks: list[Callable[[], Check]] = [
        lambda: check_outputs(stage, outputs),
        *([lambda: check_table(account, outputs["TableName"])] if "TableName" in outputs else []),
        *([lambda: check_machine(account, outputs["MachineArn"])] if "MachineArn" in outputs else []),
        lambda: check_page(stage, outputs),
        *([lambda: check_domains(outputs)] if HOSTS.keys() & outputs.keys() else []),
        lambda: check_pool(account, outputs.get("UserPoolId", "")),
        lambda: check_isolation(account, outputs, SystemClock()),
    ]
    if resources:
        checks += [
            lambda: check_functions(account, _ids(resources, "AWS::Lambda::Alias")),
            lambda: check_turns(account, stage, outputs.get("TableName", "")),
            lambda: check_readers(account, stage),
            lambda: check_scan(
                account, stage, outputs.get("TableName", ""), _ids(resources, PROTECTION_PLAN)
            ),
            lambda: check_alarms(account, stage, _ids(resources, "AWS::CloudWatch::Alarm")),
        ]
    return _of_app([first, *(check() for check in checks)], stage, known)


def _of_app(checks: list[Check], stage: str, known: Deployment | None) -> list[Check]:
    """Return the checks; those of an agent in an app of the user's say how that one is deployed."""
    if not (known and known.stack):
        return checks
    ours, own = f"stepline deploy --stage {stage}", f"cdk deploy {known.stack}"
    return [replace(check, remedy=check.remedy.replace(ours, own)) for check in checks]


def check_stacks(stage: str, stacks: Sequence[Stack]) -> Check:
    """Check the result of the last deployment."""
    if not stacks:
        return failed(
            "stacks",
            f"there is no stack of stage {stage}",
            f"stepline deploy --stage {stage} (or another --region, --profile)",
        )
    odd = [stack for stack in stacks if stack.status not in ("CREATE_COMPLETE", "UPDATE_COMPLETE")]
    detail = ", ".join(f"{stack.name} {stack.status}" for stack in odd or stacks)
    if odd and all(stack.status in UNDER_WAY for stack in odd):
        return warned("stacks", detail, "wait: a deployment is running")
    # After a rolled back update the previous release still runs; after a rolled back creation there is none.
    remedy = (
        f"stepline deploy --stage {stage}; why it failed:"
        f" aws cloudformation describe-stack-events --stack-name {odd[0].name}"
        if odd
        else ""
    )
    return Check(name="stacks", ok=not odd, detail=detail, remedy=remedy)


def check_outputs(stage: str, outputs: dict[str, str]) -> Check:
    """Check that the stacks have the outputs that clients need."""
    missing = [name for name in OUTPUTS if not outputs.get(name)]
    detail = f"missing: {', '.join(missing)}" if missing else outputs["WebSocketUrl"]
    return judged("outputs", not missing, detail, f"stepline deploy --stage {stage}")


def check_table(account: AwsAccount, table: str) -> Check:
    """Check that the log's table is writable, and has the settings that a restored table may lack."""

    def question() -> Check:
        client = account.client("dynamodb")
        status = client.describe_table(TableName=table)["Table"]["TableStatus"]
        if status not in ("ACTIVE", "UPDATING"):
            return failed("table", f"{table} {status}", "wait; this table has the only copy of the log")
        backups = client.describe_continuous_backups(TableName=table)["ContinuousBackupsDescription"]
        expiry = client.describe_time_to_live(TableName=table)["TimeToLiveDescription"]["TimeToLiveStatus"]
        recovery = backups.get("PointInTimeRecoveryDescription", {}).get("PointInTimeRecoveryStatus")
        lacking = [
            *([] if recovery == "ENABLED" else ["point-in-time recovery"]),
            *([] if expiry in ("ENABLED", "ENABLING") else ["expiry of rows"]),
        ]
        if lacking:
            return warned(
                "table",
                f"{table} {status}, without {' and '.join(lacking)}",
                "docs/how-to/restore.md#by-hand",
            )
        return passed("table", f"{table} {status}")

    needed = "dynamodb:DescribeTable, DescribeContinuousBackups and DescribeTimeToLive"
    return look("table", needed, question)


def check_machine(account: AwsAccount, arn: str) -> Check:
    """Check that the state machine is active."""

    def question() -> Check:
        status = account.client("stepfunctions").describe_state_machine(stateMachineArn=arn)["status"]
        return judged("machine", status == "ACTIVE", f"{arn} {status}", "deploy again")

    return look("machine", "states:DescribeStateMachine", question)


def check_functions(account: AwsAccount, aliases: Sequence[str]) -> Check:
    """Check that every function is ready under its alias, the name that all callers use."""

    def question() -> Check:
        client = account.client("lambda")
        states = {
            alias.partition(":function:")[2]: client.get_function_configuration(FunctionName=alias).get(
                "State", "Active"
            )
            for alias in aliases
        }
        # A function without calls for weeks is inactive, and becomes active with the next call.
        odd = {alias: state for alias, state in states.items() if state not in ("Active", "Inactive")}
        waiting = bool(odd) and set(odd.values()) == {"Pending"}
        alive = bool(states) and not odd
        return Check(
            name="functions",
            ok=alive or waiting,
            note="warn" if waiting else "",
            detail=", ".join(f"{alias} {state}" for alias, state in odd.items()) or f"{len(states)} ready",
            remedy="" if alive else "wait a minute" if waiting else f"deploy again; {RUNBOOK}",
        )

    return look("functions", "lambda:GetFunctionConfiguration", question)


def check_pool(account: AwsAccount, pool: str) -> Check:
    """Check that the stage has users who can sign in."""
    if not pool:
        return passed("users", "tokens come from your own issuer")

    def question() -> Check:
        found = account.client("cognito-idp").describe_user_pool(UserPoolId=pool)["UserPool"]
        users = int(found.get("EstimatedNumberOfUsers", 0))
        return Check(
            name="users",
            ok=True,
            note="" if users else "warn",
            detail=f"{pool} has {'about ' if users else ''}{counted(users, 'user')}",
            remedy="" if users else "create one: docs/how-to/deploy.md#users",
        )

    return look("users", "cognito-idp:DescribeUserPool", question)


def check_alarms(account: AwsAccount, stage: str, names: Sequence[str]) -> Check:
    """Report the alarms in state ALARM; warn if none of them has a topic."""
    if not names:
        return passed("alarms", "the stage has no alarms (-c alarms=true)")

    def question() -> Check:
        pages = account.client("cloudwatch").get_paginator("describe_alarms")
        found = [alarm for page in pages.paginate(AlarmNames=list(names)) for alarm in page["MetricAlarms"]]
        ringing = sorted(alarm["AlarmName"] for alarm in found if alarm["StateValue"] == "ALARM")
        if not ringing and not any(alarm.get("AlarmActions") for alarm in found):
            return warned("alarms", f"none of {len(names)} is in alarm, and they have no topic", NAME_A_TOPIC)
        return Check(
            name="alarms",
            ok=not ringing,
            detail=f"in alarm: {', '.join(ringing)}" if ringing else f"none of {len(names)} is in alarm",
            remedy=", ".join(f"{RUNBOOK}#{name.removeprefix(f'stepline-{stage}-')}" for name in ringing),
        )

    return look("alarms", "cloudwatch:DescribeAlarms", question)


def check_scan(account: AwsAccount, stage: str, table: str, plans: Sequence[str]) -> Check:
    """Check that uploads are scanned for malware, if the stage keeps its data.

    `table` is the stage's log table, whose protection shows that; `plans` are the ids of GuardDuty's protection plans.
    """

    def question() -> Check:
        judge = account.client("lambda").get_function_configuration(
            FunctionName=f"stepline-{stage}-preflight:live"
        )
        scanner = judge.get("Environment", {}).get("Variables", {}).get(SCANNER) or "none"
        if scanner == "guardduty":
            return _check_plans(account, stage, plans)
        if scanner == "none" and table:
            found = account.client("dynamodb").describe_table(TableName=table)["Table"]
            if found.get("DeletionProtectionEnabled"):
                return warned("scan", "the stage keeps its data, and uploads are not scanned", SCAN_UPLOADS)
        return passed("scan", f"uploads are scanned by {scanner}" if scanner != "none" else "off")

    needed = "lambda:GetFunctionConfiguration, dynamodb:DescribeTable and guardduty:GetMalwareProtectionPlan"
    return look("scan", needed, question, vital=False)


def _check_plans(account: AwsAccount, stage: str, plans: Sequence[str]) -> Check:
    """Check that a plan scans: without one, or with one in error, every upload waits for a finding in vain."""
    again = f"stepline deploy --stage {stage}"
    if not plans:
        return failed("scan", "uploads wait for GuardDuty, and the stage has no protection plan", again)
    for plan in plans:
        found = account.client("guardduty").get_malware_protection_plan(MalwareProtectionPlanId=plan)
        if found["Status"] != "ACTIVE":
            reasons = "; ".join(
                f"{reason.get('Code', '')}: {reason.get('Message', '')}"
                for reason in found.get("StatusReasons", [])
            )
            return failed("scan", f"the plan {plan} is {found['Status']}: {reasons}", again)
    return passed("scan", f"uploads are scanned by guardduty, plan {', '.join(plans)}")


def _ids(resources: Sequence[DeployedResource], kind: str) -> list[str]:
    return [resource.physical_id for resource in resources if resource.type == kind]
