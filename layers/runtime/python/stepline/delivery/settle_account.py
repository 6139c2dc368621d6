"""Settlement: charge the spending of a conversation to the counters of its user, project and tenant.

It is an effect of a batch like any other: performed after the put, and repeated when a process finds the batch again.
The totals are in the state of the batch, and the conversation's row records the amounts charged before, so each token
is charged once.
Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

from stepline.errors import DependencyError, UnknownOutcome
from stepline.log.bindings import Ports
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import (
    NOTHING,
    Account,
    Amount,
    ChargePlan,
    plan_charge,
    plan_replay,
    plan_upload,
)
from stepline.model.tenancy.limits import Limits, Scope, scopes_of
from stepline.model.tenancy.storage_hold import WantedHold, plan_hold, plan_settlement, without_holds

TRIES: Final = 16
_PAUSE_FIRST_S: Final = 0.01
_PAUSE_MOST_S: Final = 0.5

Charged: TypeAlias = Literal["done", "full", "old"]


def settle_account(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Charge the conversation's spending up to this batch, and release the hold of its round.

    Raises DependencyError `account_contended`.
    """
    charge(ports, lane, batch)


def charge(
    ports: Ports, lane: Lane, batch: Batch, *, hold: Amount = NOTHING, limits: Sequence[Limits] = ()
) -> Charged:
    """Charge a batch's totals, with a hold and within limits, if there are any.

    Return `full` if a limit has no room for it, `old` if a later batch was charged before; neither changes anything.

    Raises DependencyError `account_contended`: other writers were faster too often.
    """
    scopes = scopes_of(lane.tenant, lane.project, batch.state.owner)

    def plan(account: Account) -> ChargePlan | Charged:
        if batch.n < account.n:
            return "old"
        made = plan_charge(account, batch, scopes, at=ports.clock.now(), hold=hold, limits=limits)
        return made or "done"

    return _post(ports, lane, plan)


def charge_upload(ports: Ports, lane: Lane, user: str, size_bytes: int) -> None:
    """Count a user's uploaded file of a conversation, until that is deleted. Raises DependencyError as above."""
    scopes = scopes_of(lane.tenant, lane.project, user)
    _post(ports, lane, lambda account: plan_upload(account, scopes, size_bytes))


def charge_replay(
    ports: Ports,
    lane: Lane,
    user: str,
    replay: str,
    amount: Amount,
    *,
    until_s: int,
    limits: Sequence[Limits] = (),
) -> Charged:
    """Charge a replayed round of a user's conversation with `amount`, in place of an earlier amount of its own.

    Return `full` if a limit has no room for it. Raises DependencyError as above.
    """
    scopes = scopes_of(lane.tenant, lane.project, user)

    def plan(account: Account) -> ChargePlan | Charged:
        made = plan_replay(
            account, replay, scopes, amount, at=ports.clock.now(), until_s=until_s, limits=limits
        )
        return made or "done"

    return _post(ports, lane, plan)


def hold_storage(
    ports: Ports, lane: Lane, scopes: Sequence[Scope], limits: Sequence[Limits], wanted: WantedHold
) -> bool:
    """Hold the bytes of an upload within the limits of each account; return False if one has no room for them.

    An existing hold is extended, and a settled one stays settled. Raises DependencyError as above.
    """
    ports.accounts.end_holds(scopes, ports.clock.now())

    def plan(account: Account) -> ChargePlan | Charged:
        return plan_hold(account, wanted, scopes, limits, at=ports.clock.now()) or "done"

    return _post(ports, lane, plan) == "done"


def settle_storage(ports: Ports, lane: Lane, user: str, upload_id: str, *, taken: bool) -> None:
    """Release an upload's hold, and count its file if it was accepted; once. Raises DependencyError as above."""
    scopes = scopes_of(lane.tenant, lane.project, user)

    def plan(account: Account) -> ChargePlan | Charged:
        return plan_settlement(account, upload_id, scopes, taken=taken, at=ports.clock.now()) or "done"

    _post(ports, lane, plan)


def _post(ports: Ports, lane: Lane, plan: Callable[[Account], ChargePlan | Charged]) -> Charged:
    """Post a plan made from the newest row of a conversation, again as long as other writers are faster.

    If a plan releases a hold that has already expired, it is made again without the holds.
    """
    ended = False
    for attempt in range(TRIES):
        if attempt:
            ports.clock.pause(_backoff_s(attempt))
        account = ports.accounts.account(lane)
        made = plan(without_holds(account) if ended else account)
        if not isinstance(made, ChargePlan):
            return made
        try:
            posted = ports.accounts.post(lane, made.account, made.postings)
        except UnknownOutcome:
            continue
        if posted == "posted":
            return "done"
        if posted == "full":
            if ended or not any(posting.releases for posting in made.postings):
                return "full"
            ended = True
    raise DependencyError("the account is contended", code="account_contended", tries=TRIES)


def _backoff_s(attempt: int) -> float:
    return secrets.SystemRandom().uniform(0, min(_PAUSE_MOST_S, _PAUSE_FIRST_S * 2**attempt))
