"""What only a remote store can do to the log: lose an answer, contend, throttle, count."""

import base64
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import botocore.session
import pytest
from botocore.exceptions import ClientError, NoCredentialsError, ReadTimeoutError
from msgspec.structs import replace

from stepline.adapters.aws import error as codes
from stepline.adapters.aws.error import OURS, map_error, map_fenced_error
from stepline.adapters.aws.table import OPEN_SHARDS, conversation_pk, key, open_shard
from stepline.errors import DependencyError, SteplineError, UnknownOutcome
from stepline.model.batch import Batch, State
from stepline.ports.log import Duplicate, Listing, Occupied, Written

AT = "2026-11-21T10:15:00.000Z"
CONFLICT = {"Code": "TransactionConflict", "Message": "…"}
THROTTLE = {"Code": "ThrottlingError", "Message": "…"}
NONE = {"Code": "None"}
ALL_TRIES = 3

USED = {
    "dynamodb": [
        "PutItem",
        "TransactWriteItems",
        "GetItem",
        "Query",
        "UpdateItem",
        "DeleteItem",
        "BatchWriteItem",
    ],
    "s3": ["PutObject", "GetObject", "ListObjectsV2", "ListObjectVersions", "DeleteObjects"],
    "ecs": ["ListTasks", "StopTask", "DescribeTasks"],
    "secretsmanager": ["CreateSecret", "DeleteSecret", "GetSecretValue"],
    "stepfunctions": [
        "StartExecution",
        "DescribeExecution",
        "ListExecutions",
        "StopExecution",
        "SendTaskFailure",
        "SendTaskHeartbeat",
        "SendTaskSuccess",
    ],
    "apigatewaymanagementapi": ["PostToConnection"],
    "s3vectors": ["CreateIndex", "DeleteVectors", "ListVectors", "PutVectors", "QueryVectors"],
    "bedrock-runtime": ["InvokeModel"],
}


def make_batch(n: int, by: str = "me") -> Batch:
    return Batch(n=n, by=by, at=AT, entries=(), state=State())


def cancelled(*reasons: dict[str, object]) -> dict[str, object]:
    kind = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException"
    return {"__type": kind, "message": "cancelled", "CancellationReasons": list(reasons)}


def refused(code: str) -> dict[str, object]:
    return {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "…"}


def test_a_retried_put_with_a_lost_response_finds_its_own_batch(aws, lane, faults):
    faults.lose_answers(aws.table.client, "PutItem", times=1)
    assert aws.log.put(lane, make_batch(2)) == Occupied(batch=make_batch(2))


def test_a_retried_admission_with_a_lost_response_is_no_duplicate(aws, lane, faults):
    faults.lose_answers(aws.table.client, "TransactWriteItems", times=1)
    answer = aws.log.put(lane, make_batch(1), message_id="m", marks_open=True)
    # A service that keeps the call's token applies it once and says so; moto does not.
    assert answer in (Written(), Occupied(batch=make_batch(1)))
    assert aws.log.admitted(lane, "m") == 1


@pytest.mark.parametrize(("message_id", "operation"), [("", "PutItem"), ("m", "TransactWriteItems")])
def test_a_put_that_never_gets_an_answer_has_an_unknown_outcome(aws, lane, faults, message_id, operation):
    faults.lose_answers(aws.table.client, operation, times=ALL_TRIES)
    with pytest.raises(UnknownOutcome) as caught:
        aws.log.put(lane, make_batch(2), message_id=message_id)
    assert caught.value.reason == "unknown_outcome"
    assert aws.log.get(lane, 2) == make_batch(2)


def test_a_lost_response_to_a_put_still_names_the_other_writer(aws, lane, faults):
    aws.log.put(lane, make_batch(2, by="them"), message_id="theirs")
    faults.lose_answers(aws.table.client, "PutItem", times=2)
    assert aws.log.put(lane, make_batch(2)) == Occupied(batch=make_batch(2, by="them"))


@pytest.mark.parametrize("reasons", [(CONFLICT, NONE), (NONE, CONFLICT), (CONFLICT, THROTTLE)])
def test_a_transaction_conflict_is_an_unknown_outcome(aws, lane, faults, reasons):
    faults.answer(aws.table.client, "TransactWriteItems", 400, cancelled(*reasons))
    with pytest.raises(UnknownOutcome):
        aws.log.put(lane, make_batch(1), message_id="m")


def test_a_plain_put_that_meets_a_running_transaction_is_an_unknown_outcome(aws, lane, faults):
    faults.answer(aws.table.client, "PutItem", 400, refused("TransactionConflictException"))
    with pytest.raises(UnknownOutcome):
        aws.log.put(lane, make_batch(2))


def test_a_failed_condition_beside_a_conflict_is_still_a_fact(aws, lane, faults):
    aws.log.put(lane, make_batch(1, by="them"))
    aws.log.put(lane, make_batch(2), message_id="m")
    batch, message = (
        aws.table.get(pk, sk, consistent=True)
        for pk, sk in ((f"LOG#{lane.key()}", "000000000001"), (f"CONV#{lane.key()}", "MSG#m"))
    )
    failed = {"Code": "ConditionalCheckFailed", "Message": "…"}
    client = aws.table.client
    faults.answer(client, "TransactWriteItems", 400, cancelled(CONFLICT, {**failed, "Item": message}))
    assert aws.log.put(lane, make_batch(1), message_id="m") == Duplicate(n=2)
    faults.close()
    item = {**batch, "body": {"B": base64.b64encode(batch["body"]["B"]).decode()}}
    faults.answer(client, "TransactWriteItems", 400, cancelled({**failed, "Item": item}, CONFLICT))
    answer = aws.log.put(lane, make_batch(1), message_id="m")
    assert isinstance(answer, Occupied)
    assert answer.batch.by == "them"


@pytest.mark.parametrize(
    "body", [cancelled(NONE, THROTTLE), cancelled(THROTTLE, NONE), refused("ThrottlingException")]
)
def test_an_admission_that_was_throttled_at_once_has_written_nothing(aws, lane, faults, body):
    faults.answer(aws.table.client, "TransactWriteItems", 400, body)
    with pytest.raises(DependencyError):
        aws.log.put(lane, make_batch(1), message_id="m")


def client_error(code: str, *, status: int = 400, retries: int = 0) -> ClientError:
    metadata = {"HTTPStatusCode": status, "RetryAttempts": retries}
    return ClientError({"Error": {"Code": code}, "ResponseMetadata": metadata}, "PutItem")


def test_a_throttle_after_a_repeat_proves_nothing():
    error = client_error("ProvisionedThroughputExceededException", retries=1)
    assert isinstance(map_fenced_error(error), UnknownOutcome)
    assert isinstance(map_error(error), DependencyError)


def test_a_server_error_leaves_a_fenced_put_unknown_and_a_read_to_be_tried_again():
    for error in (client_error("InternalServerError", status=500), client_error("Whatever", status=503)):
        assert isinstance(map_fenced_error(error), UnknownOutcome)
        assert isinstance(map_error(error), DependencyError)


def test_our_own_mistakes_are_never_retried():
    for error in (client_error("ValidationException"), client_error("Unheard"), NoCredentialsError()):
        for ours in (map_error(error), map_fenced_error(error)):
            assert type(ours) is SteplineError
            assert not ours.retryable


def test_no_answer_to_a_read_is_a_failed_dependency(aws, lane, faults):
    faults.lose_answers(aws.table.client, "Query", times=ALL_TRIES)
    faults.lose_answers(aws.table.client, "GetItem", times=ALL_TRIES)
    with pytest.raises(DependencyError) as caught:
        aws.log.tail(lane)
    assert caught.value.context == {"aws_code": ReadTimeoutError.__name__}
    with pytest.raises(DependencyError):
        aws.log.get(lane, 1)


def test_a_listing_and_a_cleared_mark_survive_a_lost_answer(aws, lane, faults):
    listing = Listing(lane=lane, owner=lane.conversation, title="t", last_at=AT, applied_n=1)
    aws.log.put(lane, make_batch(1), marks_open=True)
    faults.lose_answers(aws.table.client, "UpdateItem", times=1)
    aws.log.project(listing)
    found = aws.log.conversations(lane.tenant, lane.project, lane.conversation)
    assert found == [replace(listing, open=True)]
    faults.lose_answers(aws.table.client, "UpdateItem", times=1)
    aws.log.clear_open(lane, 1)
    assert [mark for mark in aws.log.open_lanes(before="9999") if mark.lane == lane] == []


def test_the_marks_of_open_lanes_spread_over_all_shards(aws, lane):
    lanes = [replace(lane, conversation=f"{lane.conversation}-{at}") for at in range(320)]
    counts = Counter(open_shard(one) for one in lanes)
    assert set(counts) == set(OPEN_SHARDS)
    assert max(counts.values()) <= 2 * len(lanes) // len(OPEN_SHARDS)
    opened = {open_shard(one): one for one in lanes}
    for one in opened.values():
        aws.log.put(one, make_batch(1), marks_open=True)
        assert marked_in(aws, one) == open_shard(one)
    found = {mark.lane for mark in aws.log.open_lanes(before=AT)}
    assert set(opened.values()) <= found


def test_a_mark_of_the_single_shard_is_found_and_moves_with_its_next_turn(aws, lane):
    old = next(
        one
        for one in (replace(lane, conversation=f"{lane.conversation}-{at}") for at in range(99))
        if open_shard(one) != "0"
    )
    aws.log.put(old, make_batch(1), marks_open=True)
    set_shard = {"UpdateExpression": "SET lane_shard = :s", "ExpressionAttributeValues": {":s": {"S": "0"}}}
    aws.table.call(
        "update_item", TableName=aws.table.name, Key=key(conversation_pk(old), "HEAD"), **set_shard
    )
    assert [mark.n for mark in aws.log.open_lanes(before=AT) if mark.lane == old] == [1]
    aws.log.put(old, make_batch(2), marks_open=True)
    assert marked_in(aws, old) == open_shard(old)
    assert [mark.n for mark in aws.log.open_lanes(before=AT) if mark.lane == old] == [2]


def marked_in(aws, lane):
    item = aws.table.get(conversation_pk(lane), "HEAD", consistent=True)
    return item["lane_shard"]["S"]


def test_an_update_that_is_refused_for_another_reason_is_not_swallowed(aws, lane, faults):
    faults.answer(aws.table.client, "UpdateItem", 400, refused("TransactionConflictException"))
    with pytest.raises(DependencyError):
        aws.log.clear_open(lane, 1)
    with pytest.raises(DependencyError):
        aws.log.project(Listing(lane=lane, owner="ada", title="", last_at=AT, applied_n=1))


def test_a_message_row_expires_fourteen_days_after_its_batch(aws, lane):
    aws.log.put(lane, make_batch(1), message_id="m")
    row = aws.table.get(f"CONV#{lane.key()}", "MSG#m", consistent=True)
    assert row["expires_at"] == {"N": "1796465700"}  # 2026-12-05T10:15:00Z


def test_one_client_serves_many_threads(aws, lane):
    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda n: aws.log.put(lane, make_batch(n)), range(1, 25)))
    assert answers == [Written()] * 24
    assert [batch.n for batch in aws.log.since(lane, 0)] == list(range(1, 25))


@pytest.mark.parametrize(
    ("service", "operation"),
    [(service, operation) for service, operations in USED.items() for operation in operations],
)
def test_every_modelled_exception_of_a_used_operation_is_classified(service, operation):
    model = botocore.session.get_session().get_service_model(service).operation_model(operation)
    modelled = {shape.metadata.get("error", {}).get("code", shape.name) for shape in model.error_shapes}
    answers = {
        *(
            codes.CONDITION_FAILED,
            codes.TRANSACTION_CANCELLED,
            codes.EXECUTION_EXISTS,
            codes.EXECUTION_ABSENT,
        ),
        *(codes.INDEX_ABSENT, codes.INDEX_EXISTS, codes.OBJECT_ABSENT, codes.OBJECT_EXISTS),
        *(codes.SECRET_EXISTS, *codes.NOBODY_WAITS),
    }
    assert modelled - OURS.keys() - answers == set()
