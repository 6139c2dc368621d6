"""The scan of uploads by GuardDuty: its protection plan for quarantine, and the role by which it reads and tags.

It needs no detector of GuardDuty in the account. Source: docs.aws.amazon.com/guardduty, "Create or update IAM role
policy" and "GuardDuty Malware Protection for S3".
"""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_guardduty as guardduty
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stepline.model.file.upload_slot import QUARANTINE
from stepline_cdk.key import DECRYPT, MAKE, key_statement
from stepline_cdk.stage import Stage

SERVICE: Final = "malware-protection-plan.guardduty.amazonaws.com"
_RULE: Final = "DO-NOT-DELETE-AmazonGuardDutyMalwareProtectionS3*"
"""The rule by which the service hears of new objects; it chooses the rest of the name."""
_TRIAL: Final = "malware-protection-resource-validation-object"
"""The object that the service writes to see whether it may use the bucket."""


def add_scan(scope: Construct, stage: Stage, bucket: s3.IBucket) -> None:
    """Have each new object of quarantine scanned and tagged, if the stage chose GuardDuty.

    The plan is in the part of the rule that waits for its findings, so that one update changes both.
    """
    if stage.av == "guardduty":
        role = iam.Role(scope, "ScanRole", assumed_by=iam.ServicePrincipal(SERVICE))
        for statement in _rights(cdk.Stack.of(scope), bucket):
            role.add_to_policy(statement)
        if bucket.encryption_key:
            for action in (DECRYPT, MAKE):
                role.add_to_policy(key_statement(bucket.encryption_key.key_arn, action, ["s3"]))
        plan = guardduty.CfnMalwareProtectionPlan(
            scope,
            "Scan",
            role=role.role_arn,
            protected_resource=guardduty.CfnMalwareProtectionPlan.CFNProtectedResourceProperty(
                s3_bucket=guardduty.CfnMalwareProtectionPlan.S3BucketProperty(
                    bucket_name=bucket.bucket_name, object_prefixes=[f"{QUARANTINE}/"]
                )
            ),
            actions=guardduty.CfnMalwareProtectionPlan.CFNActionsProperty(
                tagging=guardduty.CfnMalwareProtectionPlan.CFNTaggingProperty(status="ENABLED")
            ),
        )
        plan.node.add_dependency(role)  # with its policy: the service tries the bucket when the plan is made
    elif stage.av == "none" and stage.keep_data:
        cdk.Annotations.of(scope).add_warning_v2(
            "stepline:av",
            f"av=none: stage {stage.name} keeps its data, and no uploaded file is scanned for malware;"
            f" {stage.spell('av=guardduty')} scans them, without a server (docs/how-to/uploads.md#malware)",
        )


def _rights(stack: cdk.Stack, bucket: s3.IBucket) -> list[iam.PolicyStatement]:
    """Return AWS's policy for the role, with the objects of quarantine instead of all objects of the bucket."""
    rule = stack.format_arn(service="events", resource="rule", resource_name=_RULE)
    scanned = [bucket.arn_for_objects(key) for key in (f"{QUARANTINE}/*", _TRIAL)]
    return [
        iam.PolicyStatement(
            actions=["events:PutRule", "events:DeleteRule", "events:PutTargets", "events:RemoveTargets"],
            resources=[rule],
            conditions={"StringLike": {"events:ManagedBy": SERVICE}},
        ),
        iam.PolicyStatement(actions=["events:DescribeRule", "events:ListTargetsByRule"], resources=[rule]),
        iam.PolicyStatement(
            actions=[
                *("s3:GetObject", "s3:GetObjectVersion", "s3:GetObjectTagging", "s3:GetObjectVersionTagging"),
                *("s3:PutObjectTagging", "s3:PutObjectVersionTagging"),
            ],
            resources=scanned,
        ),
        iam.PolicyStatement(actions=["s3:PutObject"], resources=[bucket.arn_for_objects(_TRIAL)]),
        iam.PolicyStatement(
            actions=[
                *("s3:GetBucketNotification", "s3:PutBucketNotification"),
                *("s3:ListBucket", "s3:GetBucketLocation"),
            ],
            resources=[bucket.bucket_arn],
        ),
    ]
