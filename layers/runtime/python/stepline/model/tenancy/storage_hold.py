"""Holds of storage: an upload's bytes are held when its slot is given, and settled by the verdict or by the hold's end.

A hold counts like stored bytes until it ends, so that concurrent slots cannot use the same room. It is in the
conversation's row, by its upload, and in the counters, by the second in which it ends: a hold that has ended counts for
nothing.
Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.tenancy.charge import Account, ChargePlan, Posting, StorageHold, taken_back
from stepline.model.tenancy.limits import Limits, Scope

STEP_S: Final = 10
"""Holds end at a multiple of this number of seconds, so that a row of counters has few ends."""


class WantedHold(Value):
    """A requested hold: the bytes of an upload, until at least a time."""

    upload_id: str
    size_bytes: int
    until_s: int

    def hold(self) -> StorageHold:
        """Return the hold, which ends at a multiple of STEP_S."""
        return StorageHold(size_bytes=self.size_bytes, until_s=-(-self.until_s // STEP_S) * STEP_S)


def plan_hold(
    account: Account, wanted: WantedHold, scopes: Sequence[Scope], limits: Sequence[Limits], *, at: datetime
) -> ChargePlan | None:
    """Return the plan that holds the bytes of an upload, within the limits of each account; None if held or settled.

    A hold that has not ended is extended, and needs no further room.
    """
    new, old = wanted.hold(), account.holds.get(wanted.upload_id)
    goes_on = old is not None and old.is_live(at)
    if old is not None and (not old.size_bytes or (goes_on and old.until_s >= new.until_s)):
        return None
    ends = taken_back([old] if old is not None and goes_on else ())
    change = new.size_bytes + sum(ends.values())
    ends[new.until_s] = new.size_bytes
    holds = {name: hold for name, hold in account.holds.items() if hold.is_live(at)}
    after = replace(account, holds={**holds, wanted.upload_id: new}, version=account.version + 1)
    postings = (
        Posting(
            scope=scope,
            month="",
            stored_bytes=change,
            ends=ends,
            most_stored_bytes=None
            if goes_on or limit.storage_bytes is None
            else limit.storage_bytes - change,
        )
        for scope, limit in zip(scopes, limits, strict=True)
    )
    return ChargePlan(account=after, postings=tuple(postings))


def plan_settlement(
    account: Account, upload_id: str, scopes: Sequence[Scope], *, taken: bool, at: datetime
) -> ChargePlan | None:
    """Return the plan that releases a hold, and counts its file if that was `taken`; None if it is settled.

    The hold's name stays, without bytes, until its end, so that a repetition finds it settled.
    """
    hold = account.holds.get(upload_id)
    if hold is None or not hold.size_bytes:
        return None
    ends = taken_back([hold] if hold.is_live(at) else ())
    counted = hold.size_bytes if taken else 0
    after = replace(
        account,
        holds={**account.holds, upload_id: replace(hold, size_bytes=0)},
        uploaded_bytes=account.uploaded_bytes + counted,
        version=account.version + 1,
    )
    change = counted + sum(ends.values())
    postings = (Posting(scope=scope, month="", stored_bytes=change, ends=ends) for scope in scopes)
    return ChargePlan(account=after, postings=tuple(one for one in postings if not one.is_empty))


def without_holds(account: Account) -> Account:
    """Return the row as if all of its holds had ended."""
    ended = {name: replace(hold, until_s=0) for name, hold in account.holds.items()}
    return replace(account, holds=ended)
