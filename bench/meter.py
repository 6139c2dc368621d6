"""A meter for calls to DynamoDB and S3 and for write units, on moto."""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from botocore import xform_name
from moto import mock_aws

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.client import connect, session
from stepline.adapters.aws.log import USER_INDEX
from stepline.adapters.aws.metering.item_size import item_bytes, write_units
from stepline.adapters.aws.table import Table

REGION = "us-east-1"


@dataclass
class Meter:
    """`calls` by operation since the last `take`; `write_units` by the partition key's first word."""

    calls: Counter[str] = field(default_factory=Counter)
    write_units: Counter[str] = field(default_factory=Counter)

    def on_call(self, model: Any, **_: Any) -> None:
        """Count a call of the table."""
        self.calls[xform_name(model.name)] += 1

    def on_object(self, model: Any, **_: Any) -> None:
        """Count a call of the bucket."""
        self.calls[f"s3:{model.name}"] += 1

    def on_put(self, params: Mapping[str, Any], **_: Any) -> None:
        """Count the units of a put: one per started KiB.

        The one transaction, admission, is not part of a round.
        """
        item = params["Item"]
        self.write_units[item["pk"]["S"].partition("#")[0]] += write_units(item_bytes(item))

    def clear(self) -> None:
        """Reset the counts."""
        self.calls.clear()
        self.write_units.clear()


@dataclass(frozen=True)
class Store:
    """A table and a bucket on moto, each with a meter."""

    table: Table
    artifacts: S3Artifacts
    meter: Meter


@contextmanager
def metered_store() -> Iterator[Store]:
    """Yield an empty store; all calls stay in this process."""
    with mock_aws():
        session.cache_clear()
        session().set_config_variable("region", REGION)
        meter, name = Meter(), f"bench-{uuid.uuid4().hex[:8]}"
        table, artifacts = Table(name), S3Artifacts(name)
        _create_table(name)
        artifacts.client.create_bucket(Bucket=name)
        artifacts.client.meta.events.register("before-call.s3", meter.on_object)
        table.client.meta.events.register("before-call.dynamodb", meter.on_call)
        table.client.meta.events.register("provide-client-params.dynamodb.PutItem", meter.on_put)
        yield Store(table=table, artifacts=artifacts, meter=meter)
        session.cache_clear()


@contextmanager
def as_found() -> Iterator[None]:
    """Leave the process as it was: reading the stage's log, for one, puts its key and address into the environment."""
    environ = os.environ  # noqa: TID251 - AWS's own variables, as its clients read them
    kept = dict(environ)
    try:
        yield
    finally:
        environ.clear()
        environ.update(kept)
        session.cache_clear()


def _create_table(name: str) -> None:
    keys, listed = _schema("pk", "sk"), _schema("gsi1pk", "gsi1sk")
    connect("dynamodb", read_timeout_s=5).create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[
            {"AttributeName": key["AttributeName"], "AttributeType": "S"} for key in keys + listed
        ],
        KeySchema=keys,
        GlobalSecondaryIndexes=[
            {"IndexName": USER_INDEX, "KeySchema": listed, "Projection": {"ProjectionType": "ALL"}}
        ],
    )


def _schema(hashed: str, ordered: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": hashed, "KeyType": "HASH"},
        {"AttributeName": ordered, "KeyType": "RANGE"},
    ]
