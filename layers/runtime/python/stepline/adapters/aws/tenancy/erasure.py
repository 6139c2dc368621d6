"""Erasure in AWS: rows in batches of deletes, and objects with all their versions and delete markers.

A batch of deletes may be applied in part: the rest is sent again. Source: DynamoDB API reference, BatchWriteItem; S3
API reference, ListObjectVersions and DeleteObjects.
The erasures of users are rows; those that are not done are in the index of pending work.
"""

from __future__ import annotations

import hashlib
import secrets
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import CONDITION_FAILED, OBJECT_EXISTS, Item, mapped, tolerated
from stepline.adapters.aws.table import (
    HEAD,
    OPEN_INDEX,
    RESERVED,
    Table,
    charge_pk,
    conversation_pk,
    cost_pk,
    delta_pk,
    key,
    log_pk,
    noted_pk,
    person_pk,
    replay_pk,
    upload_pk,
)
from stepline.adapters.aws.tenancy.tombstone import ERASE_SHARD, TOMB, read_tombstone, tombstone_item
from stepline.errors import DependencyError, NotFoundError
from stepline.model.batch import Tombstone, decode_batch
from stepline.model.ids import person
from stepline.ports.tenancy.erasure import KEPT_S, UserErasure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mypy_boto3_s3.client import S3Client

    from stepline.model.ids import Lane
    from stepline.ports.clock import Clock


TOMBSTONES: Final = "tomb/"
ROWS_PER_WRITE: Final = 25
OBJECTS_PER_DELETE: Final = 1_000
"""The maximum of one request, by AWS limits."""
TRIES: Final = 8
PAUSE_S: Final = 0.05
_KEPT: Final = msgspec.json.Decoder(Tombstone)


class AwsErasure:
    """The rows of one table, and the objects of one bucket."""

    def __init__(self, table: Table, bucket: str, clock: Clock) -> None:
        """Erase from this table and bucket; `clock` makes the pauses between attempts."""
        self._table, self._bucket, self._clock = table, bucket, clock

    @cached_property
    def client(self) -> S3Client:
        """The client, created on first use."""
        client: S3Client = connect("s3", read_timeout_s=20, signature="s3v4")
        return client

    def tombstone(self, lane: Lane) -> Tombstone | None:
        row = self._table.get(conversation_pk(lane), TOMB, consistent=True)
        return read_tombstone(row) if row else None

    def pending(self, *, before: str) -> list[Tombstone]:
        rows = self._table.query(
            "lane_shard = :shard AND lane_since <= :before",
            {":shard": {"S": ERASE_SHARD}, ":before": {"S": before}},
            IndexName=OPEN_INDEX,
        )
        found = [self._table.get(row["pk"]["S"], row["sk"]["S"], consistent=True) for row in rows]
        stones = [read_tombstone(row) for row in found if row]
        return [stone for stone in stones if stone.due and stone.due <= before]

    def keep(self, tombstone: Tombstone) -> None:
        body = msgspec.json.encode(replace(tombstone, owner="", due="", done_at=""))
        with mapped(), tolerated(OBJECT_EXISTS):
            self.client.put_object(
                Bucket=self._bucket,
                Key=tombstone_key(tombstone.lane),
                Body=body,
                ContentType="application/json",
                IfNoneMatch="*",
            )

    def kept(self) -> Iterator[Tombstone]:
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": TOMBSTONES}
        while True:
            with mapped():
                page = self.client.list_objects_v2(**asked)
            for found in page.get("Contents", ()):
                with mapped():
                    body = self.client.get_object(Bucket=self._bucket, Key=found["Key"])["Body"].read()
                yield _KEPT.decode(body)
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def bury(self, tombstone: Tombstone) -> None:
        self._table.put(tombstone_item(tombstone))

    def unlist(self, tombstone: Tombstone) -> None:
        self._table.put({**key(conversation_pk(tombstone.lane), HEAD), "applied_n": {"N": str(tombstone.n)}})

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        yield from self._erase_subscriptions(lane)
        for pk in (upload_pk(lane), replay_pk(lane), cost_pk(lane), noted_pk(lane)):
            yield from self.delete_rows(pk)
        beside = self._rows(conversation_pk(lane), attributes="pk, sk")
        kept = (HEAD, TOMB)
        yield from self._delete(_key_of(row) for row in beside if row["sk"]["S"] not in kept)
        yield from self._erase_batches(lane, husks_from)

    def _erase_subscriptions(self, lane: Lane) -> Iterator[int]:
        """Delete a conversation's subscriptions from the rows of users; those of the conversation follow later."""
        rows = self._rows(conversation_pk(lane), "SOCKET#")
        users = (
            key(
                f"USER#{lane.tenant}#{lane.project}#{row['user']['S']}",
                f"{row['sk']['S']}#{lane.conversation}",
            )
            for row in rows
            if "user" in row
        )
        yield from self._delete(users)

    def _erase_batches(self, lane: Lane, husks_from: str) -> Iterator[int]:
        """Delete the streamed text of each batch, and then the batch, so that no streamed text is left unknown."""
        for row in self._rows(log_pk(lane)):
            yield from self.delete_rows(delta_pk(lane, int(row["n"]["N"])))
            if "body" not in row or RESERVED in row:
                continue
            if decode_batch(row["body"]["B"]).at < husks_from:
                yield from self._delete([_key_of(row)])
            else:
                self._table.put({**_key_of(row), "n": row["n"]})
                yield 1

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        yield from self.delete_rows(log_pk(lane))
        yield from self.delete_rows(charge_pk(lane))
        yield from self.delete_rows(conversation_pk(lane), sk=HEAD)

    def delete_prefix(self, prefix: str, *, but: Sequence[str] = ()) -> Iterator[int]:
        _check_prefix(prefix)
        asked: dict[str, Any] = {"Bucket": self._bucket, "Prefix": prefix}
        while True:
            with mapped():
                page = self.client.list_object_versions(**asked)
            found = [
                {"Key": one["Key"], "VersionId": one["VersionId"]}
                for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
                if not (one["IsLatest"] and one["Key"] in but)
            ]
            for at in range(0, len(found), OBJECTS_PER_DELETE):
                yield self._delete_versions(found[at : at + OBJECTS_PER_DELETE])
            if not page.get("IsTruncated"):
                return
            asked = {"Bucket": self._bucket, "Prefix": prefix, "KeyMarker": page["NextKeyMarker"]}
            if marker := page.get("NextVersionIdMarker"):
                asked["VersionIdMarker"] = marker

    def _delete_versions(self, found: list[dict[str, str]]) -> int:
        objects: Any = found
        with mapped():
            answer = self.client.delete_objects(
                Bucket=self._bucket, Delete={"Objects": objects, "Quiet": True}
            )
        if failed := answer.get("Errors"):
            raise DependencyError(
                "objects were not deleted",
                code="not_erased",
                aws_code=failed[0].get("Code"),
                objects=len(failed),
            )
        return len(found)

    def delete_rows(self, pk: str, *, sk: str = "") -> Iterator[int]:
        yield from self._delete(_key_of(row) for row in self._rows(pk, sk, attributes="pk, sk"))

    def _rows(self, pk: str, sk: str = "", *, attributes: str = "") -> Iterator[Item]:
        condition, values = "pk = :pk", {":pk": {"S": pk}}
        if sk:
            condition, values = "pk = :pk AND begins_with(sk, :sk)", values | {":sk": {"S": sk}}
        asked = {"ProjectionExpression": attributes} if attributes else {}
        return self._table.query(condition, values, ConsistentRead=True, **asked)

    def _delete(self, keys: Iterable[Item]) -> Iterator[int]:
        """Delete rows, the maximum of one request at a time; yield the number after each request."""
        left = iter(keys)
        while batch := list(islice(left, ROWS_PER_WRITE)):
            self._write([{"DeleteRequest": {"Key": one}} for one in batch])
            yield len(batch)

    def _write(self, requests: list[Item]) -> None:
        """Write a whole batch. Raises DependencyError if the table repeatedly accepts only part of it."""
        for attempt in range(TRIES):
            with mapped():
                answer = self._table.call("batch_write_item", RequestItems={self._table.name: requests})
            requests = answer.get("UnprocessedItems", {}).get(self._table.name, [])
            if not requests:
                return
            self._clock.pause(secrets.SystemRandom().uniform(0, PAUSE_S * 2**attempt))
        raise DependencyError("the table takes no more deletes now", code="not_erased", rows=len(requests))

    def postpone(self, lane: Lane, due: str) -> None:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(conversation_pk(lane), TOMB),
                UpdateExpression="SET lane_since = :due",
                ConditionExpression="attribute_exists(lane_shard)",
                ExpressionAttributeValues={":due": {"S": due}},
            )

    def finish(self, lane: Lane, done_at: str) -> None:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(conversation_pk(lane), TOMB),
                UpdateExpression="SET done_at = :at REMOVE lane_shard, lane_since, #owner",
                ConditionExpression="attribute_exists(lane_shard)",
                ExpressionAttributeNames={"#owner": "owner"},
                ExpressionAttributeValues={":at": {"S": done_at}},
            )


def _key_of(row: Item) -> Item:
    """Return the key of a row."""
    return {"pk": row["pk"], "sk": row["sk"]}


def tombstone_key(lane: Lane) -> str:
    """Return the key of a tombstone's object, which does not reveal the conversation's name."""
    name = hashlib.sha256(lane.conversation.encode()).hexdigest()
    return f"{TOMBSTONES}{lane.tenant}/{lane.project}/{name}.json"


def _check_prefix(prefix: str) -> None:
    """Raise NotFoundError for a prefix that could match another conversation's objects, or all objects."""
    if not prefix.endswith("/") or prefix.count("/") < 3 or "//" in prefix:
        raise NotFoundError("no such prefix", code="bad_prefix", prefix=prefix)


ERASURE: Final = "ERASURE"
PENDING: Final = "erase_user"
"""The index partition of the users to erase."""

_DECODER: Final = msgspec.json.Decoder(UserErasure)


class DynamoUserErasures:
    """Erasures of users. A row names its user as long as the erasure needs the name."""

    def __init__(self, table: Table, clock: Clock) -> None:
        """Keep rows in `table`; `clock` decides which rows have expired, because AWS deletes days later."""
        self._table = table
        self._clock = clock

    def ask(self, erasure: UserErasure) -> UserErasure:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "put_item",
                TableName=self._table.name,
                Item=self._row(erasure),
                ConditionExpression="attribute_not_exists(lane_shard)",
            )
            return erasure
        return self._read(_pk(erasure)) or erasure

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        return self._read(person_pk(tenant, project, person(tenant, project, user)))

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "put_item",
                TableName=self._table.name,
                Item=self._row(erasure),
                ConditionExpression="body = :before",
                ExpressionAttributeValues={":before": {"B": msgspec.json.encode(before)}},
            )
            return True
        return self._read(_pk(erasure)) == erasure  # an answer was lost, and the put was repeated

    def pending(self) -> list[UserErasure]:
        rows = self._table.query("lane_shard = :kind", {":kind": {"S": PENDING}}, IndexName=OPEN_INDEX)
        found = [self._read(row["pk"]["S"]) for row in rows]
        return [erasure for erasure in found if erasure and not erasure.done_at]

    def _read(self, pk: str) -> UserErasure | None:
        row = self._table.get(pk, ERASURE, consistent=True)
        if row is None or int(row.get("expires_at", _NEVER)["N"]) <= self._clock.now().timestamp():
            return None
        return _DECODER.decode(row["body"]["B"])

    def _row(self, erasure: UserErasure) -> Item:
        row = {**key(_pk(erasure), ERASURE), "body": {"B": msgspec.json.encode(erasure)}}
        if erasure.done_at:
            return {**row, "expires_at": {"N": str(int(self._clock.now().timestamp()) + KEPT_S)}}
        return {**row, "lane_shard": {"S": PENDING}, "lane_since": {"S": erasure.asked_at}}


def _pk(erasure: UserErasure) -> str:
    return person_pk(erasure.tenant, erasure.project, erasure.whose)


_NEVER: Final = {"N": str(2**62)}
