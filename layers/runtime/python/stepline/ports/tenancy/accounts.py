"""Accounts of users, projects and tenants: their limits, their usage counters, their rates, and costs."""

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
    """The limits that a user set for an account, and when; version 0 if none were set."""

    limits: Limits = Limits()
    version: int = 0
    by: str = ""
    at: str = ""


class Accounts(Protocol):
    """Two kinds of rows: the limits and counters of an account, and the amounts counted for each conversation."""

    def limits(self, scopes: Sequence[Scope]) -> tuple[GivenLimits, ...]:
        """Return the limits of each account, in the order of `scopes`, by one strong read; `GivenLimits()` for none.

        Raises DependencyError.
        """

    def set_limits(self, scope: Scope, limits: Limits, *, version: int, by: str, at: str) -> int:
        """Replace an account's limits if they are still those of `version` (0 for none); return the new version.

        Raises InputError `limits_changed`: they have another version. Raises DependencyError.
        """

    def used(self, scopes: Sequence[Scope], at: datetime) -> tuple[Used, ...]:
        """Return the counters of each account, in the order of `scopes`, for the UTC day and month of `at`.

        A strong read. `turns` is 0: the slots of the log count turns. Raises DependencyError.
        """

    def account(self, lane: Lane) -> Account:
        """Return the charges of a conversation, by a strong read; `Account()` for none. Raises DependencyError."""

    def post(self, lane: Lane, account: Account, postings: Sequence[Posting]) -> Posted:
        """Replace a conversation's row with `account`, its next version, and apply all `postings` to counters, or none.

        `posted`: done. `moved`: the stored row is not version `account.version - 1`. `full`: a counter is larger than a
        posting allows, or smaller than the amount it takes back. `moved` and `full` change nothing.

        Raises:
            UnknownOutcome: it may be done, or it conflicted with another posting; read the row again.
            DependencyError: nothing was changed, for a temporary reason.
        """

    def end_holds(self, scopes: Sequence[Scope], at: datetime) -> None:
        """Release the amounts that uploads held until `at` or earlier, in each account. Raises DependencyError."""

    def forget(self, scope: Scope) -> None:
        """Delete an account's limits and counters of all months; rows of conversations stay. Raises DependencyError."""


STEP: Final = 20
"""Requests of an account that a process counts locally before it writes them for other processes."""


class RateCounter(Protocol):
    """The rates of messages and of other requests of accounts, over all connections."""

    def count(self, scope: Scope, minute: int) -> int:
        """Count one message of this account in a minute of the epoch; return the count so far.

        Raises DependencyError.
        """

    def tally(self, scope: Scope, minute: int, kind: RequestKind) -> int:
        """Count one request of this account, and return the count so far; most requests need no write.

        Up to STEP - 1 requests of each other process may be missing. Raises DependencyError.
        """


class Costs(Protocol):
    """The costs of invocations, one row each."""

    def put(self, lane: Lane, cost: InvocationCost) -> None:
        """Add the row of one invocation; if writes are counted, the row includes this write.

        Raises DependencyError.
        """

    def of(self, lane: Lane, *, turn: str | None = None) -> list[InvocationCost]:
        """Return the rows of a turn, or all, oldest first. Raises DependencyError."""
