import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.rate import KEPT_MINUTES
from stepline.adapters.aws.table import rate_pk
from stepline.errors import DependencyError
from stepline.ports.channel import Principal

MINUTE = 30_000_000


@pytest.fixture
def principal() -> Principal:
    return Principal(tenant="acme", project="docs", user=f"ada|{uuid.uuid4().hex}", expires_at=4_000_000_000)


def test_messages_of_a_minute_are_counted_one_by_one(backend, principal):
    assert [backend.rate.count(principal, MINUTE) for _ in range(3)] == [1, 2, 3]


def test_every_minute_begins_anew(backend, principal):
    backend.rate.count(principal, MINUTE)
    assert backend.rate.count(principal, MINUTE + 1) == 1
    assert backend.rate.count(principal, MINUTE) == 2


@pytest.mark.parametrize("field", ["tenant", "project", "user"])
def test_whoever_differs_in_tenant_project_or_user_has_a_count_of_their_own(backend, principal, field):
    backend.rate.count(principal, MINUTE)
    other = replace(principal, **{field: f"{getattr(principal, field)}0"})
    assert backend.rate.count(other, MINUTE) == 1


def test_a_renewed_token_goes_on_with_the_same_count(backend, principal):
    backend.rate.count(principal, MINUTE)
    assert backend.rate.count(replace(principal, expires_at=principal.expires_at + 1), MINUTE) == 2


def test_messages_that_come_at_once_are_each_counted(backend, principal):
    with ThreadPoolExecutor(max_workers=8) as pool:
        counts = list(pool.map(lambda _: backend.rate.count(principal, MINUTE), range(24)))
    assert sorted(counts) == list(range(1, 25))


def test_a_row_outlives_its_minute_by_little_and_does_not_name_the_user(aws, principal):
    for _ in range(2):
        aws.rate.count(principal, MINUTE)
    pk = rate_pk(principal.tenant, principal.project, principal.user)
    row = aws.table.get(pk, str(MINUTE), consistent=True)
    assert row["expires_at"] == {"N": str((MINUTE + 1 + KEPT_MINUTES) * 60)}
    assert principal.user not in str(row)


def test_a_store_that_does_not_answer_is_a_failed_dependency(aws, principal, faults):
    faults.answer(aws.table.client, "UpdateItem", 400, {"__type": "x#ThrottlingException", "message": "…"})
    with pytest.raises(DependencyError):
        aws.rate.count(principal, MINUTE)
