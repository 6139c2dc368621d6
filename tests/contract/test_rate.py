import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.table import rate_pk
from stepline.adapters.aws.tenancy.accounts import KEPT_MINUTES, DynamoRate
from stepline.errors import DependencyError
from stepline.model.tenancy.limits import Scope, scopes_of
from stepline.ports.tenancy.accounts import STEP

MINUTE = 30_000_000


@pytest.fixture
def scope() -> Scope:
    return Scope(tenant="acme", project="docs", user=f"ada|{uuid.uuid4().hex}")


def test_messages_of_a_minute_are_counted_one_by_one(backend, scope):
    assert [backend.rate.count(scope, MINUTE) for _ in range(3)] == [1, 2, 3]


def test_every_minute_begins_anew(backend, scope):
    backend.rate.count(scope, MINUTE)
    assert backend.rate.count(scope, MINUTE + 1) == 1
    assert backend.rate.count(scope, MINUTE) == 2


@pytest.mark.parametrize("field", ["tenant", "project", "user"])
def test_each_tenant_project_and_user_has_a_separate_count(backend, scope, field):
    backend.rate.count(scope, MINUTE)
    other = replace(scope, **{field: f"{getattr(scope, field)}0"})
    assert backend.rate.count(other, MINUTE) == 1


def test_a_user_a_project_and_a_tenant_each_have_a_count(backend):
    scopes = scopes_of(f"t-{uuid.uuid4().hex}", "docs", "ada")
    assert [backend.rate.count(scope, MINUTE) for scope in scopes] == [1, 1, 1]
    assert [backend.rate.count(scope, MINUTE) for scope in scopes] == [2, 2, 2]


def test_messages_that_come_at_once_are_each_counted(backend, scope):
    with ThreadPoolExecutor(max_workers=8) as pool:
        counts = list(pool.map(lambda _: backend.rate.count(scope, MINUTE), range(24)))
    assert sorted(counts) == list(range(1, 25))


def test_a_row_outlives_its_minute_by_little_and_does_not_name_the_user(aws, scope):
    for _ in range(2):
        aws.rate.count(scope, MINUTE)
    pk = rate_pk(scope.tenant, scope.project, scope.user)
    row = aws.table.get(pk, str(MINUTE), consistent=True)
    assert row["expires_at"] == {"N": str((MINUTE + 1 + KEPT_MINUTES) * 60)}
    assert scope.user not in str(row)


def test_requests_are_counted_apart_from_messages_by_their_kind_and_minute(backend, scope):
    backend.rate.count(scope, MINUTE)
    assert [backend.rate.tally(scope, MINUTE, "reads") for _ in range(45)] == list(range(1, 46))
    assert backend.rate.tally(scope, MINUTE, "searches") == 1
    assert backend.rate.tally(scope, MINUTE + 1, "reads") == 1
    assert backend.rate.count(scope, MINUTE) == 2


def test_a_process_writes_once_per_step_and_misses_at_most_a_step_of_others(aws, scope):
    here, there = DynamoRate(aws.table), DynamoRate(aws.table)
    for _ in range(STEP - 1):
        here.tally(scope, MINUTE, "reads")
    pk = rate_pk(scope.tenant, scope.project, scope.user)
    assert aws.table.get(pk, f"{MINUTE}#reads", consistent=True) is None
    for _ in range(STEP):
        there.tally(scope, MINUTE, "reads")
    assert here.tally(scope, MINUTE, "reads") == 2 * STEP
    assert there.tally(scope, MINUTE, "reads") == STEP + 1


def test_requests_that_come_at_once_are_each_counted(backend, scope):
    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(lambda _: backend.rate.tally(scope, MINUTE, "reads"), range(3 * STEP)))
    assert backend.rate.tally(scope, MINUTE, "reads") == 3 * STEP + 1


def test_a_store_that_does_not_answer_is_a_failed_dependency(aws, scope, faults):
    faults.answer(aws.table.client, "UpdateItem", 400, {"__type": "x#ThrottlingException", "message": "…"})
    with pytest.raises(DependencyError):
        aws.rate.count(scope, MINUTE)
