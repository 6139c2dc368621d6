"""Charges: the amounts that a conversation adds to the counters of its accounts, as a pure plan.

The totals of a conversation are in the state of its log, so a charge is a difference: between those totals and the
amounts charged before, which the conversation's own row holds. That row changes on condition of its version together
with the counters, so each token is charged once, for any number of tries and processes. A hold is charged like spending
before a round calls the model, and released by the next charge. Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from msgspec import field
from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.tenancy.limits import NANOS_PER_USD, Limits, Scope


class Amount(Value):
    """Tokens, and billionths of a dollar."""

    tokens: int = 0
    nanos: int = 0

    def __bool__(self) -> bool:
        """True if the amount is not zero."""
        return bool(self.tokens or self.nanos)

    def plus(self, other: Amount, times: int = 1) -> Amount:
        """Return the sum with `times` times another amount."""
        return Amount(tokens=self.tokens + times * other.tokens, nanos=self.nanos + times * other.nanos)


NOTHING = Amount()
ROUND_OUTPUT_TOKENS: Final = 20_000
"""The maximum output of an agent's round."""


class StorageHold(Value):
    """Storage that an upload holds until a time, in epoch seconds; 0 bytes once its file was settled."""

    size_bytes: int
    until_s: int

    def is_live(self, at: datetime) -> bool:
        """Return True if the hold still counts."""
        return at.timestamp() < self.until_s


class ReplayCharge(Value):
    """The amount that a replayed round was charged with, on a day; the row forgets it after `until_s`, in epoch seconds."""

    amount: Amount
    on: str
    until_s: int


class Account(Value):
    """The charges of a conversation so far: up to batch `n`, and the hold of its running round, since `held_on` (a day).

    `stored_bytes` are those of its state, `uploaded_bytes` those of the files that were uploaded for it, `holds` those of
    files that may still arrive, by upload. `replays` are the charges of rounds that were replayed in the last hours, by id.
    `version` counts the changes of the row; 0 if there is none.
    """

    n: int = 0
    charged: Amount = NOTHING
    stored_bytes: int = 0
    uploaded_bytes: int = 0
    hold: Amount = NOTHING
    held_on: str = ""
    holds: Mapping[str, StorageHold] = field(default_factory=dict)
    replays: Mapping[str, ReplayCharge] = field(default_factory=dict)
    version: int = 0


class Posting(Value):
    """A change of an account's counters in a month: amounts of the month and of days in it, by two digits.

    `held` is the part that running rounds hold. `most` and `most_on` are the largest values, before the change, at which it
    may be made: of the month, and of the day with the same name.

    `stored_bytes` changes the storage including holds, `ends` the held part, by the second in which the holds
    end; an amount that is subtracted must exist. `most_stored_bytes` is the largest storage before the change.
    """

    scope: Scope
    month: str
    amount: Amount = NOTHING
    held: Amount = NOTHING
    days: Mapping[str, Amount] = field(default_factory=dict)
    most_tokens: int | None = None
    most_nanos: int | None = None
    most_day_tokens: int | None = None
    most_day_nanos: int | None = None
    day: str = ""
    stored_bytes: int = 0
    ends: Mapping[int, int] = field(default_factory=dict)
    most_stored_bytes: int | None = None

    @property
    def is_of_storage(self) -> bool:
        """True if the posting changes the storage, and no month."""
        return bool(self.stored_bytes or self.ends)

    @property
    def releases(self) -> bool:
        """True if the posting releases the hold of an upload."""
        return any(change < 0 for change in self.ends.values())

    @property
    def is_impossible(self) -> bool:
        """True if no value is small enough for the change."""
        bounds = (
            *(self.most_tokens, self.most_nanos, self.most_day_tokens, self.most_day_nanos),
            self.most_stored_bytes,
        )
        return any(most is not None and most < 0 for most in bounds)

    @property
    def is_empty(self) -> bool:
        """True if the posting changes no counter."""
        return not (self.amount or self.held or any(self.days.values()) or self.is_of_storage)


class ChargePlan(Value):
    """The row after a charge, and the changes of counters that belong to it."""

    account: Account
    postings: tuple[Posting, ...]


def plan_charge(
    account: Account,
    batch: Batch,
    scopes: Sequence[Scope],
    *,
    at: datetime,
    hold: Amount = NOTHING,
    limits: Iterable[Limits] = (),
) -> ChargePlan | None:
    """Return the plan that updates the counters to a batch's state, with this hold; None if done already or outdated.

    With `limits`, those of each account in order, the plan is possible only within them.
    """
    state = batch.state
    totals = Amount(tokens=state.input_tokens + state.output_tokens, nanos=state.spent_nanos)
    if batch.n < account.n or (batch.n == account.n and not hold and not account.hold):
        return None
    now = at.astimezone(UTC)
    today = f"{now:%Y-%m-%d}"
    uploaded_bytes = 0 if state.deleted else account.uploaded_bytes
    live = {name: hold for name, hold in account.holds.items() if hold.is_live(now)}
    after = Account(
        n=batch.n,
        charged=totals,
        stored_bytes=state.stored_bytes,
        uploaded_bytes=uploaded_bytes,
        hold=hold,
        held_on=today if hold else "",
        holds={} if state.deleted else live,
        replays=account.replays,
        version=account.version + 1,
    )
    spent = totals.plus(account.charged, -1)
    ends = taken_back(live.values()) if state.deleted else {}
    stored_bytes = state.stored_bytes - account.stored_bytes + uploaded_bytes - account.uploaded_bytes
    stored_bytes += sum(ends.values())
    postings: list[Posting] = []
    for scope, limit in zip(scopes, (*limits, *(Limits() for _ in scopes)), strict=False):
        postings += _postings(scope, account, today, spent=spent, hold=hold, limit=limit)
        postings.append(Posting(scope=scope, month="", stored_bytes=stored_bytes, ends=ends))
    return ChargePlan(account=after, postings=tuple(p for p in postings if not p.is_empty))


def plan_upload(account: Account, scopes: Sequence[Scope], size_bytes: int) -> ChargePlan:
    """Return the plan that counts an uploaded file of a conversation."""
    uploaded_bytes = account.uploaded_bytes + size_bytes
    after = replace(account, uploaded_bytes=uploaded_bytes, version=account.version + 1)
    postings = tuple(Posting(scope=scope, month="", stored_bytes=size_bytes) for scope in scopes)
    return ChargePlan(account=after, postings=postings)


def plan_replay(
    account: Account,
    replay: str,
    scopes: Sequence[Scope],
    amount: Amount,
    *,
    at: datetime,
    until_s: int,
    limits: Iterable[Limits] = (),
) -> ChargePlan | None:
    """Return the plan that charges a replay with `amount`, instead of what it was charged with before; None if it was.

    A replay is in no batch, so the row knows it by its id. The difference counts for the day of its first charge. With
    `limits`, those of each account in order, the plan is possible only within them.
    """
    now = at.astimezone(UTC)
    before = account.replays.get(replay)
    if before is not None and before.amount == amount:
        return None
    on = before.on if before else f"{now:%Y-%m-%d}"
    live = {name: one for name, one in account.replays.items() if now.timestamp() < one.until_s}
    charge = ReplayCharge(amount=amount, on=on, until_s=until_s)
    after = replace(account, replays={**live, replay: charge}, version=account.version + 1)
    added = amount.plus(before.amount, -1) if before else amount
    postings = [
        posting
        for scope, limit in zip(scopes, (*limits, *(Limits() for _ in scopes)), strict=False)
        for posting in _postings(scope, Account(), on, spent=added, hold=NOTHING, limit=limit)
    ]
    return ChargePlan(account=after, postings=tuple(p for p in postings if not p.is_empty))


def taken_back(holds: Iterable[StorageHold]) -> dict[int, int]:
    """Return the changes of held amounts that release these holds."""
    ends: dict[int, int] = {}
    for hold in holds:
        if hold.size_bytes:
            ends[hold.until_s] = ends.get(hold.until_s, 0) - hold.size_bytes
    return ends


def _postings(
    scope: Scope, account: Account, today: str, *, spent: Amount, hold: Amount, limit: Limits
) -> list[Posting]:
    """Return the changes of one account: of this month, and of the one in which the hold was placed."""
    month, day = today[:7], today[8:]
    added, released = spent.plus(hold), account.hold
    days = {day: added}
    now = Posting(scope=scope, month=month, amount=added, held=hold, day=day)
    others: list[Posting] = []
    if released and account.held_on[:7] == month:
        then = account.held_on[8:]
        days[then] = days.get(then, NOTHING).plus(released, -1)
        now = replace(now, amount=added.plus(released, -1), held=hold.plus(released, -1))
    elif released:
        back = NOTHING.plus(released, -1)
        others.append(
            Posting(
                scope=scope,
                month=account.held_on[:7],
                amount=back,
                held=back,
                days={account.held_on[8:]: back},
            )
        )
    return [_bounded(replace(now, days=days), limit), *others]


def _bounded(posting: Posting, limit: Limits) -> Posting:
    """Return the posting with the largest values at which it keeps within the limits."""
    today = posting.days[posting.day]
    return replace(
        posting,
        most_tokens=_most(limit.tokens_month, posting.amount.tokens),
        most_nanos=_most(nanos_of(limit.usd_month), posting.amount.nanos),
        most_day_tokens=_most(limit.tokens_day, today.tokens),
        most_day_nanos=_most(nanos_of(limit.usd_day), today.nanos),
    )


def _most(limit: int | None, change: int) -> int | None:
    return None if limit is None else limit - change


def nanos_of(usd: float | None) -> int | None:
    """Return dollars in billionths."""
    return None if usd is None else round(usd * NANOS_PER_USD)
