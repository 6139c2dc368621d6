"""AWS's meter: a front before moto that bills every request on the wire, and reports units as DynamoDB does.

It knows only requests and items, not how the library counts. The greenlet of a request identifies its caller;
requests of the test itself have none.

Source: DynamoDB developer guide, "Read and write operations"; S3 user guide, "Billing for Amazon S3 error responses"; the price
pages of S3 and API Gateway.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import greenlet
import msgspec
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from moto.core.botocore_stubber import BotocoreStubber, MockRawResponse

from stepline.adapters.aws.client import connect
from stepline.model.tenancy.consumption import InvocationCost

Attributes = dict[str, Any]
INDEXES: Final = (("gsi1pk", "gsi1sk"), ("gsi2pk", "gsi2sk"), ("lane_shard", "lane_since"))
OBSERVER: Final = "X-Observer"
PARTITION: Final = re.compile(r"^\w+ = (:\w+)")
KB: Final = 1024


class Call(NamedTuple):
    """A call of the table as it is on the wire."""

    operation: str
    asked: Attributes
    request: AWSPreparedRequest


class Touch(NamedTuple):
    """Units of one partition, of the table (`index_name` is "") or of one of its indexes, read or written."""

    index_name: str
    partition: str
    is_write: bool
    units: float


class BillingFront:
    """`bills` has what each caller owes: `read_x2 write put get post post_bytes`, and its requests as `call`.

    `rows` are the receipts that it has put, `touches` the partitions that its units went to.
    """

    def __init__(self) -> None:
        self.bills: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.touches: defaultdict[str, list[Touch]] = defaultdict(list)
        self.rows: dict[str, InvocationCost] = {}
        self.callers: dict[greenlet.greenlet, str] = {}
        self._table: Any = None

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Bill the requests to moto."""
        served = BotocoreStubber.__call__

        def serve(stubber: BotocoreStubber, event_name: str, request: AWSPreparedRequest, **more: Any) -> Any:
            def forward() -> Any:
                return served(stubber, event_name, request, **more)

            caller = self.callers.get(greenlet.getcurrent(), "")
            if not stubber.enabled or not caller or request.headers.get(OBSERVER):
                return forward()
            return self._bill(self.bills[caller], caller, event_name, request, forward)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(BotocoreStubber, "__call__", serve)
            yield

    def _bill(
        self,
        bill: Counter[str],
        caller: str,
        event_name: str,
        request: AWSPreparedRequest,
        forward: Callable[[], Any],
    ) -> Any:
        operation = event_name.rpartition(".")[2]
        bill.update(call=1)
        if ".dynamodb." in event_name:
            call = Call(operation, json.loads(_body(request)), request)
            return self._bill_units(bill, caller, call, forward)
        if ".s3." in event_name:
            answer = forward()
            if answer.status_code < HTTPStatus.INTERNAL_SERVER_ERROR:
                listed = request.method == "GET" and "list-type" in request.url
                kind = "put" if request.method in ("PUT", "POST") or listed else "get"
                bill.update({kind: request.method != "DELETE"})
            return answer
        if "@connections" in request.url:
            size = len(_body(request))
            bill.update(post=max(1, (size + 32 * KB - 1) // (32 * KB)), post_bytes=size)
            return _answer(request, 200, b"")
        return forward()

    # --- the table

    def _bill_units(self, bill: Counter[str], caller: str, call: Call, forward: Callable[[], Any]) -> Any:
        operation, asked = call.operation, call.asked
        places = list(_places(operation, asked))
        before = [self._item(table, place) for table, place in places]
        answer = forward()
        said = json.loads(answer.content) if answer.content else {}
        after = [self._item(table, place) for table, place in places]
        factor = 2 if operation == "TransactWriteItems" else 1
        kind = said.get("__type", "").rpartition("#")[2]
        if kind in ("ConditionalCheckFailedException", "TransactionCanceledException"):
            meant = [new if new is not None else {} for new in _new_items(operation, asked)]
            units = [_kb(max(_size(old), _size(new))) for old, new in zip(before, meant, strict=True)]
            bill.update(write=factor * sum(units))
            return answer
        if answer.status_code >= HTTPStatus.MULTIPLE_CHOICES:
            return answer
        if operation in ("GetItem", "Query", "BatchGetItem"):
            units_x2 = _read_x2(operation, asked, said)
            bill.update(read_x2=units_x2)
            self.touches[caller] += _reads(operation, asked, units_x2 / 2)
            return _reporting(call, answer, said, units_x2 / 2)
        changes = [
            touch
            for (_, place), old, new in zip(places, before, after, strict=True)
            for touch in _writes(place, old, new)
        ]
        written = factor * round(sum(touch.units for touch in changes))
        bill.update(write=written)
        self.touches[caller] += [touch._replace(units=factor * touch.units) for touch in changes]
        if operation == "PutItem" and asked["Item"]["pk"]["S"].startswith("COST#"):
            body = base64.b64decode(asked["Item"]["body"]["B"])
            self.rows[caller] = msgspec.json.decode(body, type=InvocationCost)
        return _reporting(call, answer, said, float(written))

    def _item(self, table: str, place: Attributes) -> Attributes:
        if self._table is None:
            self._table = observing(connect("dynamodb", read_timeout_s=5))
        found = self._table.get_item(TableName=table, Key=_decoded(place), ConsistentRead=True)
        item: Attributes = found.get("Item", {})
        return item


def observing(client: Any) -> Any:
    """Return a client whose requests are the test's own, wherever it is asked."""
    client.meta.events.register(
        "before-sign", lambda request, **_: request.headers.add_header(OBSERVER, "yes")
    )
    return client


def _places(operation: str, asked: Attributes) -> Iterator[tuple[str, Attributes]]:
    """Yield the table and the key of everything that a call may write."""
    match operation:
        case "PutItem" | "UpdateItem" | "DeleteItem":
            yield asked["TableName"], _key(asked)
        case "TransactWriteItems":
            for action in asked["TransactItems"]:
                (one,) = action.values()
                yield one["TableName"], _key(one)
        case "BatchWriteItem":
            for table, requests in asked["RequestItems"].items():
                for one in requests:
                    yield table, _key(next(iter(one.values())))


def _new_items(operation: str, asked: Attributes) -> Iterator[Attributes | None]:
    """Yield the items that a call would have put; None for a write of another kind."""
    if operation == "TransactWriteItems":
        for action in asked["TransactItems"]:
            item = next(iter(action.values())).get("Item")
            yield _decoded(item) if item else None
    else:
        yield _decoded(asked["Item"]) if "Item" in asked else None


def _key(one: Attributes) -> Attributes:
    found = one.get("Key") or one["Item"]
    return {"pk": found["pk"], "sk": found["sk"]}


def _decoded(item: Attributes) -> Attributes:
    return {
        name: {kind: base64.b64decode(value) if kind == "B" else value for kind, value in typed.items()}
        for name, typed in item.items()
    }


def _size(item: Attributes) -> int:
    return sum(len(name.encode()) + _value_size(typed) for name, typed in item.items())


def _value_size(typed: Attributes) -> int:
    ((kind, value),) = typed.items()
    if kind == "S":
        return len(value.encode())
    if kind == "N":  # a byte for two significant digits, and one more
        significant = value.replace("-", "").replace(".", "").strip("0")
        return -(-len(significant) // 2) + 1 + value.startswith("-")
    if kind == "BOOL":
        return 1
    if kind in ("SS", "NS"):
        return sum(_value_size({kind[0]: one}) for one in value)
    return len(value)


def _kb(size: int) -> int:
    return max(1, (size + KB - 1) // KB)


def _writes(place: Attributes, old: Attributes, new: Attributes) -> Iterator[Touch]:
    """Yield the units of a write of one item, with those of the indexes that it changes."""
    yield Touch("", place["pk"]["S"], is_write=True, units=_kb(max(_size(old), _size(new))))
    for at, keys in enumerate(INDEXES, 1):
        yield from _index_writes(f"GSI{at}", old, new, keys)


def _index_writes(index: str, old: Attributes, new: Attributes, keys: tuple[str, str]) -> Iterator[Touch]:
    was, will = (_projected(item, keys) for item in (old, new))
    if was == will:
        return
    if was and will and all(was[key] == will[key] for key in keys):
        yield Touch(index, will[keys[0]]["S"], is_write=True, units=_kb(max(_size(was), _size(will))))
        return
    for one in (was, will):
        if one:
            yield Touch(index, one[keys[0]]["S"], is_write=True, units=_kb(_size(one)))


def _projected(item: Attributes, keys: tuple[str, str]) -> Attributes:
    if not all(key in item for key in keys):
        return {}
    if keys[0] != "lane_shard":
        return item
    names = ("pk", "sk", "lane_open", *keys)
    return {name: item[name] for name in names if name in item}


def _reads(operation: str, asked: Attributes, units: float) -> Iterator[Touch]:
    """Yield the units of a read by partition; those of a batch are spread evenly over its keys."""
    if operation == "GetItem":
        yield Touch("", asked["Key"]["pk"]["S"], is_write=False, units=units)
    elif operation == "Query":
        found = PARTITION.search(asked["KeyConditionExpression"])
        assert found is not None
        partition = asked["ExpressionAttributeValues"][found[1]]["S"]
        yield Touch(asked.get("IndexName", ""), partition, is_write=False, units=units)
    else:
        keys = [key for one in asked["RequestItems"].values() for key in one["Keys"]]
        for key in keys:
            yield Touch("", key["pk"]["S"], is_write=False, units=units / len(keys))


def _read_x2(operation: str, asked: Attributes, said: Attributes) -> int:
    def units(items: list[Attributes], *, consistent: bool) -> int:
        size = sum(_size(_decoded(item)) for item in items)
        return max(1, (size + 4 * KB - 1) // (4 * KB)) * (2 if consistent else 1)

    if operation == "GetItem":
        return units([said.get("Item", {})], consistent=asked.get("ConsistentRead", False))
    if operation == "Query":
        return units(said["Items"], consistent=asked.get("ConsistentRead", False))
    total = 0
    for table, one in asked["RequestItems"].items():
        consistent, found = one.get("ConsistentRead", False), said["Responses"].get(table, [])
        absent: list[Attributes] = [{}] * (len(one["Keys"]) - len(found))
        total += sum(units([item], consistent=consistent) for item in [*found, *absent])
    return total


def _reporting(call: Call, answer: AWSResponse, said: Attributes, units: float) -> AWSResponse:
    """Return the answer with the units that AWS would report, if they were asked for."""
    said.pop("ConsumedCapacity", None)
    if call.asked.get("ReturnConsumedCapacity") == "TOTAL":
        reported = {"TableName": "t", "CapacityUnits": units}
        many = call.operation in ("TransactWriteItems", "BatchWriteItem", "BatchGetItem")
        said["ConsumedCapacity"] = [reported] if many else reported
    return _answer(call.request, answer.status_code, json.dumps(said).encode())


def _answer(request: AWSPreparedRequest, status: int, body: bytes) -> AWSResponse:
    answered: Any = AWSResponse
    return answered(request.url, status, {}, MockRawResponse(body))


def _body(request: AWSPreparedRequest) -> bytes:
    assert isinstance(request.body, bytes)
    return request.body
