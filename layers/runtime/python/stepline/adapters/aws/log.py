"""The log on DynamoDB: one batch per item, and a conditional put as the only commit point."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from itertools import chain, islice
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.adapters.aws.error import (
    AWS_ERRORS,
    CONDITION_CODE,
    CONDITION_FAILED,
    AwsError,
    Item,
    cancelled_by,
    error_code,
    failed_items,
    map_error,
    map_fenced_error,
    mapped,
    tolerated,
)
from stepline.adapters.aws.table import (
    HEAD,
    OPEN_INDEX,
    OPEN_SHARDS,
    QUEUE,
    RESERVED,
    Table,
    batch_sk,
    conversation_pk,
    feedback_pk,
    feedback_sk,
    fork_sk,
    key,
    log_pk,
    message_sk,
    open_shard,
    rated_pk,
    slot_pk,
    user_pk,
)
from stepline.adapters.aws.tenancy.tombstone import TOMB, alive_check, burial
from stepline.errors import InputError, NotFoundError
from stepline.model.batch import (
    EMPTY,
    FORK_FORMAT,
    Batch,
    FeedbackPlace,
    FeedbackRow,
    ForkRow,
    QueuedTurn,
    bury_batch,
    decode_batch,
    encode_batch,
    feedback_rows,
    fork_change,
    is_founding,
    queue_changes,
    stamp_format,
)
from stepline.model.ids import Lane, make_lane
from stepline.model.tenancy.limits import Scope
from stepline.ports.log import (
    HAS_FORKS,
    Duplicate,
    FeedbackQuery,
    Listing,
    ListPosition,
    Occupied,
    OpenLane,
    Put,
    Slot,
    Slots,
    SlotTaken,
    Written,
)

MESSAGE_TTL_S: Final = 14 * 24 * 3600
USER_INDEX: Final = "GSI1"
FEEDBACK_INDEX: Final = "GSI2"
DAY_CHARS: Final = 10
"""The day of a time: `2026-11-21`. One project's feedback of one day is one partition of its index."""
_LAST: Final = "~"
"""Sorts after every character of a sort key."""

SHARD_READERS: Final = 8
"""Shards of open lanes that are read at once: fewer than the connections that a client keeps open."""

_IF_ABSENT: Final = {
    "ConditionExpression": "attribute_not_exists(pk)",
    "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
}
_NO_BATCH: Final = msgspec.json.encode(stamp_format(FORK_FORMAT))
"""The body of the row in a fork's first place: a release that cannot read forks stops at its format."""
_FORK: Final = msgspec.json.Decoder(ForkRow)
_QUEUED: Final = msgspec.json.Decoder(QueuedTurn)
_LISTING: Final = msgspec.json.Decoder(Listing)


class DynamoLog:
    """The log in one table. Reads are as consistent as requested; the two indexes are always eventually consistent."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(
        self,
        lane: Lane,
        batch: Batch,
        *,
        message_id: str = "",
        marks_open: bool = False,
        slots: Slots | None = None,
    ) -> Put:
        item = {
            **key(log_pk(lane), batch_sk(batch.n)),
            "n": {"N": str(batch.n)},
            "body": {"B": encode_batch(batch)},
        }
        put = {"TableName": self._table.name, "Item": item, **_IF_ABSENT}
        actions: list[Item] = [{"Put": put}]
        if message_id:
            actions.append({"Put": self._message_put(lane, batch, message_id)})
        claims = range(len(actions), len(actions))
        if marks_open:
            actions += self._mark(lane, batch, slots)
            claims = range(claims.start, len(actions))
        actions += self._feedback_changes(lane, batch)
        actions += self._queue_changes(lane, batch)
        actions += self._fork_changes(lane, batch)
        if (tombstone := bury_batch(lane, batch)) is not None:
            actions += burial(self._table.name, tombstone)
        elif len(actions) > 1 or is_founding(batch):
            actions.append(alive_check(self._table.name, lane))
        try:
            if len(actions) == 1:
                self._table.call("put_item", **put)
            else:
                # botocore gives each call a token that its own retries share, so AWS applies it once.
                self._table.call("transact_write_items", TransactItems=actions)
        except AWS_ERRORS as error:
            return _refusal(error, batch, has_message=bool(message_id), claims=claims)
        return Written()

    def _fork_changes(self, lane: Lane, batch: Batch) -> list[Item]:
        """Return the actions that count a fork at its origin, and reserve the first place of its own log."""
        if (change := fork_change(lane, batch)) is None:
            return []
        origin, fork = change
        place = key(conversation_pk(origin), fork_sk(lane.conversation))
        counted = {
            "TableName": self._table.name,
            "Key": key(conversation_pk(origin), HEAD),
            "UpdateExpression": "ADD forks :by",
            "ExpressionAttributeValues": {":by": {"N": "1" if fork else "-1"}},
        }
        if fork is None:
            return [{"Update": counted}, {"Delete": {"TableName": self._table.name, "Key": place}}]
        row = {**place, "body": {"B": msgspec.json.encode(fork)}}
        actions: list[Item] = [
            {"Update": counted},
            {"Put": {"TableName": self._table.name, "Item": row}},
            alive_check(self._table.name, origin),
        ]
        if fork.n:  # else the first batch of the fork has this place
            reserved = {"TableName": self._table.name, "Item": self._reserved(lane), **_IF_ABSENT}
            actions.append({"Put": reserved})
        return actions

    def _reserved(self, lane: Lane) -> Item:
        """Return the row that reserves the first place of a fork's log."""
        return {
            **key(log_pk(lane), batch_sk(1)),
            "n": {"N": "1"},
            "body": {"B": _NO_BATCH},
            RESERVED: {"BOOL": True},
        }

    def _message_put(self, lane: Lane, batch: Batch, message_id: str) -> Item:
        expires_at = int(datetime.fromisoformat(batch.at).timestamp()) + MESSAGE_TTL_S
        item = {
            **key(conversation_pk(lane), message_sk(message_id)),
            "n": {"N": str(batch.n)},
            "expires_at": {"N": str(expires_at)},
        }
        return {"TableName": self._table.name, "Item": item, **_IF_ABSENT}

    def _mark(self, lane: Lane, batch: Batch, slots: Slots | None) -> list[Item]:
        """Return the actions that mark the lane open and take its slots; without `slots` it keeps those it holds."""
        update: Item = {
            "TableName": self._table.name,
            "Key": key(conversation_pk(lane), HEAD),
            "UpdateExpression": "SET lane_open = :n, lane_shard = :shard, lane_since = :since",
            "ExpressionAttributeValues": {
                ":n": {"N": str(batch.n)},
                ":shard": {"S": open_shard(lane)},
                ":since": {"S": batch.at},
            },
        }
        if slots is None:
            return [{"Update": update}]
        update["UpdateExpression"] += ", slots = :slots"
        update["ExpressionAttributeValues"][":slots"] = {"S": _write_slots((*slots.held, *slots.taken))}
        update["ConditionExpression"] = "attribute_not_exists(slots)"
        if slots.held:
            update["ConditionExpression"] = "slots = :held"
            update["ExpressionAttributeValues"][":held"] = {"S": _write_slots(slots.held)}
        rows = [
            {"TableName": self._table.name, "Item": self._slot_key(slot), **_IF_ABSENT}
            for slot in slots.taken
        ]
        return [{"Update": update}, *({"Put": row} for row in rows)]

    def _slot_key(self, slot: Slot) -> Item:
        return key(slot_pk(slot.scope), str(slot.index))

    def _feedback_changes(self, lane: Lane, batch: Batch) -> list[Item]:
        changes: list[Item] = []
        for entry, row in feedback_rows(lane, batch):
            place = key(conversation_pk(lane), feedback_sk(entry.turn, entry.origin))
            if row is None:
                changes.append({"Delete": {"TableName": self._table.name, "Key": place}})
                continue
            sort = {"S": _feedback_sort(row.place)}
            indexed = {
                "gsi1pk": {"S": rated_pk(lane.tenant, lane.project, row.owner)},
                "gsi1sk": sort,
                "gsi2pk": {"S": feedback_pk(lane.tenant, lane.project, row.at[:DAY_CHARS])},
                "gsi2sk": sort,
            }
            item = {**place, **indexed, "body": {"B": msgspec.json.encode(row)}}
            changes.append({"Put": {"TableName": self._table.name, "Item": item}})
        return changes

    def _queue_changes(self, lane: Lane, batch: Batch) -> list[Item]:
        changes: list[Item] = []
        for turn, comes in queue_changes(lane, batch):
            place = key(QUEUE, turn.place)
            if comes:
                item = {**place, "body": {"B": msgspec.json.encode(turn)}}
                changes.append({"Put": {"TableName": self._table.name, "Item": item}})
            else:
                changes.append({"Delete": {"TableName": self._table.name, "Key": place}})
        return changes

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        item = self._table.get(log_pk(lane), batch_sk(n), consistent=consistent)
        return _read_batch(item) if item and RESERVED not in item else None

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        newest = self._table.query(
            "pk = :pk",
            {":pk": {"S": log_pk(lane)}},
            ScanIndexForward=False,
            Limit=1,
            ConsistentRead=consistent,
        )
        return next((_read_batch(item) for item in newest), None)

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        condition, values = "pk = :pk AND sk > :n", {":pk": log_pk(lane), ":n": batch_sk(n)}
        if upto is not None:
            if upto <= n:
                return []
            condition, values = "pk = :pk AND sk BETWEEN :n AND :upto", values | {":n": batch_sk(n + 1)}
            values[":upto"] = batch_sk(upto)
        items = self._table.query(
            condition, {name: {"S": value} for name, value in values.items()}, ConsistentRead=consistent
        )
        return [_read_batch(item) for item in items if RESERVED not in item]

    def forks(self, lane: Lane) -> list[ForkRow]:
        rows = self._table.query(
            "pk = :pk AND begins_with(sk, :fork)",
            {":pk": {"S": conversation_pk(lane)}, ":fork": {"S": fork_sk("")}},
            ConsistentRead=True,
        )
        return [_FORK.decode(row["body"]["B"]) for row in rows]

    def admitted(self, lane: Lane, message_id: str) -> int | None:
        item = self._table.get(conversation_pk(lane), message_sk(message_id), consistent=True)
        return int(item["n"]["N"]) if item else None

    def clear_open(self, lane: Lane, upto: int) -> None:
        removal: Item = {
            "TableName": self._table.name,
            "Key": key(conversation_pk(lane), HEAD),
            "UpdateExpression": "REMOVE lane_open, lane_shard, lane_since",
            "ConditionExpression": "lane_open <= :upto AND attribute_not_exists(slots)",
            "ExpressionAttributeValues": {":upto": {"N": str(upto)}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            self._table.call("update_item", **removal)
        except AWS_ERRORS as error:
            if error_code(error) != CONDITION_FAILED:
                raise map_error(error) from error
            (head,) = failed_items(error)
            if head and "slots" in head and "lane_open" in head and int(head["lane_open"]["N"]) <= upto:
                self._free_slots(removal, head["slots"])

    def _free_slots(self, removal: Item, held: Item) -> None:
        """Remove the mark and the rows of its slots, unless another writer has changed the mark meanwhile."""
        removal = {
            **removal,
            "UpdateExpression": f"{removal['UpdateExpression']}, slots",
            "ConditionExpression": "lane_open <= :upto AND slots = :held",
            "ExpressionAttributeValues": {**removal["ExpressionAttributeValues"], ":held": held},
        }
        rows = [
            {"Delete": {"TableName": self._table.name, "Key": self._slot_key(slot)}}
            for slot in _read_slots(held["S"])
        ]
        try:
            self._table.call("transact_write_items", TransactItems=[{"Update": removal}, *rows])
        except AWS_ERRORS as error:
            if 0 not in cancelled_by(error, CONDITION_CODE):
                raise map_error(error) from error

    def held_slots(self, lane: Lane) -> tuple[Slot, ...]:
        head = self._table.get(conversation_pk(lane), HEAD, consistent=True)
        return _read_slots(head["slots"]["S"]) if head and "slots" in head else ()

    def taken_slots(self, scope: Scope) -> frozenset[int]:
        rows = self._table.query(
            "pk = :pk",
            {":pk": {"S": slot_pk(scope)}},
            ConsistentRead=True,
            ProjectionExpression="sk",
        )
        return frozenset(int(row["sk"]["S"]) for row in rows)

    def queued_turns(self, most: int) -> list[QueuedTurn]:
        rows = self._table.query("pk = :pk", {":pk": {"S": QUEUE}}, ConsistentRead=True, Limit=most)
        return [_QUEUED.decode(row["body"]["B"]) for row in islice(rows, most)]

    def count_queued(self, before: QueuedTurn | None = None) -> int:
        condition, values = "pk = :pk", {":pk": {"S": QUEUE}}
        if before is not None:
            condition, values = "pk = :pk AND sk < :place", values | {":place": {"S": before.place}}
        rows = self._table.query(condition, values, ConsistentRead=True, ProjectionExpression="pk")
        return sum(1 for _ in rows)

    def leave_queue(self, turn: QueuedTurn) -> None:
        self._table.delete(QUEUE, turn.place)

    def open_lanes(self, *, before: str) -> list[OpenLane]:
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - only the sweeper uses it

        self._table.client  # noqa: B018 - created once, before the threads use it
        pool = ThreadPoolExecutor(SHARD_READERS, thread_name_prefix="marks")
        try:
            shards = list(pool.map(partial(self._marks, before), OPEN_SHARDS))
        finally:
            pool.shutdown(cancel_futures=True)
        return sorted(chain.from_iterable(shards), key=lambda mark: mark.since)

    def _marks(self, before: str, shard: str) -> list[OpenLane]:
        items = self._table.query(
            "lane_shard = :shard AND lane_since <= :before",
            {":shard": {"S": shard}, ":before": {"S": before}},
            IndexName=OPEN_INDEX,
        )
        return [
            OpenLane(
                lane=make_lane(*item["pk"]["S"].split("#")[1:]),
                n=int(item["lane_open"]["N"]),
                since=item["lane_since"]["S"],
            )
            for item in items
        ]

    def project(self, listing: Listing) -> None:
        lane = listing.lane
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(conversation_pk(lane), HEAD),
                UpdateExpression="SET applied_n = :n, body = :body, gsi1pk = :user, gsi1sk = :last_at",
                ConditionExpression="attribute_not_exists(applied_n) OR applied_n < :n",
                ExpressionAttributeValues={
                    ":n": {"N": str(listing.applied_n)},
                    ":body": {"B": msgspec.json.encode(listing)},
                    ":user": {"S": user_pk(lane.tenant, lane.project, listing.owner)},
                    ":last_at": {"S": listing.last_at},
                },
            )

    def listing(self, lane: Lane) -> Listing | None:
        item = self._table.get(conversation_pk(lane), HEAD, consistent=True)
        return _read_listing(item) if item and "body" in item else None

    def mark_read(self, lane: Lane, n: int) -> None:
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(conversation_pk(lane), HEAD),
                UpdateExpression="SET read_n = :n",
                ConditionExpression="attribute_not_exists(read_n) OR read_n < :n",
                ExpressionAttributeValues={":n": {"N": str(n)}},
            )

    def conversations(
        self,
        tenant: str,
        project: str,
        user: str,
        *,
        after: ListPosition | None = None,
        most: int | None = None,
    ) -> list[Listing]:
        owner = user_pk(tenant, project, user)
        asked: dict[str, Any] = {}
        if after is not None:
            last_at, conversation = after
            lane = Lane(tenant=tenant, project=project, conversation=conversation)
            place = {"gsi1pk": {"S": owner}, "gsi1sk": {"S": last_at}}
            asked["ExclusiveStartKey"] = key(conversation_pk(lane), HEAD) | place
        if most is not None:
            asked["Limit"] = most
        items = self._table.query(
            "gsi1pk = :user",
            {":user": {"S": owner}},
            IndexName=USER_INDEX,
            ScanIndexForward=False,
            **asked,
        )
        return [_read_listing(item) for item in islice(items, most)]

    def feedback(self, query: FeedbackQuery, most: int) -> list[FeedbackRow]:
        if query.user is not None:
            owner = rated_pk(query.tenant, query.project, query.user)
            return self._feedback_between(USER_INDEX, "gsi1", owner, query, most)
        rows: list[FeedbackRow] = []
        newest = min(query.until, query.before[0]) if query.before else query.until
        last = date.fromisoformat(newest[:DAY_CHARS])
        first = date.fromisoformat(query.since[:DAY_CHARS])
        for back in range((last - first).days + 1):
            day = feedback_pk(query.tenant, query.project, (last - timedelta(days=back)).isoformat())
            rows += self._feedback_between(FEEDBACK_INDEX, "gsi2", day, query, most - len(rows))
            if len(rows) >= most:
                break
        return rows

    def _feedback_between(
        self, index: str, name: str, owner: str, query: FeedbackQuery, most: int
    ) -> list[FeedbackRow]:
        last, until = _feedback_sort(query.before) if query.before else _LAST, f"{query.until}{_LAST}"
        values = {":pk": owner, ":since": query.since, ":until": min(last, until)}
        if values[":until"] < query.since:
            return []  # the table would refuse such a query
        items = self._table.query(
            f"{name}pk = :pk AND {name}sk BETWEEN :since AND :until",
            {mark: {"S": value} for mark, value in values.items()},
            IndexName=index,
            ScanIndexForward=False,
            Limit=most + 1,  # the last row of the previous page may still exist
        )
        found = (item for item in items if item[f"{name}sk"]["S"] != last)
        return [_read_feedback(item) for item in islice(found, most)]

    def conversation_feedback(self, lane: Lane) -> list[FeedbackRow]:
        items = self._table.query(
            "pk = :pk AND begins_with(sk, :feedback)",
            {":pk": {"S": conversation_pk(lane)}, ":feedback": {"S": "FEEDBACK#"}},
            ConsistentRead=True,
        )
        return sorted(map(_read_feedback, items), key=lambda row: row.place)


def _feedback_sort(place: FeedbackPlace) -> str:
    return "#".join(place)


def _read_feedback(item: Item) -> FeedbackRow:
    return msgspec.json.decode(item["body"]["B"], type=FeedbackRow)


def _read_batch(item: Item) -> Batch:
    if "body" not in item:
        raise _deleted()
    body: bytes = item["body"]["B"]
    return decode_batch(body)


def _deleted(whose: str | None = None) -> NotFoundError:
    """Return the error for an erased batch, or for a put that a tombstone refused, which has the owner's `whose`."""
    return NotFoundError("the conversation was deleted", code="conversation_deleted", whose=whose)


def _read_listing(item: Item) -> Listing:
    row = _LISTING.decode(item["body"]["B"])
    read_n = int(item["read_n"]["N"]) if "read_n" in item else 0
    return replace(row, read_n=read_n, open="lane_open" in item)


_SLOTS: Final = msgspec.json.Decoder(tuple[Slot, ...])


def _write_slots(slots: tuple[Slot, ...]) -> str:
    return msgspec.json.encode(slots).decode()


def _read_slots(text: str) -> tuple[Slot, ...]:
    return _SLOTS.decode(text)


def _refusal(error: AwsError, batch: Batch, *, has_message: bool, claims: range) -> Put:
    """Return the reason that a put failed; `claims` are its actions that need free slots.

    Raises the mapped error if no condition failed.
    """
    found = failed_items(error)
    first = found[0] if found and found[0] else {}
    there = _read_batch(first) if first and RESERVED not in first else None
    if there and there.by == batch.by:
        return Occupied(batch=there)
    beside = {item["sk"]["S"]: item for item in found[1:] if item}
    if TOMB in beside:
        raise _deleted(beside[TOMB]["whose"]["S"]) from error
    if HEAD in beside:
        raise InputError(HAS_FORKS, code="has_forks") from error
    if has_message and len(found) > 1 and (message := found[1]):
        return Duplicate(n=int(message["n"]["N"]))
    if there:
        return Occupied(batch=there)
    if RESERVED in first or batch_sk(1) in beside:
        return Occupied(batch=EMPTY)  # the conversation is a fork, or began without being one
    if not cancelled_by(error, CONDITION_CODE).isdisjoint(claims):
        return SlotTaken()
    raise map_fenced_error(error) from error
