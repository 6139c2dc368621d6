"""Accounts of users, projects and tenants: their limits, the counters of what they have used, their rates, and costs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import Account, Posting
from stepline.model.tenancy.consumption import InvocationCost
from stepline.model.tenancy.limits import Limits, Scope, Used
from stepline.model.tenancy.request_rates import RequestKind

Posted: TypeAlias = Literal["posted", "moved", "full"]


class GivenLimits(Value):
    """The limits that were given to an account, by a user at a time; version 0 if nobody gave any."""

    limits: Limits = Limits()
    version: int = 0
    by: str = ""
    at: str = ""


class Accounts(Protocol):
    """Two kinds of rows: an account's limits and counters, and of each conversation how much of it was counted there."""

    def limits(self, scopes: Sequence[Scope]) -> tuple[GivenLimits, ...]:
        """Return the limits of each account, in the order of `scopes`, by one strong read; `GivenLimits()` for one without any.

        Raises DependencyError.
        """

    def set_limits(self, scope: Scope, limits: Limits, *, version: int, by: str, at: str) -> int:
        """Replace an account's limits if they are still those of `version`, 0 if none were given; return the new version.

        Raises InputError `limits_changed`: they have another version. Raises DependencyError.
        """

    def used(self, scopes: Sequence[Scope], at: datetime) -> tuple[Used, ...]:
        """Return the counters of each account, in the order of `scopes`, for the day and month of `at` in UTC, by a strong read.

        `turns` is 0: the slots of the log count turns. Raises DependencyError.
        """

    def account(self, lane: Lane) -> Account:
        """Return the row of a conversation's charges, by a strong read; `Account()` if there are none. Raises DependencyError."""

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        """Replace a conversation's row by `account`, its next version, and change counters by `postings`, all or nothing.

        `posted`: done. `moved`: the stored row is not version `account.version - 1`. `full`: a counter is larger than a
        posting allows, or holds less than it takes back. Neither of these two changes anything.

        Raises:
            UnknownOutcome: it may be done, or it conflicted with another posting: read the row again.
            DependencyError: nothing was done, for a temporary reason.
        """

    def end_holds(self, scopes: Sequence[Scope], at: datetime) -> None:
        """Take back what uploads held until this time at the latest, from each of these accounts. Raises DependencyError."""

    def forget(self, scope: Scope) -> None:
        """Delete an account's limits and counters of all months; rows of conversations stay. Raises DependencyError."""


STEP: Final = 20
"""Requests of an account that a process counts by itself before it writes them for the others."""


class RateCounter(Protocol):
    """The rates of messages and of other requests of accounts, over all connections."""

    def count(self, scope: Scope, minute: int) -> int:
        """Count one message of this account in a minute of the epoch; return the count so far.

        Raises DependencyError.
        """

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        """Count one request of this account, and return the count so far, without a write for most of them.

        Of each other process up to STEP - 1 requests may be missing. Raises DependencyError.
        """


class Costs(Protocol):
    """The costs of invocations, a row each."""

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        """Add the row of one invocation; the write itself is counted in it, where writes are.

        Raises DependencyError.
        """

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        """Return the rows of a turn, or all, oldest first. Raises DependencyError."""
