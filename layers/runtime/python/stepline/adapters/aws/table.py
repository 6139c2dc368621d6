"""The table: its keys, its client, and the calls of the adapters."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import Item, mapped
from stepline.model.ids import person

if TYPE_CHECKING:
    from mypy_boto3_dynamodb.client import DynamoDBClient

    from stepline.metering.ledger import Ledger
    from stepline.model.ids import Lane
    from stepline.model.tenancy.limits import Scope

Operation: TypeAlias = Literal[
    "get_item",
    "put_item",
    "update_item",
    "delete_item",
    "query",
    "transact_write_items",
    "batch_get_item",
    "batch_write_item",
]

HEAD: Final = "HEAD"
QUEUE: Final = "QUEUE#stage"
"""The partition of the turns that wait for a slot of the stage, the one that has waited longest first."""
RESERVED: Final = "reserved"
"""The attribute of the row in the first place of a fork's log, whose first batch comes later."""
OPEN_INDEX: Final = "GSI3"
"""Sparse index of pending work: partitions (`lane_shard`) per kind, sorted by its start (`lane_since`)."""
OPEN_SHARDS: Final = tuple("0123456789abcdef")
"""The partitions of open lanes, each of which accepts a thousand writes per second.

A deployment from before there were several has its old marks in the first partition.
"""

ACCOUNT_SHARDS: Final = 8
"""The rows among which an account of many users divides its conversations; one accepts a thousand write units per second."""


class Table:
    """One DynamoDB table with the keys `pk` and `sk`; docs/reference/table.md lists its items."""

    def __init__(self, name: str, *, ledger: Ledger | None = None) -> None:
        """Set the table's name; with a `ledger`, the units of every call are counted there."""
        self.name = name
        self._ledger = ledger

    @cached_property
    def client(self) -> DynamoDBClient:
        """The client, created on first use."""
        client: DynamoDBClient = connect("dynamodb", read_timeout_s=5, ledger=self._ledger)
        return client

    def call(self, operation: Operation, **params: Any) -> Item:
        """Make one call and return its answer. Raises botocore's errors, which the caller maps."""
        return dict(getattr(self.client, operation)(**params))

    def get(self, pk: str, sk: str, *, consistent: bool) -> Item | None:
        with mapped():
            answer = self.call("get_item", TableName=self.name, Key=key(pk, sk), ConsistentRead=consistent)
        item: Item | None = answer.get("Item")
        return item

    def put(self, item: Item) -> None:
        with mapped():
            self.call("put_item", TableName=self.name, Item=item)

    def delete(self, pk: str, sk: str) -> None:
        with mapped():
            self.call("delete_item", TableName=self.name, Key=key(pk, sk))

    def query(self, condition: str, values: Item, **params: Any) -> Iterator[Item]:
        """Yield every item of a key condition, from all pages."""
        asked = {
            "TableName": self.name,
            "KeyConditionExpression": condition,
            "ExpressionAttributeValues": values,
            **params,
        }
        while True:
            with mapped():
                page = self.call("query", **asked)
            yield from page["Items"]
            if not (last := page.get("LastEvaluatedKey")):
                return
            asked["ExclusiveStartKey"] = last


def key(pk: str, sk: str) -> Item:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def log_pk(lane: Lane) -> str:
    return f"LOG#{lane.key()}"


def batch_sk(n: int) -> str:
    """Return the number zero-padded, so that text order is number order."""
    return f"{n:012d}"


def conversation_pk(lane: Lane) -> str:
    return f"CONV#{lane.key()}"


def open_shard(lane: Lane) -> str:
    """Return the partition of a lane's open mark: the first digit of its hash, so that lanes spread evenly."""
    return _digest(lane.key())[0]


def message_sk(message_id: str) -> str:
    return f"MSG#{message_id}"


def fork_sk(conversation: str) -> str:
    """Return the sort key of a fork, at its origin."""
    return f"FORK#{conversation}"


def cost_pk(lane: Lane) -> str:
    return f"COST#{lane.key()}"


def socket_key(connection: str) -> str:
    """Return a connection's key: its own partition, and its row in each of its conversations."""
    return f"SOCKET#{connection}"


def heard_sk(connection: str, conversation: str = "") -> str:
    """Return the sort key of a user's subscription; without a conversation that of the feed."""
    return f"{socket_key(connection)}#{conversation}"


def split_heard(sk: str) -> tuple[str, str]:
    """Return the connection and the conversation of such a key, "" for the feed."""
    connection, _, conversation = sk.removeprefix(socket_key("")).rpartition("#")
    return connection, conversation


def delta_pk(lane: Lane, claim: int) -> str:
    return f"DELTA#{lane.key()}#{claim}"


def noted_pk(lane: Lane) -> str:
    """Return the key of the model calls that were noted under all claims of a lane."""
    return f"DELTA#{lane.key()}#calls"


def user_pk(tenant: str, project: str, user: str) -> str:
    return f"USER#{tenant}#{project}#{user}"


def ticket_pk(holder: str) -> str:
    """Return the key of a person's tickets. The beginning of a ticket is always hashed again."""
    return f"TICKET#{_digest(holder)}"


def ticket_sk(ticket: str) -> str:
    """Return a ticket's sort key: its hash, so that a row does not reveal the ticket."""
    return _digest(ticket)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def rated_pk(tenant: str, project: str, user: str) -> str:
    """Return the index key of the feedback on a user's conversations."""
    return f"RATED#{tenant}#{project}#{user}"


def feedback_pk(tenant: str, project: str, day: str) -> str:
    """Return the index key of a project's feedback of one day, `2026-11-21`."""
    return f"FEEDBACK#{tenant}#{project}#{day}"


def feedback_sk(turn: str, origin: str) -> str:
    """Return the sort key of the current feedback of a turn and origin, within its conversation."""
    return f"FEEDBACK#{turn}#{origin}"


def rate_pk(tenant: str, project: str, user: str) -> str:
    """Return the key of an account's counts; for a project the user is "", and for a tenant the project is "", too."""
    return f"RATE#{person(tenant, project, user)}"


def person_pk(tenant: str, project: str, whose: str) -> str:
    """Return the key of a person's rows, by the hash that represents the person (`model.ids.person`)."""
    return f"PERSON#{tenant}#{project}#{whose}"


def limits_pk(scope: Scope) -> str:
    return f"LIMITS#{scope.key()}"


def account_pk(scope: Scope, shard: int | None = None) -> str:
    """Return the key of an account's counters: of those that conditions see, or of a shard; no tenant is named ""."""
    return f"ACCOUNT#{scope.key()}" if shard is None else f"ACCOUNT##{shard}#{scope.key()}"


def account_pks(scope: Scope) -> tuple[str, ...]:
    """Return the keys of all counters of an account, which are summed; those of conditions first."""
    return (account_pk(scope), *(account_pk(scope, shard) for shard in _shards(scope)))


def account_shard(scope: Scope, lane: Lane) -> int | None:
    """Return a conversation's shard of an account, the same for each of its turns; None for a user, who has one row."""
    shards = _shards(scope)
    return zlib.crc32(lane.key().encode()) % len(shards) if shards else None


def _shards(scope: Scope) -> range:
    return range(0 if scope.user else ACCOUNT_SHARDS)


def charge_pk(lane: Lane) -> str:
    """Return the key of a conversation's charges."""
    return f"CHARGE#{lane.key()}"


def slot_pk(scope: Scope) -> str:
    return f"SLOT#{scope.key()}"


def upload_pk(lane: Lane) -> str:
    return f"UPLOAD#{lane.key()}"


def replay_pk(lane: Lane) -> str:
    """Return the key of a conversation's replays."""
    return f"REPLAY#{lane.key()}"


def replay_sk(lane: Lane, user: str, replay_id: str) -> str:
    """Return the sort key of a replay, which begins with the hash of its user and the number of its round's batch."""
    return f"{person(lane.tenant, lane.project, user)}#{replay_id}"


def exec_pk(ref: str) -> str:
    return f"EXEC#{ref}"
