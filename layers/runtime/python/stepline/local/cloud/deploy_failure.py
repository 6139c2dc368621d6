"""The reasons of a failed deployment that an account of its own causes, with the choice that goes without.

AWS does not show beforehand whether an account may have distributions, or what it may build at once: the service
refuses, in words of its own. Source: github.com/aws-samples/aws-cdk-examples/issues/279, and
github.com/aws-ia/terraform-aws-control_tower_account_factory/issues/100.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from stepline.local.cloud.account import AwsAccount
from stepline.local.cloud.health import find_stacks

WITHOUT_PAGE: Final = "-c page=false deploys without the chat page"
WITHOUT_BUILDS: Final = (
    "-c exec_image=asset builds the image on this machine, -c exec_image=none runs no programs"
)
_CANCELLED: Final = "Resource creation cancelled"


class KnownReason(NamedTuple):
    """A reason as AWS words it, and a sentence about it with its way out. `kind` is the resource's type, if that decides."""

    text: re.Pattern[str]
    sentence: str
    kind: str = ""


KNOWN: Final = (
    KnownReason(
        re.compile("must be verified before you can add new CloudFront resources"),
        "AWS has not verified this account for CloudFront yet: open a case with AWS Support (account, about a day);"
        f" until then {WITHOUT_PAGE}",
    ),
    KnownReason(
        re.compile(r"Cannot have more than \d+ builds in queue"),
        "this account may not run a build for arm64 yet: request it in Service Quotas (CodeBuild, ARM/Small);"
        f" until then {WITHOUT_BUILDS}",
    ),
    KnownReason(
        re.compile("UnreservedConcurrentExecution below its minimum"),
        "the account has fewer concurrent executions than this stage reserves, perhaps since another stage reserves some:"
        " -c concurrency=N deploys for N of them",
    ),
    KnownReason(
        re.compile("(?i)unable to assume the service linked role"),
        "ECS has no role in this account yet: aws iam create-service-linked-role --aws-service-name ecs.amazonaws.com",
    ),
    KnownReason(
        re.compile("OptInRequired|needs a subscription for the service|not subscribed to this service"),
        "the account is not active yet: AWS activates a new one within a day, once its payment method is verified",
    ),
    KnownReason(
        re.compile(""),
        "GuardDuty cannot scan uploads in this account and region: -c av=none deploys without, and docs/how-to/uploads.md#malware"
        " has the other scanner",
        kind="AWS::GuardDuty::MalwareProtectionPlan",
    ),
)


def explain_failure(account: AwsAccount, stage: str, since: datetime) -> str:
    """Return a sentence about the first known reason why a deployment of the stage failed; "" for none.

    `since` is when the deployment began. Without the right to read the events there is none.
    """
    try:
        failures = [
            failure
            for stack in find_stacks(account, stage)
            for failure in _failures(account, stack.name, since)
        ]
    except (BotoCoreError, ClientError):  # the deployment's own error is reported
        return ""
    return next(
        (
            known.sentence
            for kind, reason in failures
            for known in KNOWN
            if known.text.search(reason) and known.kind in ("", kind)
        ),
        "",
    )


def _failures(account: AwsAccount, stack: str, since: datetime) -> list[tuple[str, str]]:
    """Return the types and reasons of a stack's failed resources, the oldest first."""
    found: list[tuple[str, str]] = []
    pages = account.client("cloudformation").get_paginator("describe_stack_events").paginate(StackName=stack)
    for event in (event for page in pages for event in page["StackEvents"]):
        if event["Timestamp"] < since:
            break
        reason = event.get("ResourceStatusReason", "")
        if event["ResourceStatus"].endswith("_FAILED") and not reason.startswith(_CANCELLED):
            found.append((event["ResourceType"], reason))
    return found[::-1]
