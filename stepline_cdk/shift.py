"""A gradual release: CodeDeploy shifts each alias, and shifts it back when an alarm goes off.

Two releases then work on one turn for some minutes, as they do while a deployment runs: each reads what the other writes.
Source: docs/how-to/deploy.md#by-parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from constructs import Construct

from stepline_cdk.function import Function
from stepline_cdk.stage import Stage

ROLLBACK: Final = ("edge-errors", "executions-lost", "function-errors", "gateway-errors", "turns-failed")
"""The alarms that move the aliases back: those of what a release can break.

Not `events-undelivered`, which stays on until its queue is emptied, often by the release that fixes the function.
"""
_CONFIGS: Final[Mapping[str, codedeploy.ILambdaDeploymentConfig]] = {
    "canary": codedeploy.LambdaDeploymentConfig.CANARY_10_PERCENT_5_MINUTES,
    "linear": codedeploy.LambdaDeploymentConfig.LINEAR_10_PERCENT_EVERY_1_MINUTE,
}


def add_shift(scope: Construct, stage: Stage, part: str, functions: Iterable[Function]) -> None:
    """Let the aliases of a part's functions move as the stage chose; at once, without resources, by default."""
    if stage.shift not in _CONFIGS:
        return
    folder = Construct(scope, f"{part.title()}Shift")
    role = _role(folder, stage)
    application = codedeploy.LambdaApplication(
        folder, "Application", application_name=stage.optional_name("shift", part)
    )
    # By name: the alarms are in a later part than the first functions.
    alarms = [
        cloudwatch.Alarm.from_alarm_name(
            folder, name.title().replace("-", ""), stage.needed_name("alarm", name)
        )
        for name in ROLLBACK
    ]
    for function in functions:
        group = codedeploy.LambdaDeploymentGroup(
            folder,
            function.name.title(),
            application=application,
            alias=function.live,
            deployment_config=_CONFIGS[stage.shift],
            # Without updates: the construct would add AWS's own policy, which names every function of the account.
            role=role.without_policy_updates(),
            alarms=alarms,
            auto_rollback=codedeploy.AutoRollbackConfig(
                deployment_in_alarm=True, failed_deployment=True, stopped_deployment=True
            ),
        )
        # With its rights: CodeDeploy uses them as soon as the group exists.
        group.node.add_dependency(role)


def _role(folder: Construct, stage: Stage) -> iam.Role:
    role = iam.Role(folder, "Role", assumed_by=iam.ServicePrincipal("codedeploy.amazonaws.com"))
    role.add_to_policy(
        iam.PolicyStatement(
            actions=["lambda:GetAlias", "lambda:GetProvisionedConcurrencyConfig", "lambda:UpdateAlias"],
            resources=[
                cdk.Stack.of(folder).format_arn(
                    service="lambda",
                    resource="function",
                    resource_name=stage.needed_name("function", "*"),
                    arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
                )
            ],
        )
    )
    # CloudWatch knows no resource for it.
    role.add_to_policy(iam.PolicyStatement(actions=["cloudwatch:DescribeAlarms"], resources=["*"]))
    return role
