"""Counts of a call that fails, is repeated, or lacks units that AWS reports."""

import pytest

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.metering.client_meter import refused_units, units_of
from stepline.adapters.aws.metering.item_size import item_bytes, read_units_x2, write_units
from stepline.adapters.aws.table import key
from stepline.errors import DependencyError
from stepline.metering.ledger import Ledger
from tests.support.aws import Faults

from .test_dynamo import make_batch

ITEM = {"pk": {"S": "a"}, "sk": {"S": "b"}, "body": {"B": b"x" * 2000}}


@pytest.fixture
def ledger(aws) -> Ledger:
    aws.ledger.begin(0)
    return aws.ledger


def used(ledger: Ledger) -> dict[str, int]:
    found = ledger.consumption()
    return {
        name: value
        for name in ("read_units_x2", "write_units", "object_puts", "object_gets", "posts")
        if (value := getattr(found, name))
    }


def test_an_object_counts_one_put_and_each_of_its_reads(aws, ledger):
    aws.artifacts.put("att/a", b"1", mime="text/plain")
    aws.artifacts.get("att/a")
    aws.artifacts.size("att/a")
    assert used(ledger) == {"object_puts": 1, "object_gets": 2}


def test_a_put_that_finds_the_object_there_is_billed_too(aws, ledger):
    for _ in range(2):
        aws.artifacts.put("att/twice", b"1", mime="text/plain")
    assert used(ledger) == {"object_puts": 2}


def test_a_delete_is_free(aws, ledger):
    aws.artifacts.client.delete_object(Bucket=aws.name, Key="att/gone")
    assert used(ledger) == {}


def test_a_request_with_a_lost_response_and_its_retry_are_both_billed(aws, ledger, faults: Faults):
    faults.lose_answers(aws.artifacts.client, "PutObject", times=1)
    aws.artifacts.replace("att/lost", b"1", mime="text/plain")
    assert used(ledger) == {"object_puts": 2}


def test_a_table_put_with_a_lost_response_counts_by_its_items_size(aws, ledger, faults: Faults):
    faults.lose_answers(aws.table.client, "PutItem", times=1)
    aws.table.put({**ITEM, "sk": {"S": "lost"}})
    assert used(ledger)["write_units"] >= 2 + 1


def test_a_request_that_reaches_no_server_is_not_billed(monkeypatch):
    ledger = Ledger()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = connect(
        "apigatewaymanagementapi",
        read_timeout_s=1,
        attempts=1,
        endpoint="http://127.0.0.1:9",
        ledger=ledger,
    )
    with pytest.raises(Exception, match="connect"):
        client.post_to_connection(ConnectionId="c", Data=b"x")
    assert used(ledger) == {}


def test_a_throttled_call_is_not_billed(aws, ledger, faults: Faults):
    said = {"__type": "x#ThrottlingException", "message": "…"}
    faults.answer(aws.table.client, "GetItem", 400, said)
    with pytest.raises(DependencyError):
        aws.table.get("a", "b", consistent=True)
    assert used(ledger) == {}


def test_a_put_that_meets_another_is_billed_by_the_larger_item(aws, ledger, lane):
    log = DynamoLog(aws.table)
    log.put(lane, make_batch(1))
    before = ledger.consumption().write_units
    log.put(lane, make_batch(1, by="late"))
    assert ledger.consumption().write_units > before


def test_reported_units_are_used_unchanged():
    reported = {"ConsumedCapacity": {"CapacityUnits": 1.5}}
    assert units_of("Query", {}, reported) == (3, 0)
    assert units_of("UpdateItem", {}, reported) == (0, 2)
    many = {"ConsumedCapacity": [{"CapacityUnits": 6.0, "ReadCapacityUnits": 2.0}, {"CapacityUnits": 2.0}]}
    assert units_of("TransactWriteItems", {}, many) == (4, 6)


def test_without_reported_units_the_sizes_give_them():
    assert units_of("PutItem", {"Item": ITEM}, {}) == (0, 2)
    assert units_of("PutItem", {"Item": {**ITEM, "gsi1pk": {"S": "u"}}}, {}) == (0, 4)
    assert units_of("TransactWriteItems", {"TransactItems": [{"Put": {"Item": ITEM}}]}, {}) == (0, 4)
    assert units_of("GetItem", {"ConsistentRead": True}, {"Item": ITEM}) == (2, 0)
    assert units_of("Query", {}, {"Items": [ITEM] * 3}) == (2, 0)
    batch = {"RequestItems": {"t": {"Keys": [key("a", "b"), key("a", "c")], "ConsistentRead": True}}}
    assert units_of("BatchGetItem", batch, {"Responses": {"t": [ITEM]}}) == (4, 0)
    writes = {
        "RequestItems": {"t": [{"PutRequest": {"Item": ITEM}}, {"DeleteRequest": {"Key": key("a", "b")}}]}
    }
    assert units_of("BatchWriteItem", writes, {}) == (0, 3)
    assert units_of("UpdateItem", {"Key": key("a", "b"), "UpdateExpression": "SET lane_shard = :s"}, {}) == (
        0,
        2,
    )


def test_a_refused_write_is_billed_by_the_larger_of_both_items():
    assert refused_units("PutItem", {"Item": ITEM}, {"Item": {"pk": {"S": "x" * 3000}}}) == 3
    assert refused_units("UpdateItem", {"Key": key("a", "b")}, {}) == 1
    cancelled = {"CancellationReasons": [{"Code": "ConditionalCheckFailed", "Item": ITEM}, {"Code": "None"}]}
    actions = {"TransactItems": [{"Put": {"Item": key("a", "b")}}, {"Put": {"Item": ITEM}}]}
    assert refused_units("TransactWriteItems", actions, cancelled) == 8


def test_the_size_of_an_item_follows_from_its_names_and_values():
    assert item_bytes({"n": {"N": "-120.5"}}) == 1 + 2 + 1 + 1
    assert item_bytes({"f": {"BOOL": True}, "s": {"SS": ["ab", "c"]}}) == 1 + 1 + 1 + 3
    assert item_bytes({"m": {"M": {"k": {"S": "v"}}}, "l": {"L": [{"S": "v"}]}}) == 1 + 3 + 3 + 1 + 3 + 2
    assert (write_units(0), write_units(1024), write_units(1025)) == (1, 1, 2)
    assert read_units_x2(4097, consistent=False) == 2
