"""Exports that stacks of a stage of 0.1.0 import, until each is deployed once. Source: docs/how-to/deploy.md#change-it."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stepline_cdk.stage import Stage


def keep_export(scope: Construct, stage: Stage, *values: str) -> None:
    """Export values from the stack of a stage; an agent of another app never had stacks of its own."""
    if stage.has_own_stacks:
        for value in values:
            cdk.Stack.of(scope).export_value(value)
