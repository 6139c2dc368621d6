"""Accounts: limits that hold from the moment they are set, and counters that change once."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from stepline.errors import DependencyError, InputError, UnknownOutcome
from stepline.model.batch import Batch, State
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import NOTHING, Account, Amount, plan_charge
from stepline.model.tenancy.limits import Limits, Scope, Used, scopes_of
from stepline.model.tenancy.storage_hold import WantedHold, plan_hold, plan_settlement

NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
MORROW = datetime(2026, 11, 27, 0, 5, tzinfo=UTC)
NEXT_MONTH = datetime(2026, 12, 1, 0, 5, tzinfo=UTC)


@pytest.fixture
def lane() -> Lane:
    return Lane(tenant=f"t-{uuid.uuid4().hex}", project="docs", conversation="c-1")


@pytest.fixture
def scopes(lane) -> tuple[Scope, ...]:
    return scopes_of(lane.tenant, lane.project, "jun|1")


def batch(n: int, tokens: int = 0, nanos: int = 0, stored_bytes: int = 0) -> Batch:
    state = State(owner="jun|1", output_tokens=tokens, spent_nanos=nanos, stored_bytes=stored_bytes)
    return Batch(n=n, by="b", at="", entries=(), state=state)


def charge(backend, lane, scopes, of: Batch, *, hold: Amount = NOTHING, limits=(), at=NOON):
    """Charge a batch once; return what the store said, or None if there was nothing to charge."""
    plan = plan_charge(backend.accounts.account(lane), of, scopes, at=at, hold=hold, limits=limits)
    return plan and backend.accounts.post(lane, plan.account, plan.postings)


def test_an_account_without_a_row_has_no_limits_and_has_used_nothing(backend, lane, scopes):
    assert [given.version for given in backend.accounts.limits(scopes)] == [0, 0, 0]
    assert backend.accounts.used(scopes, NOON) == (Used(), Used(), Used())
    assert backend.accounts.account(lane) == Account()


def test_limits_hold_from_the_moment_they_are_set_for_their_account_alone(backend, scopes):
    limits = Limits(tokens_day=100, usd_month=2.5, stopped="maintenance")
    version = backend.accounts.set_limits(
        scopes[1], limits, version=0, by="boss", at="2026-11-26T12:00:00.000Z"
    )
    user, project, tenant = backend.accounts.limits(scopes)
    assert (project.limits, project.version, project.by) == (limits, version, "boss")
    assert (user.version, tenant.version) == (0, 0)


def test_limits_that_were_changed_meanwhile_are_not_overwritten(backend, scopes):
    first = backend.accounts.set_limits(scopes[2], Limits(tokens_day=1), version=0, by="a", at="")
    backend.accounts.set_limits(scopes[2], Limits(tokens_day=2), version=first, by="b", at="")
    for version in (0, first):
        with pytest.raises(InputError) as refused:
            backend.accounts.set_limits(scopes[2], Limits(tokens_day=3), version=version, by="c", at="")
        assert refused.value.reason == "limits_changed"
    assert backend.accounts.limits(scopes)[2].limits == Limits(tokens_day=2)


def test_a_charge_counts_for_the_user_the_project_and_the_tenant(backend, lane, scopes):
    assert charge(backend, lane, scopes, batch(2, 30, 5_000_000_000, 7)) == "posted"
    used = Used(tokens_day=30, tokens_month=30, usd_day=5.0, usd_month=5.0, storage_bytes=7)
    assert backend.accounts.used(scopes, NOON) == (used, used, used)


def test_a_charge_that_is_done_again_changes_nothing(backend, lane, scopes):
    for _ in range(3):
        charge(backend, lane, scopes, batch(2, 30, 9))
    assert backend.accounts.used(scopes, NOON)[0].tokens_month == 30


def test_of_two_charges_from_the_same_row_one_is_refused(backend, lane, scopes):
    account = backend.accounts.account(lane)
    one, two = (plan_charge(account, batch(n, 10 * n), scopes, at=NOON) for n in (2, 3))
    assert backend.accounts.post(lane, one.account, one.postings) == "posted"
    assert backend.accounts.post(lane, two.account, two.postings) == "moved"
    assert backend.accounts.used(scopes, NOON)[0].tokens_month == 20


def test_concurrent_charges_of_one_conversation_charge_it_once(backend, lane, scopes):
    def settle(n: int) -> None:
        while True:
            try:
                if charge(backend, lane, scopes, batch(n, 10 * n)) != "moved":
                    return
            except UnknownOutcome:
                continue

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(settle, [5, 2, 5, 3, 5, 4, 5, 2]))
    assert [used.tokens_month for used in backend.accounts.used(scopes, NOON)] == [50, 50, 50]


def test_a_hold_is_not_used_but_leaves_less_room_and_goes_with_the_next_charge(backend, lane, scopes):
    limits = [Limits(tokens_day=100)] * 3
    assert charge(backend, lane, scopes, batch(2), hold=Amount(tokens=60, nanos=4), limits=limits) == "posted"
    used = backend.accounts.used(scopes, NOON)[0]
    assert (used.tokens_day, used.held_tokens) == (0, 60)
    other = Lane(tenant=lane.tenant, project=lane.project, conversation="c-2")
    assert charge(backend, other, scopes, batch(2), hold=Amount(tokens=41), limits=limits) == "full"
    assert backend.accounts.account(other) == Account()
    assert charge(backend, lane, scopes, batch(3, 15)) == "posted"
    used = backend.accounts.used(scopes, NOON)[0]
    assert (used.tokens_day, used.held_tokens, used.held_usd) == (15, 0, 0.0)
    assert charge(backend, other, scopes, batch(2), hold=Amount(tokens=85), limits=limits) == "posted"


@pytest.mark.parametrize(
    "limits",
    [
        Limits(tokens_day=59),
        Limits(tokens_month=59),
        Limits(usd_day=0.000_000_003),
        Limits(usd_month=0.000_000_003),
    ],
)
@pytest.mark.parametrize("place", range(3))
def test_each_limit_of_each_account_refuses_a_hold_for_all(backend, lane, scopes, limits, place):
    given = [limits if at == place else Limits() for at in range(3)]
    hold = Amount(tokens=60, nanos=4)
    assert charge(backend, lane, scopes, batch(2), hold=hold, limits=given) == "full"
    assert {used.held_tokens for used in backend.accounts.used(scopes, NOON)} == {0}


def test_holds_that_come_at_once_never_exceed_the_limit_together(backend, lane, scopes):
    limits = [Limits(), Limits(), Limits(tokens_day=100)]

    def hold(number: int) -> bool:
        own = Lane(tenant=lane.tenant, project=lane.project, conversation=f"c-{number}")
        while True:
            try:
                return (
                    charge(backend, own, scopes, batch(2), hold=Amount(tokens=10), limits=limits) == "posted"
                )
            except UnknownOutcome:
                continue

    with ThreadPoolExecutor(max_workers=8) as pool:
        held = list(pool.map(hold, range(24)))
    assert sum(held) == 10
    assert backend.accounts.used(scopes, NOON)[2].held_tokens == 100


def test_a_day_ends_and_a_month_and_a_hold_goes_back_to_its_own(backend, lane, scopes):
    charge(backend, lane, scopes, batch(2, 10), hold=Amount(tokens=50))
    charge(backend, lane, scopes, batch(3, 30), hold=Amount(tokens=5), at=MORROW)
    today, morrow = (backend.accounts.used(scopes, at)[0] for at in (NOON, MORROW))
    assert (today.tokens_month, morrow.tokens_day, morrow.held_tokens) == (30, 20, 5)
    charge(backend, lane, scopes, batch(4, 31), at=NEXT_MONTH)
    before, after = (backend.accounts.used(scopes, at)[0] for at in (MORROW, NEXT_MONTH))
    assert (before.tokens_month, before.tokens_day, before.held_tokens) == (30, 20, 0)
    assert (after.tokens_month, after.tokens_day) == (1, 1)


def test_used_storage_follows_the_files_that_a_conversation_keeps(backend, lane, scopes):
    charge(backend, lane, scopes, batch(2, 1, stored_bytes=500))
    charge(backend, lane, scopes, batch(3, 1, stored_bytes=0))
    assert [used.storage_bytes for used in backend.accounts.used(scopes, NEXT_MONTH)] == [0, 0, 0]


def hold(backend, lane, scopes, name, size_bytes, *, limits, until=3_600, at=NOON):
    """Hold storage once; return what the store said."""
    wanted = WantedHold(upload_id=name, size_bytes=size_bytes, until_s=int(at.timestamp()) + until)
    plan = plan_hold(backend.accounts.account(lane), wanted, scopes, limits=limits, at=at)
    return backend.accounts.post(lane, plan.account, plan.postings)


def settle(backend, lane, scopes, name, *, taken, at=NOON):
    plan = plan_settlement(backend.accounts.account(lane), name, scopes, taken=taken, at=at)
    return backend.accounts.post(lane, plan.account, plan.postings)


@pytest.mark.parametrize("place", range(3))
def test_storage_that_is_held_leaves_less_room_until_it_is_settled(backend, lane, scopes, place):
    limits = [Limits(storage_bytes=100) if at == place else Limits() for at in range(3)]
    assert hold(backend, lane, scopes, "up_1", 60, limits=limits) == "posted"
    assert hold(backend, lane, scopes, "up_2", 41, limits=limits) == "full"
    assert hold(backend, lane, scopes, "up_2", 40, limits=limits) == "posted"
    assert {used.held_bytes for used in backend.accounts.used(scopes, NOON)} == {100}
    assert settle(backend, lane, scopes, "up_1", taken=True) == "posted"
    assert settle(backend, lane, scopes, "up_2", taken=False) == "posted"
    assert set(backend.accounts.used(scopes, NOON)) == {Used(storage_bytes=60)}
    assert hold(backend, lane, scopes, "up_3", 40, limits=limits) == "posted"


def test_concurrent_uploads_never_hold_storage_twice(backend, lane, scopes):
    limits = [Limits(), Limits(), Limits(storage_bytes=100)]

    def begin(number: int) -> bool:
        own = Lane(tenant=lane.tenant, project=lane.project, conversation=f"c-{number}")
        while True:
            try:
                return hold(backend, own, scopes, "up_1", 30, limits=limits) == "posted"
            except UnknownOutcome:
                continue

    with ThreadPoolExecutor(max_workers=8) as pool:
        assert sum(pool.map(begin, range(12))) == 3
    assert {used.held_bytes for used in backend.accounts.used(scopes, NOON)} == {90}


def test_an_expired_hold_does_not_count_and_is_released_once(backend, lane, scopes):
    limits = [Limits(storage_bytes=100)] * 3
    hold(backend, lane, scopes, "up_1", 60, limits=limits, until=60)
    hold(backend, lane, scopes, "up_2", 40, limits=limits)
    late = NOON + timedelta(minutes=2)
    assert {used.held_bytes for used in backend.accounts.used(scopes, late)} == {40}
    for _ in range(2):
        backend.accounts.end_holds(scopes[1:], late)
    assert settle(backend, lane, scopes, "up_1", taken=False, at=NOON) == "full"
    assert hold(backend, lane, scopes, "up_3", 1, limits=limits, at=late) == "full"
    backend.accounts.end_holds(scopes, late)
    assert hold(backend, lane, scopes, "up_3", 60, limits=limits, at=late) == "posted"
    assert set(backend.accounts.used(scopes, late)) == {Used(held_bytes=100)}


def test_an_account_that_is_forgotten_has_neither_limits_nor_counters(backend, lane, scopes):
    charge(backend, lane, scopes, batch(2, 10, stored_bytes=3))
    backend.accounts.set_limits(scopes[0], Limits(tokens_day=5), version=0, by="a", at="")
    backend.accounts.forget(scopes[0])
    assert backend.accounts.used(scopes, NOON)[0] == Used()
    assert backend.accounts.limits(scopes)[0].version == 0
    assert backend.accounts.used(scopes, NOON)[1].tokens_month == 10


def test_a_row_of_counters_does_not_name_the_user_and_stays_below_a_kilobyte(aws, lane, scopes):
    for day in range(1, 31):
        at = datetime(2026, 11, day, 12, tzinfo=UTC)
        charge(aws, lane, scopes, batch(day + 1, 900_000_000 * day, 900_000_000_000 * day), at=at)
    rows = list(
        aws.table.query("pk = :pk", {":pk": {"S": f"ACCOUNT#{scopes[0].key()}"}}, ConsistentRead=True)
    )
    assert "jun" not in str(rows)
    size = sum(len(name) + len(next(iter(value.values()))) for row in rows for name, value in row.items())
    assert size < 1_000


def test_a_store_that_does_not_answer_is_a_failed_dependency(aws, lane, scopes, faults):
    answer = {"__type": "x#ThrottlingException", "message": "…"}
    for operation in ("BatchGetItem", "PutItem"):
        faults.answer(aws.table.client, operation, 400, answer)
    with pytest.raises(DependencyError):
        aws.accounts.limits(scopes)
    with pytest.raises(DependencyError):
        aws.accounts.post(lane, Account(n=1, version=1), ())
