"""A table and a bucket of the owner, in the place of those that an agent would make, and what it cannot work without.

Only what the app itself makes is checked: of an imported table the synthesis sees a name. Source: docs/how-to/own-app.md#a-table-and-a-bucket-of-yours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_s3 as s3
from constructs import IConstruct

from stepline_cdk.choice.read import BadChoiceError

USER_INDEX: Final = "GSI1"
FEEDBACK_INDEX: Final = "GSI2"
LANE_INDEX: Final = "GSI3"
KEYS: Final = ("pk", "sk")
INDEXES: Final[Mapping[str, tuple[str, str]]] = {
    USER_INDEX: ("gsi1pk", "gsi1sk"),
    FEEDBACK_INDEX: ("gsi2pk", "gsi2sk"),
    LANE_INDEX: ("lane_shard", "lane_since"),
}
"""The keys of each index, all of them texts."""
OPEN: Final = "lane_open"
"""The attribute that the third index has; the others have all."""
EXPIRES: Final = "expires_at"
"""The attribute that says when a row expires."""


class Owned(NamedTuple):
    """A table and a bucket that the owner of an app has; None for what the agent makes."""

    table: dynamodb.ITable | None = None
    bucket: s3.IBucket | None = None


NOTHING: Final = Owned()


def check_owned(owned: Owned) -> None:
    """Refuse a table or a bucket of this app that no agent can work with. Raises BadChoiceError."""
    if owned.table is not None:
        made = _properties(owned.table.node.default_child)
        if made is not None:
            _check_table(made)
    if owned.bucket is not None:
        made = _properties(owned.bucket.node.default_child)
        if made is not None:
            _check_bucket(made, _notifications(owned.bucket))


def _check_table(made: Mapping[str, Any]) -> None:
    types = {one["attributeName"]: one["attributeType"] for one in made["attributeDefinitions"]}
    if _keys(made) != KEYS or any(types[key] != "S" for key in KEYS):
        raise _refusal("table", f"got the keys {', '.join(_keys(made))}, takes pk and sk, both texts")
    indexes = {one["indexName"]: one for one in made.get("globalSecondaryIndexes", ())}
    for name, keys in INDEXES.items():
        index = indexes.get(name)
        if index is None:
            raise _refusal("table", f"got no index {name}, takes one with the keys {' and '.join(keys)}")
        if _keys(index) != keys or any(types[key] != "S" for key in keys):
            raise _refusal(
                "table",
                f"got index {name} with the keys {', '.join(_keys(index))}, takes {' and '.join(keys)}, both texts",
            )
        shown = index["projection"]
        if shown["projectionType"] != "ALL" and not (
            name == LANE_INDEX and OPEN in shown.get("nonKeyAttributes", ())
        ):
            raise _refusal(
                "table",
                f"got index {name} without {OPEN if name == LANE_INDEX else 'some attributes'}, takes one with all attributes",
            )
    expiry = made.get("timeToLiveSpecification") or {}
    if expiry.get("attributeName") != EXPIRES or not expiry.get("enabled"):
        raise _refusal(
            "table", f"got no expiry of rows by {EXPIRES}, takes it as the attribute of the time to live"
        )


def _check_bucket(made: Mapping[str, Any], notifications: Mapping[str, Any]) -> None:
    if (made.get("versioningConfiguration") or {}).get("status") != "Enabled":
        raise _refusal("bucket", "got one without versions, takes versioned=True")
    own = (made.get("notificationConfiguration") or {}).get("eventBridgeConfiguration") or {}
    if not own.get("eventBridgeEnabled") and "EventBridgeConfiguration" not in notifications:
        raise _refusal("bucket", "got one without events on EventBridge, takes event_bridge_enabled=True")


def _keys(made: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(one["attributeName"] for one in made["keySchema"])


def _notifications(bucket: IConstruct) -> Mapping[str, Any]:
    """Return the notifications that the CDK's custom resource will set, as far as the app says so before the agent."""
    folder = bucket.node.try_find_child("Notifications")
    made = _properties(folder.node.try_find_child("Resource")) if folder else None
    return (made or {}).get("NotificationConfiguration") or {}


def _properties(resource: IConstruct | None) -> Mapping[str, Any] | None:
    """Return the properties of a resource of this app, as the CDK names them; None of what is imported."""
    if not isinstance(resource, cdk.CfnResource):
        return None
    found: Mapping[str, Any] = cdk.Stack.of(resource).resolve(resource._cfn_properties)  # noqa: SLF001 - the one way to what constructs with lazy properties have
    return found


def _refusal(prop: str, sentence: str) -> BadChoiceError:
    return BadChoiceError(f"{prop}: {sentence}")
