"""A snapshot of the stage's table, in the place of DynamoDB's point-in-time recovery, and a table that is made of it."""

from __future__ import annotations

from datetime import UTC, datetime

from stepline.local.command.batches import open_log
from stepline.local.command.tenancy.erasing import open_erasure
from stepline.local.stage.deployed import client
from stepline.log.erase_conversation import apply_tombstones, erase_pending

PER_WRITE = 25


class Snapshot:
    """What the table held at a time."""

    def __init__(self, deployed):
        self._deployed = deployed
        self._dynamodb = client("dynamodb", deployed)
        pages = self._dynamodb.get_paginator("scan").paginate(TableName=deployed.table, ConsistentRead=True)
        self.rows = [row for page in pages for row in page["Items"]]
        self.at = datetime.now(UTC)

    def restore(self, name):
        """Make a table of it, with the keys and indexes of its source and, as in AWS, without its other settings."""
        source = self._dynamodb.describe_table(TableName=self._deployed.table)["Table"]
        self._dynamodb.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            KeySchema=source["KeySchema"],
            AttributeDefinitions=source["AttributeDefinitions"],
            GlobalSecondaryIndexes=[
                {part: index[part] for part in ("IndexName", "KeySchema", "Projection")}
                for index in source["GlobalSecondaryIndexes"]
            ],
        )
        self._dynamodb.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        for start in range(0, len(self.rows), PER_WRITE):
            puts = [{"PutRequest": {"Item": row}} for row in self.rows[start : start + PER_WRITE]]
            assert not self._dynamodb.batch_write_item(RequestItems={name: puts})["UnprocessedItems"]


def erase_again(deployed, table):
    """Delete in a table what was deleted since, as `stepline erasures apply` does; return how many were back."""
    open_log(deployed)
    ports, erasure = open_erasure(table, deployed.bucket)
    buried = apply_tombstones(ports, erasure)
    assert erase_pending(ports, erasure)["failed"] == 0
    return buried


class EmulatedAccount:
    """The emulator in the place of the account that a restore works in."""

    def __init__(self, deployed):
        self._deployed = deployed

    def client(self, service):
        return client(service, self._deployed)
