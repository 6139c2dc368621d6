"""The end of functions' former versions, a day after a release: a function that the stack's own clock calls.

Only a version's end ends its snapshot, which costs as much as the live one's. However a release was deployed, former versions
remain for a day, so that it can be rolled back. Source: docs/how-to/deploy.md#roll-back.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from stepline_cdk.code import RUNTIME
from stepline_cdk.log_group import add_log_group
from stepline_cdk.stage import Stage

_CODE: Final = Path(__file__).with_name("version_sweep.py")
EVERY: Final = cdk.Duration.hours(6)


def add_retirement(scope: Construct, stage: Stage, functions: Iterable[str]) -> None:
    """Add the function for the versions of these functions; on the emulator `stepline up` removes them itself."""
    if stage.is_local:
        return
    folder = Construct(scope, "Retirement")
    role = iam.Role(folder, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    log_group = add_log_group(folder, "Logs", stage, "version-sweep")
    log_group.grant_write(role)
    own = cdk.Stack.of(scope).format_arn(
        service="lambda",
        resource="function",
        resource_name=stage.needed_name("function", "*"),
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    for actions, resource in (
        (["lambda:DeleteAlias", "lambda:ListAliases", "lambda:ListVersionsByFunction"], own),
        # With a qualifier: a version may be deleted, never a function.
        (["lambda:DeleteFunction"], f"{own}:*"),
    ):
        role.add_to_policy(iam.PolicyStatement(actions=actions, resources=[resource]))
    sweep = lambda_.Function(
        folder,
        "Function",
        function_name=stage.needed_name("function", "version-sweep"),
        runtime=RUNTIME,
        architecture=lambda_.Architecture.ARM_64,
        handler="index.handler",
        code=lambda_.Code.from_inline(_CODE.read_text()),
        environment={"FUNCTIONS": ",".join(functions)},
        role=role.without_policy_updates(),
        log_group=log_group,
        timeout=cdk.Duration.minutes(5),
    )
    events.Rule(
        folder,
        "Clock",
        schedule=events.Schedule.rate(EVERY),
        targets=[targets.LambdaFunction(sweep, retry_attempts=0)],
    )
