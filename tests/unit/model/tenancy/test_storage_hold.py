"""Holds of storage, with clients, verdicts, deletions and expiry in any order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.tenancy.accounts import MemoryAccounts
from stepline.model.batch import Batch, State
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import ChargePlan, plan_charge
from stepline.model.tenancy.limits import Limits, scopes_of
from stepline.model.tenancy.storage_hold import (
    STEP_S,
    WantedHold,
    plan_hold,
    plan_settlement,
    without_holds,
)

BEGAN = datetime(2026, 11, 26, 12, tzinfo=UTC)
LIMIT = 100
SLOT_S, CHECK_S = 660, 900
SCOPES = scopes_of("t", "p", "u")
LANES = tuple(Lane(tenant="t", project="p", conversation=f"c-{n}") for n in range(2))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(("start", "check", "take", "refuse", "refuse_first", "delete", "clean")),
        st.integers(0, 5),
        st.integers(1, 60),
        st.sampled_from((0, 0, 1, 30, SLOT_S, CHECK_S, 2 * CHECK_S)),
    ),
    max_size=40,
)


class Store:
    """Accounts of one user with a limit, next to a simple count of the same uploads."""

    def __init__(self, limit_at: int) -> None:
        self.accounts, self.now = MemoryAccounts(), BEGAN
        self.limits = [Limits(storage_bytes=LIMIT) if at == limit_at else Limits() for at in range(3)]
        self.sizes: dict[int, int] = {}
        self.checked_until: dict[int, datetime] = {}
        self.taken: dict[int, int] = {}
        self.over: set[int] = set()
        self.batches = [0, 0]

    def lane(self, upload: int) -> Lane:
        return LANES[upload % 2]

    def post(self, lane: Lane, plan: ChargePlan | None) -> str:
        return "done" if plan is None else self.accounts.post(lane, plan.account, plan.postings)

    def hold(self, upload: int, until_s: int) -> str:
        self.accounts.end_holds(SCOPES, self.now)
        lane = self.lane(upload)
        wanted = WantedHold(
            upload_id=str(upload),
            size_bytes=self.sizes[upload],
            until_s=int(self.now.timestamp()) + until_s,
        )
        account = self.accounts.account(lane)
        return self.post(lane, plan_hold(account, wanted, SCOPES, self.limits, at=self.now))

    def settle(self, upload: int, *, taken: bool) -> None:
        lane = self.lane(upload)
        account = self.accounts.account(lane)
        held = account.holds.get(str(upload))
        if self.post(lane, plan_settlement(account, str(upload), SCOPES, taken=taken, at=self.now)) == "full":
            plan = plan_settlement(without_holds(account), str(upload), SCOPES, taken=taken, at=self.now)
            self.post(lane, plan)
        if taken and held is not None and held.size_bytes:
            self.taken[upload] = held.size_bytes

    def start(self, upload: int, size_bytes: int) -> None:
        if upload not in self.sizes:
            self.sizes[upload] = size_bytes
            if self.hold(upload, SLOT_S) == "full":
                del self.sizes[upload]

    def check(self, upload: int, _: int) -> None:
        if upload in self.sizes and self.hold(upload, CHECK_S) != "full":
            self.checked_until[upload] = self.now + timedelta(seconds=CHECK_S)

    def take(self, upload: int, _: int) -> None:
        if self.checked_until.get(upload, BEGAN) > self.now:
            self.settle(upload, taken=True)

    def refuse(self, upload: int, _: int) -> None:
        self.settle(upload, taken=False)

    def refuse_first(self, upload: int, _: int) -> None:
        """Give a verdict after another one, based on the row before it."""
        account = self.accounts.account(self.lane(upload))
        self.settle(upload, taken=False)
        plan = plan_settlement(account, str(upload), SCOPES, taken=True, at=self.now)
        assert plan is None or self.post(self.lane(upload), plan) == "moved"

    def delete(self, upload: int, _: int) -> None:
        self.batches[upload % 2] += 1
        batch = Batch(n=self.batches[upload % 2], by="b", at="", entries=(), state=GONE)
        lane = self.lane(upload)
        self.post(lane, plan_charge(self.accounts.account(lane), batch, SCOPES, at=self.now))
        self.taken = {one: size for one, size in self.taken.items() if one % 2 != upload % 2}

    def clean(self, upload: int, _: int) -> None:
        self.accounts.end_holds(SCOPES[: upload % 4], self.now)


GONE = State(owner="u", deleted=True)


@given(STEPS, st.integers(0, 2))
def test_uploads_in_any_order_stay_within_the_limit_and_leave_no_hold(steps, limit_at):
    store = Store(limit_at)
    for act, upload, size_bytes, seconds in steps:
        store.now += timedelta(seconds=seconds)
        getattr(store, act)(upload, size_bytes)
        used = store.accounts.used(SCOPES, store.now)
        assert used[0] == used[1] == used[2]
        assert used[0].storage_bytes == sum(store.taken.values())
        assert used[0].storage_bytes + used[0].held_bytes <= LIMIT
    store.now += timedelta(seconds=CHECK_S + STEP_S)
    store.accounts.end_holds(SCOPES, store.now)
    for scope in SCOPES:
        counted = store.accounts.counters.get(scope.key(), {})
        assert counted.get("stored_bytes", 0) == sum(store.taken.values())
        assert [name for name in counted if name.startswith("held until")] == []
