"""An account of many users: its conversations' charges go to shards, and limits see the sums of all rows."""

import uuid
from collections import Counter

import pytest

from stepline.adapters.aws.table import ACCOUNT_SHARDS, account_pk, account_pks, account_shard
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Amount, plan_upload
from stepline.model.tenancy.limits import Limits, Used, scopes_of
from stepline.model.tenancy.storage_hold import WantedHold, plan_hold

from .test_account import NOON, batch, charge

TURNS = 12


@pytest.fixture
def lanes():
    """Conversations of one tenant."""
    tenant = f"t-{uuid.uuid4().hex}"
    return [Lane(tenant=tenant, project="docs", conversation=f"c-{number}") for number in range(TURNS)]


@pytest.fixture
def scopes(lanes):
    return scopes_of(lanes[0].tenant, "docs", "jun|1")


def spend(backend, lanes, scopes, **fields):
    for lane in lanes:
        assert charge(backend, lane, scopes, batch(2, **fields)) == "posted"


def rows(aws, scope):
    """Return the counters of an account by the key of their row."""
    found = (
        aws.table.query("pk = :pk", {":pk": {"S": pk}}, ConsistentRead=True) for pk in account_pks(scope)
    )
    return [(row["pk"]["S"], row["sk"]["S"]) for page in found for row in page]


def test_the_spending_of_many_conversations_is_their_sum(backend, lanes, scopes):
    spend(backend, lanes, scopes, tokens=10, nanos=1_000_000_000, stored_bytes=3)
    used = Used(
        tokens_day=10 * TURNS,
        tokens_month=10 * TURNS,
        usd_day=float(TURNS),
        usd_month=float(TURNS),
        storage_bytes=3 * TURNS,
    )
    assert backend.accounts.used(scopes, NOON) == (used, used, used)


@pytest.mark.parametrize(
    ("window", "place"), [("tokens_day", 2), ("tokens_month", 1), ("usd_day", 1), ("usd_month", 2)]
)
def test_a_limit_leaves_what_was_not_spent_before_it_was_set_exactly(backend, lanes, scopes, window, place):
    first, *others = lanes
    spend(backend, others, scopes, tokens=10, nanos=10)
    room = 10 * len(others) + 5
    limits = Limits(**{window: room if "tokens" in window else room / 1_000_000_000})
    given = [limits if at == place else Limits() for at in range(3)]
    for wanted, said in ((6, "full"), (5, "posted")):
        hold = Amount(tokens=wanted, nanos=wanted)
        assert charge(backend, first, scopes, batch(2), hold=hold, limits=given) == said


def test_a_limit_below_what_was_spent_leaves_nothing(backend, lanes, scopes):
    first, *others = lanes
    spend(backend, others, scopes, tokens=10)
    given = [Limits(), Limits(), Limits(tokens_month=100)]
    assert charge(backend, first, scopes, batch(2), hold=Amount(tokens=1), limits=given) == "full"


def test_the_room_of_holds_that_are_released_is_free_again(backend, lanes, scopes):
    limits = [Limits(), Limits(), Limits(tokens_day=100)]
    for _ in range(2):
        for lane in lanes[:4]:
            n = backend.accounts.account(lane).n + 1
            held = charge(backend, lane, scopes, batch(n), hold=Amount(tokens=100), limits=limits)
            assert held == "posted"
            assert charge(backend, lane, scopes, batch(n)) == "posted"
    assert backend.accounts.used(scopes, NOON)[2] == Used()


def test_a_hold_of_an_upload_keeps_within_the_files_of_all_conversations(backend, lanes, scopes):
    first, *others = lanes
    spend(backend, others[:5], scopes, stored_bytes=10)
    for lane in others[5:]:
        plan = plan_upload(backend.accounts.account(lane), scopes, 10)
        assert backend.accounts.post(lane, plan.account, plan.postings) == "posted"
    limits = [Limits(), Limits(storage_bytes=10 * len(others) + 5), Limits()]
    for size_bytes, said in ((6, "full"), (5, "posted")):
        wanted = WantedHold(upload_id="up_1", size_bytes=size_bytes, until_s=int(NOON.timestamp()) + 60)
        plan = plan_hold(backend.accounts.account(first), wanted, scopes, limits, at=NOON)
        assert backend.accounts.post(first, plan.account, plan.postings) == said


@pytest.mark.parametrize("place", [1, 2])
def test_an_account_of_many_conversations_is_forgotten_whole(backend, lanes, scopes, place):
    spend(backend, lanes, scopes, tokens=10, stored_bytes=3)
    backend.accounts.forget(scopes[place])
    used = [one.tokens_month for one in backend.accounts.used(scopes, NOON)]
    assert used == [0 if at == place else 10 * TURNS for at in range(3)]


# --- the rows of the table


def test_ended_turns_write_no_row_that_all_conversations_of_a_tenant_share(aws, lanes, scopes):
    spend(aws, lanes, scopes, tokens=10, stored_bytes=3)
    user, project, tenant = scopes
    for scope in (project, tenant):
        written = {pk for pk, _ in rows(aws, scope)}
        assert account_pk(scope) not in written
        assert written == {account_pk(scope, account_shard(scope, lane)) for lane in lanes}
        assert len(written) > ACCOUNT_SHARDS / 2
    assert rows(aws, user) == [(account_pk(user), "2026-11"), (account_pk(user), "STORED")]


def test_a_turn_that_is_charged_again_finds_its_own_shard(aws, lanes, scopes):
    for n in (2, 3, 3, 4):
        charge(aws, lanes[0], scopes, batch(n, 10 * n))
    tenant = scopes[2]
    assert rows(aws, tenant) == [(account_pk(tenant, account_shard(tenant, lanes[0])), "2026-11")]
    assert aws.accounts.used(scopes, NOON)[2].tokens_month == 40


def test_conversations_are_divided_evenly(scopes):
    lanes = (
        Lane(tenant="acme", project="docs", conversation=f"conv_{number:026}") for number in range(8_000)
    )
    counts = Counter(account_shard(scopes[2], lane) for lane in lanes)
    assert set(counts) == set(range(ACCOUNT_SHARDS))
    assert max(counts.values()) < 1.15 * 8_000 / ACCOUNT_SHARDS


def test_a_project_with_the_name_of_a_shard_has_rows_of_its_own():
    accounts = [scopes_of(*names, "jun|1") for names in (("acme", "0"), ("acme", "docs"), ("0", "acme"))]
    keys = [pk for scope in {scope for scopes in accounts for scope in scopes} for pk in account_pks(scope)]
    assert len(keys) == len(set(keys))


def test_rows_of_shards_are_summed_and_keep_their_limit(aws, lanes, scopes):
    _, project, tenant = scopes
    for scope in (project, tenant):
        for shard in range(ACCOUNT_SHARDS):
            counted = {name: {"N": "10"} for name in ("t", "t26")}
            aws.table.put({"pk": {"S": account_pk(scope, shard)}, "sk": {"S": "2026-11"}, **counted})
    assert [used.tokens_day for used in aws.accounts.used(scopes, NOON)] == [0, 80, 80]
    limits = [Limits(), Limits(tokens_day=100), Limits()]
    for wanted, said in ((21, "full"), (20, "posted")):
        assert charge(aws, lanes[0], scopes, batch(2), hold=Amount(tokens=wanted), limits=limits) == said
    aws.accounts.forget(tenant)
    assert aws.accounts.used(scopes, NOON)[2] == Used()
    assert rows(aws, tenant) == []


def test_the_row_of_an_earlier_release_is_summed_and_keeps_its_limit(aws, lanes, scopes):
    """It had one row for all charges of an account."""
    for scope in scopes:
        for sk, counted in (("2026-11", {"t": 70, "t26": 70, "n": 7, "n26": 7}), ("STORED", {"bytes": 9})):
            numbers = {name: {"N": str(number)} for name, number in counted.items()}
            aws.table.put({"pk": {"S": f"ACCOUNT#{scope.key()}"}, "sk": {"S": sk}, **numbers})
    spend(aws, lanes[1:3], scopes, tokens=10, stored_bytes=1)
    for used in aws.accounts.used(scopes, NOON):
        assert (used.tokens_day, used.tokens_month, used.storage_bytes) == (90, 90, 11)
    limits = [Limits(), Limits(), Limits(tokens_month=100)]
    for wanted, said in ((11, "full"), (10, "posted")):
        assert charge(aws, lanes[0], scopes, batch(2), hold=Amount(tokens=wanted), limits=limits) == said


def test_a_hold_in_the_first_row_is_released_by_a_charge_of_a_shard(aws, lanes, scopes):
    limits = [Limits(), Limits(), Limits(tokens_day=100)]
    assert charge(aws, lanes[0], scopes, batch(2), hold=Amount(tokens=50), limits=limits) == "posted"
    assert rows(aws, scopes[2]) == [(account_pk(scopes[2]), "2026-11")]
    assert charge(aws, lanes[0], scopes, batch(3, 20)) == "posted"
    assert aws.accounts.used(scopes, NOON) == (Used(tokens_day=20, tokens_month=20),) * 3
