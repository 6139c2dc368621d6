"""Counts the billed units of a client's calls, attempt by attempt, into the ledger.

The table reports its own units; if it reports none (an emulator, a failed condition, a lost answer), they are computed
from the sizes of the items that were sent and found. S3 does not bill 5xx answers. A request whose answer was lost
counts as served; one without a connection does not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError

from stepline.adapters.aws.error import CONDITION_FAILED, TRANSACTION_CANCELLED, Item
from stepline.adapters.aws.metering.item_size import item_bytes, read_units_x2, value_bytes, write_units

if TYPE_CHECKING:
    from stepline.metering.ledger import Ledger

UNSENT: Final = (ConnectTimeoutError, EndpointConnectionError, ProxyConnectionError)
FRAME_BYTES: Final = 32 * 1024
"""The billing unit of a post, in bytes; a started unit counts."""
FREE_OBJECT_CALLS: Final = frozenset({"AbortMultipartUpload", "DeleteObject", "DeleteObjects"})
DEAR_OBJECT_CALLS: Final = ("Put", "Copy", "List", "Create", "Upload", "Complete", "Restore")
READS: Final = frozenset({"GetItem", "BatchGetItem", "Query", "Scan", "TransactGetItems"})
INDEX_KEYS: Final = ("gsi1pk", "gsi2pk", "lane_shard")
"""An item with one of these attributes is in an additional index, which is written with it."""
PARAMS: Final = "stepline.params"


class ClientMeter:
    """Counts calls to the table, the bucket, the websocket callback, the vector index, and Bedrock's embeddings."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def listen(self, client: Any) -> None:
        """Count all calls of a client from now on."""
        events = client.meta.events
        count = {
            "dynamodb": self._count_units,
            "s3": self._count_object,
            "apigatewaymanagementapi": self._count_post,
            "bedrock-runtime": self._count_embedding,
            "s3vectors": self._count_search,
        }[client.meta.service_model.service_name]
        service = client.meta.service_model.service_id.hyphenize()
        events.register(f"provide-client-params.{service}", self._keep)
        events.register(f"response-received.{service}", count)

    def _keep(self, params: Item, model: Any, context: Item, **_: Any) -> Item | None:
        """Keep the parameters of a call; request consumed units and failed items from the table."""
        asked = params
        if model.service_model.service_name == "dynamodb" and "ReturnConsumedCapacity" in _members(model):
            asked = {**params, "ReturnConsumedCapacity": "TOTAL"}
            if "ConditionExpression" in params:
                asked["ReturnValuesOnConditionCheckFailure"] = "ALL_OLD"
        context[PARAMS] = asked
        return asked if asked is not params else None

    def _count_units(
        self,
        event_name: str,
        context: Item,
        parsed_response: Item | None,
        exception: Exception | None,
        **_: Any,
    ) -> None:
        operation, asked = event_name.rpartition(".")[2], context.get(PARAMS, {})
        if exception is not None and isinstance(exception, UNSENT):
            return
        answer = parsed_response or {}
        status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", HTTPStatus.OK)
        if status < HTTPStatus.MULTIPLE_CHOICES:
            reads_x2, writes = units_of(operation, asked, answer)
        elif answer.get("Error", {}).get("Code") in (CONDITION_FAILED, TRANSACTION_CANCELLED):
            reads_x2, writes = 0, refused_units(operation, asked, answer)
        else:
            return
        self._ledger.count("read_units_x2", reads_x2)
        self._ledger.count("write_units", writes)

    def _count_object(
        self, event_name: str, parsed_response: Item | None, exception: Exception | None, **_: Any
    ) -> None:
        operation = event_name.rpartition(".")[2]
        if operation in FREE_OBJECT_CALLS or not _is_served(parsed_response, exception):
            return
        self._ledger.count("object_puts" if operation.startswith(DEAR_OBJECT_CALLS) else "object_gets")

    def _count_post(
        self,
        event_name: str,
        context: Item,
        parsed_response: Item | None,
        exception: Exception | None,
        **_: Any,
    ) -> None:
        status = (parsed_response or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", HTTPStatus.OK)
        if (
            event_name.endswith(".PostToConnection")
            and status < HTTPStatus.BAD_REQUEST
            and _is_served(parsed_response, exception)
        ):
            size_bytes = len(context[PARAMS]["Data"])
            self._ledger.count("posts", max(1, -(-size_bytes // FRAME_BYTES)))
            self._ledger.count("post_bytes", size_bytes)

    def _count_embedding(self, parsed_response: Item | None, exception: Exception | None, **_: Any) -> None:
        if _is_served(parsed_response, exception):
            self._ledger.count("embeddings")

    def _count_search(
        self, event_name: str, parsed_response: Item | None, exception: Exception | None, **_: Any
    ) -> None:
        if event_name.endswith(".QueryVectors") and _is_served(parsed_response, exception):
            self._ledger.count("searches")


def _members(model: Any) -> Mapping[str, Any]:
    members: Mapping[str, Any] = model.input_shape.members if model.input_shape else {}
    return members


def _is_served(answer: Item | None, exception: Exception | None) -> bool:
    if exception is not None:
        return not isinstance(exception, UNSENT)
    status = (answer or {}).get("ResponseMetadata", {}).get("HTTPStatusCode", HTTPStatus.OK)
    return bool(status < HTTPStatus.INTERNAL_SERVER_ERROR)


def units_of(operation: str, asked: Item, answer: Item) -> tuple[int, int]:
    """Return twice the read units, and the write units, of a served call."""
    reported = answer.get("ConsumedCapacity")
    if not reported:
        return _estimated(operation, asked, answer)
    rows = reported if isinstance(reported, list) else [reported]
    total = sum(row.get("CapacityUnits", 0.0) for row in rows)
    if operation in READS:
        return round(total * 2), 0
    reads = sum(row.get("ReadCapacityUnits", 0.0) for row in rows)
    return round(reads * 2), round(total - reads)


def refused_units(operation: str, asked: Item, answer: Item) -> int:
    """Return the write units of a call whose condition failed, which is billed by the larger of the two items."""
    if operation != "TransactWriteItems":
        return write_units(max(item_bytes(answer.get("Item") or {}), item_bytes(asked.get("Item", {}))))
    reasons = answer.get("CancellationReasons", [])
    return 2 * sum(
        write_units(max(item_bytes(reason.get("Item") or {}), _written_bytes(action)))
        for action, reason in zip(asked["TransactItems"], reasons, strict=False)
    )


def _estimated(operation: str, asked: Item, answer: Item) -> tuple[int, int]:
    if operation in READS:
        return _estimated_read(operation, asked, answer), 0
    match operation:
        case "TransactWriteItems":
            return 0, 2 * sum(_write(action) for action in asked["TransactItems"])
        case "BatchWriteItem":
            return 0, sum(
                _write({name.removesuffix("Request"): one for name, one in request.items()})
                for requests in asked["RequestItems"].values()
                for request in requests
            )
        case "PutItem" | "UpdateItem" | "DeleteItem":
            return 0, _write({operation.removesuffix("Item"): asked})
        case _:
            return 0, 0


def _estimated_read(operation: str, asked: Item, answer: Item) -> int:
    if operation == "BatchGetItem":
        return _batch_read(asked, answer)
    found = answer.get("Items", [answer.get("Item") or {}])
    return read_units_x2(sum(map(item_bytes, found)), consistent=bool(asked.get("ConsistentRead")))


def _batch_read(asked: Item, answer: Item) -> int:
    units = 0
    for table, request in asked["RequestItems"].items():
        consistent = bool(request.get("ConsistentRead"))
        found: Iterable[Item] = answer.get("Responses", {}).get(table, ())
        sizes = [item_bytes(item) for item in found]
        absent = [0] * (len(request["Keys"]) - len(sizes))
        units += sum(read_units_x2(size, consistent=consistent) for size in [*sizes, *absent])
    return units


def _write(action: Item) -> int:
    """Return the units of one write with its indexes, as far as its parameters show them."""
    asked = next(iter(action.values()))
    text = asked.get("UpdateExpression", "")
    indexes = sum(name in asked.get("Item", {}) or name in text for name in INDEX_KEYS)
    return write_units(_written_bytes(action)) * (1 + indexes)


def _written_bytes(action: Item) -> int:
    asked = next(iter(action.values()))
    if "Item" in asked:
        return item_bytes(asked["Item"])
    values = asked.get("ExpressionAttributeValues", {}).values() if "UpdateExpression" in asked else ()
    return item_bytes(asked.get("Key", {})) + sum(value_bytes(value) for value in values)
