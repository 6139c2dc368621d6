"""Log groups: the name and the retention of every log of a stage."""

from __future__ import annotations

from typing import Final, cast

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.stage import Stage

DELIVERED: Final = "/aws/vendedlogs/stepline"
"""The prefix of logs that AWS services deliver.

The policy by which they deliver into any other group names each of them, and is full after some tens.
Source: docs.aws.amazon.com/AmazonCloudWatch, "Enable logging from AWS services".
"""


def add_log_group(
    scope: Construct, construct: str, stage: Stage, name: str, *, prefix: str = "/stepline"
) -> logs.LogGroup:
    """Add the group `<prefix>/<stage>/<name>`, with the stage's retention; it is deleted with the stage."""
    group = logs.LogGroup(
        scope,
        construct,
        log_group_name=f"{prefix}/{stage.name}/{name}",
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = stage.log_retention_days
    return group
