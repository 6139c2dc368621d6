"""The deletion of a function's former version, a day after a release: its schedule's group, and the role that deletes.

Only a version's end ends its snapshot, which costs as much as the live one's. `stepline deploy` adds a schedule for each former
version; AWS deletes no version that an alias names, so one that a rollback made live again remains.
Source: docs/how-to/deploy.md#by-parts.
"""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler

from stacks.stage import Stage

GROUP_OUTPUT: Final = "FormerVersionsGroup"
ROLE_OUTPUT: Final = "FormerVersionsRole"
"""The outputs that `stepline deploy` reads."""


def add_retirement(stack: cdk.Stack, stage: Stage) -> None:
    """Add the group and the role to a stack, with their outputs, if versions have snapshots."""
    if not stage.snap_start:
        return
    group = scheduler.CfnScheduleGroup(stack, "VersionEnds", name=f"stepline-{stage.name}-former-versions")
    role = iam.Role(
        stack,
        "VersionEndRole",
        assumed_by=iam.ServicePrincipal(
            "scheduler.amazonaws.com",
            conditions={
                "StringEquals": {"aws:SourceAccount": stack.account},
                "ArnEquals": {"aws:SourceArn": group.attr_arn},
            },
        ),
    )
    # With a qualifier: a version may be deleted, never a function.
    versions = stack.format_arn(
        service="lambda",
        resource="function",
        resource_name=f"stepline-{stage.name}-*:*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    role.add_to_policy(iam.PolicyStatement(actions=["lambda:DeleteFunction"], resources=[versions]))
    cdk.CfnOutput(stack, GROUP_OUTPUT, value=group.ref)
    cdk.CfnOutput(stack, ROLE_OUTPUT, value=role.role_arn)
