"""Accounts on DynamoDB: one row of limits per account, one row of counters per month, and one for its storage.

The counters of a month and of its days are in one row with short names, so that it stays below a kilobyte: `t` and `n`
are tokens and billionths of a dollar, `ht` and `hn` those that running rounds hold, `t26` and `n26` those of a day. In
the storage row, `bytes` are stored or held bytes, and `h1790000000` are the bytes held until this epoch second. There
are also rows for the messages of a minute and for each other kind of request, and one row per invocation for its cost.

A project and a tenant have further such rows, shards, for what their conversations add without a condition, so that
many turns do not write to one partition; their counters are the sums over all rows. A change on condition of a limit
is made in the first row: its own value is compared with the rest that the shards, read just before, leave. A shard
that grows in between is what a turn used beyond its hold, as if it had been charged right after.
"""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from threading import Lock
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
    map_error,
    map_fenced_error,
    mapped,
    tolerated,
)
from stepline.adapters.aws.metering.item_size import item_bytes, write_units
from stepline.adapters.aws.table import (
    HEAD,
    Table,
    account_pk,
    account_pks,
    account_shard,
    charge_pk,
    cost_pk,
    key,
    limits_pk,
    rate_pk,
)
from stepline.errors import DependencyError, InputError
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Posting
from stepline.model.tenancy.consumption import InvocationCost
from stepline.model.tenancy.limits import NANOS_PER_USD, Limits, Scope, Used
from stepline.model.tenancy.request_rates import RequestKind
from stepline.ports.tenancy.accounts import STEP, GivenLimits, Posted

STORED: Final = "STORED"
READ_TRIES: Final = 5
CONFLICT: Final = "TransactionConflict"
ENDED_AT_ONCE: Final = 50
"""The number of expired holds that one update releases; an expression has at most 300 operators."""


class DynamoAccounts:
    """Accounts in one table. Every read is strong: a limit applies from the moment it is set."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def limits(self, scopes: Sequence[Scope]) -> tuple[GivenLimits, ...]:
        found = self._rows([(limits_pk(scope), HEAD) for scope in scopes])
        rows = (found.get((limits_pk(scope), HEAD)) for scope in scopes)
        return tuple(_read_limits(row) if row else GivenLimits() for row in rows)

    def set_limits(self, scope: Scope, limits: Limits, *, version: int, by: str, at: str) -> int:
        given = GivenLimits(limits=limits, version=version + 1, by=by, at=at)
        item = key(limits_pk(scope), HEAD) | {"body": {"B": msgspec.json.encode(given)}}
        try:
            self._table.call("put_item", TableName=self._table.name, **_versioned(item, version + 1))
        except AWS_ERRORS as error:
            if error_code(error) != CONDITION_FAILED:
                raise map_error(error) from error
            if self.limits([scope])[0] != given:  # otherwise an answer was lost, and the put was repeated
                raise InputError("the limits were changed meanwhile", code="limits_changed") from error
        return version + 1

    def used(self, scopes: Sequence[Scope], at: datetime) -> tuple[Used, ...]:
        now = at.astimezone(UTC)
        month = f"{now:%Y-%m}"
        pks = [account_pks(scope) for scope in scopes]
        found = self._rows([(pk, sk) for rows in pks for pk in rows for sk in (month, STORED)])
        return tuple(
            _read_used(_sum_counters(found, rows, month), _sum_counters(found, rows, STORED), now)
            for rows in pks
        )

    def account(self, lane: Lane) -> Account:
        item = self._table.get(charge_pk(lane), HEAD, consistent=True)
        return msgspec.json.decode(item["body"]["B"], type=Account) if item else Account()

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        if any(posting.is_impossible for posting in postings):
            return "full"
        item = key(charge_pk(lane), HEAD) | {"body": {"B": msgspec.json.encode(account)}}
        put = {"TableName": self._table.name, **_versioned(item, account.version)}
        beside = self._read_shards([posting for posting in postings if dict(_bounds(posting))])
        changes = [{"Update": self._change(posting, lane, beside)} for posting in postings]
        try:
            if changes:
                self._table.call("transact_write_items", TransactItems=[{"Put": put}, *changes])
            else:
                self._table.call("put_item", **put)
        except AWS_ERRORS as error:
            return _refusal(error)
        return "posted"

    def _read_shards(self, postings: Sequence[Posting]) -> dict[tuple[str, str], Item]:
        """Return the shards of the accounts that limit these changes, by one strong read if there are any."""
        places = [(pk, _sk(posting)) for posting in postings for pk in account_pks(posting.scope)[1:]]
        return self._rows(places) if places else {}

    def _change(self, posting: Posting, lane: Lane, beside: Mapping[tuple[str, str], Item]) -> Item:
        """Return the update of one row of counters; `#0`, `:0` and so on are its attributes and amounts.

        `beside` has the shards of an account that limits the change.
        """
        added = dict(_added(posting))
        bounds = dict(_bounds(posting))
        is_divided = not bounds and not posting.ends  # the end of a hold is a condition of its release
        shard = account_shard(posting.scope, lane) if is_divided else None
        sk = _sk(posting)
        sums = _sum_counters(beside, account_pks(posting.scope)[1:], sk)
        bounds = {name: most - sums[name] for name, most in bounds.items()}
        names = {name: f"#{i}" for i, name in enumerate(dict.fromkeys((*added, *bounds)))}
        values = {f":a{i}": {"N": str(amount)} for i, amount in enumerate(added.values())}
        values |= {f":m{i}": {"N": str(most)} for i, most in enumerate(bounds.values())}
        within = [
            f"(attribute_not_exists({names[name]}) OR {names[name]} <= :m{i})"
            if most >= 0
            else f"{names[name]} <= :m{i}"
            for i, (name, most) in enumerate(bounds.items())
        ]
        for until_s, change in posting.ends.items():
            if change < 0:
                values[f":h{until_s}"] = {"N": str(-change)}
                within.append(f"{names[f'h{until_s}']} >= :h{until_s}")
        return {
            "TableName": self._table.name,
            "Key": key(account_pk(posting.scope, shard), sk),
            "UpdateExpression": "ADD " + ", ".join(f"{names[name]} :a{i}" for i, name in enumerate(added)),
            "ExpressionAttributeNames": {mark: name for name, mark in names.items()},
            "ExpressionAttributeValues": values,
            **({"ConditionExpression": " AND ".join(within)} if within else {}),
        }

    def end_holds(self, scopes: Sequence[Scope], at: datetime) -> None:
        for (pk, sk), row in self._rows([(account_pk(scope), STORED) for scope in scopes]).items():
            ends = _ends(_counters(row))
            ended = {until_s: held for until_s, held in ends.items() if until_s <= at.timestamp()}
            if ended:
                self._take_back(key(pk, sk), dict(sorted(ended.items())[:ENDED_AT_ONCE]))

    def _take_back(self, row: Item, ended: Mapping[int, int]) -> None:
        """Release a hold that has not been released meanwhile."""
        with mapped(), tolerated(CONDITION_FAILED):
            self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=row,
                UpdateExpression="ADD #bytes :all REMOVE " + ", ".join(f"h{until_s}" for until_s in ended),
                ConditionExpression=" AND ".join(f"h{until_s} = :h{until_s}" for until_s in ended),
                ExpressionAttributeNames={"#bytes": "bytes"},
                ExpressionAttributeValues={
                    ":all": {"N": str(-sum(ended.values()))},
                    **{f":h{until_s}": {"N": str(held)} for until_s, held in ended.items()},
                },
            )

    def forget(self, scope: Scope) -> None:
        for pk in account_pks(scope):
            items = self._table.query(
                "pk = :pk", {":pk": {"S": pk}}, ConsistentRead=True, ProjectionExpression="pk, sk"
            )
            for item in items:
                self._table.delete(item["pk"]["S"], item["sk"]["S"])
        self._table.delete(limits_pk(scope), HEAD)

    def _rows(self, places: Sequence[tuple[str, str]]) -> dict[tuple[str, str], Item]:
        """Return the existing rows by key, by a strong read."""
        wanted: dict[str, Any] = {
            self._table.name: {"Keys": [key(pk, sk) for pk, sk in places], "ConsistentRead": True}
        }
        found: dict[tuple[str, str], Item] = {}
        with mapped():
            for _ in range(READ_TRIES):
                answer = self._table.call("batch_get_item", RequestItems=wanted)
                for item in answer["Responses"].get(self._table.name, []):
                    found[item["pk"]["S"], item["sk"]["S"]] = item
                wanted = answer.get("UnprocessedKeys") or {}
                if not wanted:
                    return found
        raise DependencyError("the table did not read all rows", aws_code="UnprocessedKeys")


def _versioned(item: Item, version: int) -> Item:
    """Return the parameters that put a row as this version, on condition that it has the previous version."""
    put: Item = {"Item": item | {"version": {"N": str(version)}}}
    if version == 1:
        return put | {"ConditionExpression": "attribute_not_exists(pk)"}
    return put | {
        "ConditionExpression": "version = :before",
        "ExpressionAttributeValues": {":before": {"N": str(version - 1)}},
    }


def _read_limits(item: Item) -> GivenLimits:
    return msgspec.json.decode(item["body"]["B"], type=GivenLimits)


def _read_used(month: Counter[str], stored: Counter[str], now: datetime) -> Used:
    day, ends = f"{now:%d}", _ends(stored)
    held_tokens, held_nanos = month["ht"], month["hn"]
    return Used(
        tokens_day=max(0, month[f"t{day}"] - held_tokens),
        tokens_month=month["t"] - held_tokens,
        usd_day=max(0, month[f"n{day}"] - held_nanos) / NANOS_PER_USD,
        usd_month=(month["n"] - held_nanos) / NANOS_PER_USD,
        storage_bytes=stored["bytes"] - sum(ends.values()),
        held_tokens=held_tokens,
        held_usd=held_nanos / NANOS_PER_USD,
        held_bytes=sum(held for until_s, held in ends.items() if now.timestamp() < until_s),
    )


def _sum_counters(rows: Mapping[tuple[str, str], Item], pks: Iterable[str], sk: str) -> Counter[str]:
    """Return the sums of the rows with these keys; a missing row counts nothing."""
    sums: Counter[str] = Counter()
    for pk in pks:
        sums.update(_counters(rows.get((pk, sk), {})))
    return sums


def _counters(item: Item) -> Counter[str]:
    return Counter({name: int(value["N"]) for name, value in item.items() if "N" in value})


def _ends(stored: Counter[str]) -> dict[int, int]:
    """Return the bytes that uploads hold, by the second when each hold ends."""
    return {int(name[1:]): held for name, held in stored.items() if re.fullmatch(r"h\d+", name)}


def _sk(posting: Posting) -> str:
    return STORED if posting.is_of_storage else posting.month


def _added(posting: Posting) -> Iterator[tuple[str, int]]:
    """Yield the attributes that a posting changes, and by how much."""
    named = {"bytes": posting.stored_bytes, "t": posting.amount.tokens, "n": posting.amount.nanos}
    named |= {"ht": posting.held.tokens, "hn": posting.held.nanos}
    named |= {f"h{until_s}": change for until_s, change in posting.ends.items()}
    for day, amount in posting.days.items():
        named |= {f"t{day}": amount.tokens, f"n{day}": amount.nanos}
    yield from ((name, amount) for name, amount in named.items() if amount)


def _bounds(posting: Posting) -> Iterator[tuple[str, int]]:
    """Yield the attributes that a posting limits, and their maximum values before it."""
    day = posting.day
    named = {"bytes": posting.most_stored_bytes, "t": posting.most_tokens, "n": posting.most_nanos}
    named |= {f"t{day}": posting.most_day_tokens, f"n{day}": posting.most_day_nanos}
    yield from ((name, most) for name, most in named.items() if most is not None)


def _refusal(error: AwsError) -> Posted:
    """Return the reason that a change was refused. Raises the mapped error if no condition failed."""
    if error_code(error) == CONDITION_FAILED:
        return "moved"
    failed = cancelled_by(error, CONDITION_CODE)
    if 0 in failed:
        return "moved"
    if failed and not cancelled_by(error, CONFLICT):
        return "full"
    raise map_fenced_error(error) from error


KEPT_MINUTES: Final = 5
"""The minutes after which AWS may delete a row."""


class DynamoRate:
    """Makes one update per message, and one per STEP other requests that this process has counted.

    An update repeated by botocore counts twice: the limit is not exact.
    """

    def __init__(self, table: Table) -> None:
        self._table = table
        self._lock = Lock()
        self._minute = 0
        self._stored: dict[tuple[Scope, RequestKind], int] = {}
        self._own: dict[tuple[Scope, RequestKind], int] = {}

    def count(self, scope: Scope, minute: int) -> int:
        return self._add(scope, minute, str(minute), 1)

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        """Count in `_own` the requests that are not in the row yet; `_stored` is the row's last known value."""
        whose = scope, kind
        with self._lock:
            if minute != self._minute:
                self._minute, self._stored, self._own = minute, {}, {}
            own = self._own.get(whose, 0) + 1
            self._own[whose] = own % STEP
            if own < STEP:
                return self._stored.get(whose, 0) + own
        stored = self._add(scope, minute, f"{minute}#{kind}", STEP)
        with self._lock:
            if minute == self._minute:
                self._stored[whose] = max(stored, self._stored.get(whose, 0))
        return stored

    def _add(self, scope: Scope, minute: int, row: str, number: int) -> int:
        expires_at = (minute + 1 + KEPT_MINUTES) * 60
        with mapped():
            answer = self._table.call(
                "update_item",
                TableName=self._table.name,
                Key=key(rate_pk(scope.tenant, scope.project, scope.user), row),
                UpdateExpression="ADD said :number SET expires_at = :expires_at",
                ExpressionAttributeValues={
                    ":number": {"N": str(number)},
                    ":expires_at": {"N": str(expires_at)},
                },
                ReturnValues="UPDATED_NEW",
            )
        return int(answer["Attributes"]["said"]["N"])


_COST: Final = msgspec.json.Decoder(InvocationCost)


class DynamoCosts:
    """Costs of invocations. A row's key has its turn, its time and a nonce; it is put once, without a condition."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        place = key(cost_pk(lane), f"{cost.turn}#{cost.at}#{secrets.token_hex(4)}")
        units = write_units(item_bytes(_item(place, cost)))
        used = replace(cost.used, write_units=cost.used.write_units + units)
        self._table.put(_item(place, replace(cost, used=used)))

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        condition, values = "pk = :pk", {":pk": {"S": cost_pk(lane)}}
        if turn is not None:
            condition, values[":turn"] = f"{condition} AND begins_with(sk, :turn)", {"S": f"{turn}#"}
        items = self._table.query(condition, values, ConsistentRead=True)
        return sorted((_COST.decode(item["body"]["B"]) for item in items), key=lambda row: row.at)


def _item(place: Item, cost: InvocationCost) -> Item:
    return {**place, "body": {"B": msgspec.json.encode(cost)}}
