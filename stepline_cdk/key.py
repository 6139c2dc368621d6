"""A key of the owner: the rights on it that follow from other rights, and what its own policy must allow to services of AWS.

A function uses the key by the service that asks KMS for it, never by itself. Source: docs.aws.amazon.com, "How Amazon DynamoDB uses
AWS KMS" (each access decrypts the table's key for its caller), "Using server-side encryption with AWS KMS keys" of S3, "Amazon SQS
Key management", "Secret encryption and decryption" of Secrets Manager, "Data protection and encryption in S3 Vectors".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from constructs import Construct

from stepline_cdk.stage import Stage

DECRYPT: Final = "kms:Decrypt"
MAKE: Final = "kms:GenerateDataKey"
SERVICES: Final = ("dynamodb", "s3", "s3vectors", "secretsmanager", "sqs")
"""The services that use the key for their callers."""
_DECRYPTING: Final = frozenset(
    {
        "s3:GetObject",
        "secretsmanager:CreateSecret",
        "secretsmanager:GetSecretValue",
        "sqs:SendMessage",
    }
)
_MAKING: Final = frozenset(
    {
        "s3:PutObject",
        "s3vectors:CreateIndex",
        "s3vectors:PutVectors",
        "secretsmanager:CreateSecret",
        "sqs:SendMessage",
    }
)
_ALWAYS: Final = ("dynamodb", "s3vectors")
"""The services of which each action decrypts."""


def key_uses(actions: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the actions of KMS that these actions need, each with the services by which they need it."""
    found: dict[str, set[str]] = {}
    for action in actions:
        service = action.partition(":")[0]
        if service in _ALWAYS or action in _DECRYPTING:
            found.setdefault(DECRYPT, set()).add(service)
        if action in _MAKING:
            found.setdefault(MAKE, set()).add(service)
    return {action: tuple(sorted(services)) for action, services in sorted(found.items())}


def key_statement(key_arn: str, action: str, services: Iterable[str]) -> iam.PolicyStatement:
    """Return the right to use the key by these services of the region."""
    via = [f"{service}.{cdk.Aws.REGION}.amazonaws.com" for service in services]
    return iam.PolicyStatement(
        actions=[action], resources=[key_arn], conditions={"StringEquals": {"kms:ViaService": via}}
    )


def find_key(scope: Construct, stage: Stage) -> kms.IKey | None:
    """Return the key of a stage, for resources of this scope; None without one."""
    if not stage.kms_key_arn:
        return None
    found = cast("kms.IKey | None", scope.node.try_find_child("OwnersKey"))
    return found or kms.Key.from_key_arn(scope, "OwnersKey", stage.kms_key_arn)


def key_policy(stack: cdk.Stack, stage: Stage) -> list[iam.PolicyStatement]:
    """Return the statements of the key's policy for services that no role of ours calls."""
    account = {"StringEquals": {"aws:SourceAccount": stack.account}}
    groups = stack.format_arn(
        service="logs",
        resource="log-group",
        resource_name="*",
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
    allowed = [
        _allow(
            f"logs.{stack.region}.amazonaws.com",
            ("Encrypt*", "Decrypt*", "ReEncrypt*", "GenerateDataKey*", "Describe*"),
            {"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        ),
        # What a rule could not deliver goes into a queue.
        _allow("events.amazonaws.com", ("Decrypt", "GenerateDataKey"), account),
    ]
    if stage.memory == "s3_vectors":
        allowed.append(_allow("indexing.s3vectors.amazonaws.com", ("Decrypt",), account))
    if stage.has_tasks:
        cluster = {
            "kms:EncryptionContext:aws:ecs:clusterAccount": stack.account,
            "kms:EncryptionContext:aws:ecs:clusterName": stage.exec_name,
        }
        grants = {"ForAllValues:StringEquals": {"kms:GrantOperations": ["Decrypt"]}}
        allowed += [
            _allow("fargate.amazonaws.com", ("GenerateDataKeyWithoutPlaintext",), {"StringEquals": cluster}),
            _allow("fargate.amazonaws.com", ("CreateGrant",), {"StringEquals": cluster, **grants}),
        ]
    return allowed


def _allow(service: str, actions: Iterable[str], conditions: Mapping[str, Any]) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(service)],
        actions=[f"kms:{action}" for action in actions],
        resources=["*"],
        conditions=conditions,
    )
