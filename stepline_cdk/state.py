"""The state that outlives a deployment: the table with all logs, the bucket with their bodies, the users."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3vectors as s3vectors
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stepline_cdk.choice.record import record_name, render_record
from stepline_cdk.former_export import keep_export
from stepline_cdk.identity import UserPool, given_origins, given_trust
from stepline_cdk.key import SERVICES, find_key
from stepline_cdk.owned import EXPIRES, INDEXES, KEYS, LANE_INDEX, NOTHING, OPEN, Owned
from stepline_cdk.stage import Stage

_DIGEST_CHARS = 8
KEPT_DAYS = 35
"""Days that the bucket keeps deleted and replaced versions: as long as the table can be restored to a time before."""


class State:
    """One table, one bucket, unless the owner has them, and users unless an external issuer has them.

    With `table_name` the functions use that table. The part's own table stays unchanged, so that you can switch back.

    Conversations and feedback by user (GSI1), feedback by day (GSI2), open lanes (GSI3). `memory_arn` is the vector bucket's; ""
    without one. `keys` are the ARNs of keys by the service that uses them. `issuer_origins` are those that a page calls to sign a user in.
    """

    def __init__(
        self,
        scope: Construct,
        stage: Stage,
        *,
        page_origin: str = "",
        derived: Collection[str] = (),
        owned: Owned = NOTHING,
    ) -> None:
        """Add them to a scope, for the chat page at `page_origin` and allowed origins; `derived` choices are not recorded."""
        self.scope = scope
        self.table = owned.table or _find_table(scope, stage)
        self.bucket = owned.bucket or _make_bucket(scope, stage, page_origin)
        self.keys = _name_keys(stage, owned)
        self.memory_arn = _memory_bucket(scope, stage) if stage.memory == "s3_vectors" else ""
        if stage.has_own_stacks:  # an agent's choices are in its app
            _record_choices(scope, stage, derived)
        cdk.CfnOutput(scope, "TableName", value=self.table.table_name)
        cdk.CfnOutput(scope, "BucketName", value=self.bucket.bucket_name)
        if stage.oidc_issuer or stage.is_local:
            self.trust = given_trust(stage)
            self.issuer_origins = given_origins(stage)
        else:
            users = UserPool(scope, stage, page_origin)
            self.trust = users.trust(stage)
            self.issuer_origins = users.origins
            cdk.CfnOutput(scope, "UserPoolId", value=users.pool.user_pool_id)
            cdk.CfnOutput(scope, "UserPoolClientId", value=users.client.user_pool_client_id)


def _find_table(scope: Construct, stage: Stage) -> dynamodb.ITable:
    own = _make_table(scope, stage)
    return _restored(scope, stage, own) if stage.table_name else own


def _name_keys(stage: Stage, owned: Owned) -> dict[str, str]:
    """Return the ARNs of keys by service: of the owner's table and bucket their own, if they have one."""
    keys = dict.fromkeys(SERVICES, stage.kms_key_arn) if stage.kms_key_arn else {}
    for service, store in (("dynamodb", owned.table), ("s3", owned.bucket)):
        if store is not None:
            keys.pop(service, None)
            if store.encryption_key:
                keys[service] = store.encryption_key.key_arn
    return keys


def _make_table(scope: Construct, stage: Stage) -> dynamodb.TableV2:
    partition, sort = map(_text, KEYS)
    table = dynamodb.TableV2(
        scope,
        "Table",
        partition_key=partition,
        sort_key=sort,
        billing=dynamodb.Billing.on_demand(),
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        time_to_live_attribute=EXPIRES,
        deletion_protection=stage.keep_data,
        removal_policy=stage.removal_policy,
        global_secondary_indexes=[
            _index(name, keys, included=[OPEN] if name == LANE_INDEX else None)
            for name, keys in INDEXES.items()
        ],
    )
    if stage.kms_key_arn:
        _encrypt(table, stage.kms_key_arn)
    return table


def _make_bucket(scope: Construct, stage: Stage, page_origin: str) -> s3.Bucket:
    key = find_key(scope, stage)
    bucket = s3.Bucket(
        scope,
        "Artifacts",
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=key,
        bucket_key_enabled=True if key else None,
        # The emulator speaks plain HTTP on loopback, which this policy would refuse.
        enforce_ssl=not stage.is_local,
        removal_policy=stage.removal_policy,
        # The emulator never expires logs.
        versioned=not stage.is_local,
        lifecycle_rules=_expiries(),
        cors=_browser_rules(stage.origins(page_origin)),
    )
    _announce_objects(bucket)
    return bucket


def _browser_rules(origins: tuple[str, ...]) -> list[s3.CorsRule] | None:
    """Let browsers of the allowed origins post files to the slots, and get files by links, as the stage signed them."""
    if not origins:
        return None
    return [
        s3.CorsRule(
            allowed_methods=[s3.HttpMethods.POST, s3.HttpMethods.GET],
            allowed_origins=list(origins),
            allowed_headers=["*"],
            max_age=600,
        )
    ]


def _restored(scope: Construct, stage: Stage, own: dynamodb.TableV2) -> dynamodb.ITableV2:
    """Return the restored table, and keep what other stacks import of the part's own.

    They let go of it later in the same deployment, and CloudFormation deletes no export before. Source: CDK, Stack.exportValue.
    """
    keep_export(scope, stage, own.table_arn, own.table_name)
    return dynamodb.TableV2.from_table_attributes(
        scope,
        "Restored",
        table_name=stage.table_name,
        encryption_key=find_key(scope, stage),
        global_indexes=list(INDEXES),
    )


def _expiries() -> list[s3.LifecycleRule]:
    """Return the rules that expire objects. Where several rules match a version, the earliest one applies."""
    day, month, year = (cdk.Duration.days(days) for days in (1, 30, 365))
    return [
        s3.LifecycleRule(abort_incomplete_multipart_upload_after=day),
        # The eraser deletes objects with all versions, without waiting for this rule.
        s3.LifecycleRule(
            expired_object_delete_marker=True,
            noncurrent_version_expiration=cdk.Duration.days(KEPT_DAYS),
        ),
        s3.LifecycleRule(prefix="quarantine/", expiration=day, noncurrent_version_expiration=day),
        # Request and result of a run are used while its turn is open; the log has the rest.
        s3.LifecycleRule(prefix="exec/", expiration=month, noncurrent_version_expiration=day),
        # A newer segment replaces an older one, and the log can replace the newest.
        s3.LifecycleRule(prefix="seg/", expiration=month, noncurrent_version_expiration=day),
        # Segments of memory remain after newer ones replace them; the logs can replace all of them.
        s3.LifecycleRule(prefix="mem/", expiration=year, noncurrent_version_expiration=day),
    ]


def _record_choices(scope: Construct, stage: Stage, derived: Collection[str]) -> None:
    """Add the parameter with the given choices, which `stepline deploy` compares the next ones with."""
    ssm.StringParameter(
        scope,
        "Choices",
        parameter_name=record_name(stage.name),
        string_value=render_record(stage, derived=derived),
        tier=ssm.ParameterTier.STANDARD,
        description="The choices that this stage was deployed with; the next deployment is compared with them.",
    )


def _memory_bucket(scope: Construct, stage: Stage) -> str:
    """Add the vector bucket of memory and its output, and return its ARN; the functions make its indexes.

    Its key never changes: with another one it is another resource, so that all who read its ARN are updated.
    """
    made = s3vectors.CfnVectorBucket(
        scope,
        f"Memory{_digest_key(scope, stage)}",
        encryption_configuration=s3vectors.CfnVectorBucket.EncryptionConfigurationProperty(
            sse_type="aws:kms" if stage.kms_key_arn else "AES256", kms_key_arn=stage.kms_key_arn or None
        ),
    )
    made.apply_removal_policy(stage.removal_policy)
    cdk.CfnOutput(scope, "MemoryBucketArn", value=made.attr_vector_bucket_arn)
    return made.attr_vector_bucket_arn


def _digest_key(scope: Construct, stage: Stage) -> str:
    """Return a digest of the key's ARN, or of the reference to it; "" without a key."""
    if not stage.kms_key_arn:
        return ""
    text = json.dumps(cdk.Stack.of(scope).resolve(stage.kms_key_arn))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_CHARS]


def _encrypt(table: dynamodb.TableV2, key_arn: str) -> None:
    """Let the table use the key, by the resource's own properties: the construct takes none in a stack without a fixed region."""
    made = table.node.default_child
    assert isinstance(made, dynamodb.CfnGlobalTable)
    made.add_property_override("SSESpecification", {"SSEEnabled": True, "SSEType": "KMS"})
    made.add_property_override("Replicas.0.SSESpecification", {"KMSMasterKeyId": key_arn})


def _announce_objects(bucket: s3.Bucket) -> None:
    """Let the bucket send events of its objects to the account's event bus.

    By the resource's own property: the construct's would add a function that may change any bucket.
    """
    made = bucket.node.default_child
    assert isinstance(made, s3.CfnBucket)
    made.notification_configuration = s3.CfnBucket.NotificationConfigurationProperty(
        event_bridge_configuration=s3.CfnBucket.EventBridgeConfigurationProperty(event_bridge_enabled=True)
    )


def _text(name: str) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=dynamodb.AttributeType.STRING)


def _index(
    name: str, keys: tuple[str, str], included: list[str] | None
) -> dynamodb.GlobalSecondaryIndexPropsV2:
    partition, sort = map(_text, keys)
    return dynamodb.GlobalSecondaryIndexPropsV2(
        index_name=name,
        partition_key=partition,
        sort_key=sort,
        projection_type=dynamodb.ProjectionType.INCLUDE if included else dynamodb.ProjectionType.ALL,
        non_key_attributes=included,
    )
