"""Log groups: the name and the retention of every log of a stage."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from constructs import Construct

from stepline_cdk.key import find_key
from stepline_cdk.stage import Stage


def add_log_group(
    scope: Construct, construct: str, stage: Stage, name: str, *, delivered: bool = False
) -> logs.LogGroup:
    """Add a group with the stage's retention and key; it is deleted with the stage.

    One that AWS services deliver into, `delivered`, has a name of a prefix of its own.
    Source: docs.aws.amazon.com/AmazonCloudWatch, "Enable logging from AWS services".
    """
    group = logs.LogGroup(
        scope,
        construct,
        log_group_name=stage.optional_name("delivered log" if delivered else "log", name),
        encryption_key=find_key(scope, stage),
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    cast("logs.CfnLogGroup", group.node.default_child).retention_in_days = stage.log_retention_days
    return group
