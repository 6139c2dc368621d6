"""Dead-letter queues: where events wait that a function could not be given, or failed each time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.stage import Stage

RECEIVERS: Final = ("preflight", "sweeper", "eraser")
"""The functions that rules call and whose events are kept. What a program prints is of no use later, so `output` is not
one of them."""


def make_queues(scope: Construct, stage: Stage) -> Mapping[str, sqs.Queue]:
    """Add a queue for each of these functions, by its name; none on stage `local`, whose developer sees the failure.

    A rule puts into it what it could not deliver in a day, Lambda what the function failed three times. Both put the event
    as it was, so one command gives either to the function again. Source: docs/how-to/runbook.md.
    """
    if stage.is_local:
        return {}
    return {
        name: sqs.Queue(
            scope,
            f"{name.title()}Undelivered",
            queue_name=f"stepline-{stage.name}-{name}-undelivered",
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
            # Longer than a replay of one event takes.
            visibility_timeout=cdk.Duration.minutes(10),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        for name in RECEIVERS
    }
