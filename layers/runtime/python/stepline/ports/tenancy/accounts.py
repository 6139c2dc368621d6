"""Accounts of users, projects and tenants: their limits, and the counters of what they have used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Posting
from stepline.model.tenancy.limits import Limits, Scope, Used

Posted: TypeAlias = Literal["posted", "moved", "full"]


class GivenLimits(Value):
    """The limits that were given to an account, by a user at a time; version 0 if nobody gave any."""

    limits: Limits = Limits()
    version: int = 0
    by: str = ""
    at: str = ""


class Accounts(Protocol):
    def limits(self, scopes: Sequence[Scope]) -> tuple[GivenLimits, ...]:
        """Return what each account was given, by one strong read. Raises DependencyError."""
        ...

    def set_limits(self, scope: Scope, limits: Limits, *, version: int, by: str, at: str) -> int:
        """Replace the limits that an account was given in this version; return the new version.

        Raises InputError `limits_changed`: they have another version. Raises DependencyError.
        """
        ...

    def used(self, scopes: Sequence[Scope], at: datetime) -> tuple[Used, ...]:
        """Return what each account has used at a time, by a strong read; turns are not counted here. Raises DependencyError."""
        ...

    def account(self, lane: Lane) -> Account:
        """Return what was charged for a conversation, by a strong read. Raises DependencyError."""
        ...

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        """Replace the row of a conversation by its next version, and change the counters, all or nothing.

        `moved`: the row has another version than the one before. `full`: a counter is larger than the posting allows.

        Raises:
            UnknownOutcome: it may be done or not, or it met another one: read the row again.
            DependencyError: nothing was done, for a temporary reason.
        """
        ...

    def forget(self, scope: Scope) -> None:
        """Delete the limits and counters of an account. Raises DependencyError."""
        ...
