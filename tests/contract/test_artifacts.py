from concurrent.futures import ThreadPoolExecutor

import pytest

from stepline.errors import DependencyError, NotFoundError
from stepline.ports.artifacts import Artifacts


@pytest.fixture
def artifacts(backend) -> Artifacts:
    return backend.artifacts


@pytest.fixture
def key(lane) -> str:
    return f"out/{lane.prefix()}/turn_1/abc"


@pytest.mark.parametrize("body", [b"", b"plain", bytes(range(256)), b"x" * 300_000])
def test_a_body_reads_back_byte_for_byte(artifacts, key, body):
    assert artifacts.put(key, body, mime="text/markdown")
    assert artifacts.get(key) == body


def test_a_body_is_written_once_and_never_changes(artifacts, key):
    assert artifacts.put(key, b"first", mime="text/plain")
    assert not artifacts.put(key, b"second", mime="text/plain")
    assert artifacts.get(key) == b"first"


def test_a_log_is_written_over(artifacts, key):
    artifacts.replace(key, b"first, and longer", mime="application/json")
    artifacts.replace(key, b"second", mime="application/json")
    assert artifacts.get(key) == b"second"


def test_an_absent_key_is_not_found(artifacts, key):
    with pytest.raises(NotFoundError) as caught:
        artifacts.get(key)
    assert caught.value.reason == "not_found"


def test_of_many_writers_of_one_key_exactly_one_writes(artifacts, key):
    with ThreadPoolExecutor(max_workers=8) as pool:
        wrote = list(pool.map(lambda n: artifacts.put(key, b"%d" % n, mime="text/plain"), range(16)))
    assert wrote.count(True) == 1
    assert artifacts.get(key) == b"%d" % wrote.index(True)


def test_the_object_carries_its_mime_type(aws, key):
    aws.artifacts.put(key, b"{}", mime="application/json")
    assert aws.artifacts.client.head_object(Bucket=aws.name, Key=key)["ContentType"] == "application/json"


def test_a_put_with_a_lost_response_is_stored_and_reports_another_writer(aws, key, faults):
    faults.lose_answers(aws.artifacts.client, "PutObject", times=1)
    assert not aws.artifacts.put(key, b"once", mime="text/plain")
    assert aws.artifacts.get(key) == b"once"


def test_a_store_that_does_not_answer_is_a_failed_dependency(aws, key, faults):
    aws.artifacts.put(key, b"once", mime="text/plain")
    faults.lose_answers(aws.artifacts.client, "GetObject", times=3)
    with pytest.raises(DependencyError):
        aws.artifacts.get(key)
    faults.lose_answers(aws.artifacts.client, "PutObject", times=3)
    with pytest.raises(DependencyError):
        aws.artifacts.put(key, b"twice", mime="text/plain")


@pytest.mark.parametrize("body", [b"", b"plain", b"x" * 300_000])
def test_a_body_is_as_long_as_it_is(artifacts, key, body):
    artifacts.put(key, body, mime="text/plain")
    assert artifacts.size(key) == len(body)


def test_a_missing_object_has_no_size(artifacts, key):
    assert artifacts.size(key) is None


def test_a_missing_object_without_list_rights_is_denied_and_no_failure(aws, key, faults):
    faults.answer(aws.artifacts.client, "HeadObject", 403, {})
    assert aws.artifacts.size(key) is None


def test_a_store_that_does_not_say_a_size_is_a_failed_dependency(aws, key, faults):
    aws.artifacts.put(key, b"once", mime="text/plain")
    faults.lose_answers(aws.artifacts.client, "HeadObject", times=3)
    with pytest.raises(DependencyError):
        aws.artifacts.size(key)


def test_the_heads_of_many_objects_come_in_order_and_cut(artifacts, lane):
    keys = [f"out/{lane.prefix()}/turn_1/{n:03}" for n in range(30)]
    for n, key in enumerate(keys):
        artifacts.put(key, b"%03d" % n + b"x" * (n % 4), mime="text/plain")
    artifacts.put(f"{keys[0]}0", b"", mime="text/plain")
    asked = [keys[7], *keys, f"{keys[0]}0", keys[7]]
    found = list(artifacts.heads(asked, max_bytes=4))
    assert found == [artifacts.get(key)[:4] for key in asked]
    assert list(artifacts.heads([], max_bytes=4)) == []


def test_an_iteration_of_heads_may_be_abandoned(artifacts, lane):
    keys = [f"out/{lane.prefix()}/turn_1/{n:03}" for n in range(30)]
    for key in keys:
        artifacts.put(key, b"x", mime="text/plain")
    heads = artifacts.heads(keys, max_bytes=1)
    assert next(heads) == b"x"
    heads.close()


def test_an_absent_head_is_not_found(artifacts, key):
    artifacts.put(key, b"x", mime="text/plain")
    with pytest.raises(NotFoundError):
        list(artifacts.heads([key, f"{key}0"], max_bytes=1))
