"""AWS without AWS: moto for the duration of a test, every port on it, and answers that get lost on the way to a client."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import botocore.endpoint
import pytest
from botocore.exceptions import ReadTimeoutError
from botocore.parsers import create_parser
from moto import mock_aws
from moto.core.botocore_stubber import BotocoreStubber
from moto.dynamodb.models.dynamo_type import Item
from moto.dynamodb.models.table import Table as MotoTable

from stepline.adapters.aws.artifacts import S3Artifacts
from stepline.adapters.aws.client import connect, session
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.grant import S3Grants
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.machine import StepFunctionsMachine
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.aws.table import Table
from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.aws.task_token import AwsTaskToken
from stepline.adapters.aws.tenancy.accounts import DynamoAccounts, DynamoCosts, DynamoRate
from stepline.adapters.aws.tenancy.erasure import AwsErasure
from stepline.adapters.aws.ticket import DynamoTickets
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.replays.replay_rows import DynamoReplays
from stepline.metering.ledger import Ledger

ROLE_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Principal": {"Service": "states.amazonaws.com"}, "Action": "sts:AssumeRole"}
    ],
}
WAITING = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 300, "End": True}}}


@contextmanager
def moto(*, one_by_one: bool = False) -> Iterator[None]:
    """Let moto replace AWS; with `one_by_one`, one request at a time, as DynamoDB settles an item's writes."""
    answer = BotocoreStubber.__call__
    lock = threading.Lock()

    def answer_one_by_one(stubber: BotocoreStubber, *args: Any, **kwargs: Any) -> Any:
        with lock:
            return answer(stubber, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch, mock_aws():
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.delenv("AWS_ENDPOINT_URL", raising=False)
        patch.setattr(MotoTable, "all_items", _all_items)
        if one_by_one:
            patch.setattr(BotocoreStubber, "__call__", answer_one_by_one)
        session.cache_clear()
        yield
        session.cache_clear()


def _all_items(table: MotoTable) -> list[Item]:
    """Return the items in moto's own order, by the values of their keys: every query sorts the whole table.

    Moto compares objects that cast both values at each comparison, a third of all its time. Our tables have sort keys.
    """
    items = [item for rows in table.items.values() for item in rows.values()]
    return sorted(items, key=lambda item: (item.hash_key.cast_value, item.range_key.cast_value))


class Aws:
    """Every port on the AWS that this process's environment points to, with nothing else on it."""

    def __init__(self) -> None:
        self.name = f"contract-{uuid.uuid4().hex[:8]}"
        create_table(self.name)
        connect("s3", read_timeout_s=5).create_bucket(Bucket=self.name)
        self.clock = MemoryClock(datetime.now(UTC))
        self.ledger = Ledger()
        self.table = Table(self.name, ledger=self.ledger)
        self.log = DynamoLog(self.table)
        self.artifacts = S3Artifacts(self.name, ledger=self.ledger)
        self.subscriptions = DynamoSubscriptions(self.table, self.clock)
        self.tickets = DynamoTickets(self.table, self.clock)
        self.rate = DynamoRate(self.table)
        self.accounts = DynamoAccounts(self.table)
        self.costs = DynamoCosts(self.table)
        self.deltas = DynamoDeltas(self.table, self.clock)
        self.machine_arn = create_machine(self.name)
        self.machine = StepFunctionsMachine(self.machine_arn)
        self.tasks = EcsTasks(self.table, self.name, self.clock)
        self.task_token = AwsTaskToken()
        self.grants = S3Grants(self.name)
        self.replays = DynamoReplays(self.table, self.clock)
        self.erasure = AwsErasure(self.table, self.name, self.clock)

    def delete(self) -> None:
        """Remove the state on an emulator that keeps it."""
        self.table.client.delete_table(TableName=self.name)
        found = self.artifacts.client.list_object_versions(Bucket=self.name)
        for one in (*found.get("Versions", []), *found.get("DeleteMarkers", [])):
            self.artifacts.client.delete_object(Bucket=self.name, Key=one["Key"], VersionId=one["VersionId"])
        self.artifacts.client.delete_bucket(Bucket=self.name)
        self.machine.client.delete_state_machine(stateMachineArn=self.machine_arn)
        connect("iam", read_timeout_s=5).delete_role(RoleName=self.name)


def create_table(name: str) -> None:
    """Create the table as stepline_cdk/state.py does, as far as moto distinguishes it."""

    def index(name: str, partition: str, sort: str, projection: dict[str, Any]) -> dict[str, Any]:
        keys = [
            {"AttributeName": partition, "KeyType": "HASH"},
            {"AttributeName": sort, "KeyType": "RANGE"},
        ]
        return {"IndexName": name, "KeySchema": keys, "Projection": projection}

    names = ["pk", "sk", "gsi1pk", "gsi1sk", "gsi2pk", "gsi2sk", "lane_shard", "lane_since"]
    only_open = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["lane_open"]}
    connect("dynamodb", read_timeout_s=5).create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
        KeySchema=index("", "pk", "sk", {})["KeySchema"],
        GlobalSecondaryIndexes=[
            index("GSI1", "gsi1pk", "gsi1sk", {"ProjectionType": "ALL"}),
            index("GSI2", "gsi2pk", "gsi2sk", {"ProjectionType": "ALL"}),
            index("GSI3", "lane_shard", "lane_since", only_open),
        ],
    )


def create_machine(name: str) -> str:
    """Create a state machine whose executions wait until they are stopped; return its ARN."""
    role = connect("iam", read_timeout_s=5).create_role(
        RoleName=name, AssumeRolePolicyDocument=json.dumps(ROLE_TRUST)
    )
    machine = connect("stepfunctions", read_timeout_s=5).create_state_machine(
        name=name, definition=json.dumps(WAITING), roleArn=role["Role"]["Arn"]
    )
    return str(machine["stateMachineArn"])


class Faults:
    """Faults between a client and its service. Undone when the test ends."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self._undo: list[Callable[[], None]] = []
        # Retries follow without a delay; the delays are botocore's own.
        patch.setattr(botocore.endpoint, "time", SimpleNamespace(sleep=lambda _seconds: None))

    def lose_answers(self, client: Any, operation: str, *, times: int) -> None:
        """Let the service apply the requests, and lose its next answers."""
        exchange = client._endpoint._do_get_response
        left = [None] * times

        def lossy(request: Any, model: Any, context: Any) -> Any:
            answer = exchange(request, model, context)
            if model.name != operation or not left:
                return answer
            left.pop()
            return None, ReadTimeoutError(endpoint_url="lost")

        self._patch.setattr(client._endpoint, "_do_get_response", lossy)

    def answer(self, client: Any, operation: str, status: int, body: dict[str, Any]) -> None:
        """Return this answer, read by botocore's own parser, instead of calling the service."""
        wire = {"status_code": status, "headers": {}, "body": json.dumps(body).encode()}

        def instead(model: Any, **_: Any) -> Any:
            parser = create_parser(model.service_model.metadata["protocol"])
            parsed = parser.parse(wire, model.output_shape)
            client._endpoint._add_modeled_error_fields(wire, parsed, model, parser)
            return SimpleNamespace(status_code=status), parsed

        event = f"before-call.*.{operation}"
        client.meta.events.register(event, instead)
        self._undo.append(lambda: client.meta.events.unregister(event, instead))

    def close(self) -> None:
        for undo in self._undo:
            undo()
