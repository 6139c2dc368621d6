"""Limits of a user, a project and a tenant, and their use.

The account's own row sets each field; if it does not, the stage's default applies. A turn must keep the limits of all
three. Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Literal, TypeAlias, get_args

from msgspec import Meta
from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.ids import person, utc

ScopeKind: TypeAlias = Literal["user", "project", "tenant"]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=10**15)]
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=10**9)]

NANOS_PER_USD: Final = 1_000_000_000
"""Billionths of a dollar in one."""
REASON_MAX_CHARS: Final = 200


class Scope(Value):
    """An account: a tenant, a project of it, or a user of that."""

    tenant: str
    project: str = ""
    user: str = ""

    @property
    def kind(self) -> ScopeKind:
        """The kind of the account."""
        return "user" if self.user else "project" if self.project else "tenant"

    def key(self) -> str:
        """Return the account's name in keys; for a user the hash, since user names have no fixed alphabet."""
        if not self.project:
            return self.tenant
        if not self.user:
            return f"{self.tenant}#{self.project}"
        return f"{self.tenant}#{self.project}#{person(self.tenant, self.project, self.user)}"


def scopes_of(tenant: str, project: str, user: str) -> tuple[Scope, Scope, Scope]:
    """Return the accounts that a user's work counts for: the user's, the project's and the tenant's."""
    own = Scope(tenant=tenant, project=project, user=user)
    return own, replace(own, user=""), Scope(tenant=tenant)


class Limits(Value, forbid_unknown_fields=True):
    """Limits of an account; a field that is None uses the default, and without a default there is no limit.

    A budget or a number of turns of 0 allows nothing; 0 messages a minute are no limit. `stopped` is the reason why
    nothing may run; "" if it may. Dollars are US dollars; days and months are those of UTC.
    """

    messages_per_minute: Count | None = None
    turns_at_once: Annotated[int, Meta(ge=0, le=1000)] | None = None
    tokens_day: Count | None = None
    tokens_month: Count | None = None
    usd_day: Dollars | None = None
    usd_month: Dollars | None = None
    storage_bytes: Count | None = None
    stopped: Annotated[str, Meta(max_length=REASON_MAX_CHARS)] | None = None

    @property
    def has_budget(self) -> bool:
        """True if tokens, dollars or storage are limited."""
        return any(
            limit is not None
            for limit in (
                self.tokens_day,
                self.tokens_month,
                self.usd_day,
                self.usd_month,
                self.storage_bytes,
            )
        )

    @property
    def has_dollars(self) -> bool:
        """True if dollars are limited."""
        return self.usd_day is not None or self.usd_month is not None


class ScopeLimits(Value, forbid_unknown_fields=True):
    """The stage's defaults: of every user, every project and every tenant."""

    user: Limits = Limits()
    project: Limits = Limits()
    tenant: Limits = Limits()

    def of(self, scope: Scope) -> Limits:
        """Return the defaults of an account."""
        return {"user": self.user, "project": self.project, "tenant": self.tenant}[scope.kind]


def overlaid(defaults: Limits, given: Limits) -> Limits:
    """Return the effective limits: the given ones, and the defaults of the others."""
    return Limits(
        **{
            name: getattr(defaults, name) if getattr(given, name) is None else getattr(given, name)
            for name in Limits.__struct_fields__
        }
    )


class Used(Value):
    """The use of an account: today, this month and of its storage, and the turns that it has at once.

    `held_tokens` and `held_usd` are the most that the running rounds may use, `held_bytes` the most that running
    uploads may store; the other fields do not count them.
    """

    tokens_day: int = 0
    tokens_month: int = 0
    usd_day: float = 0.0
    usd_month: float = 0.0
    storage_bytes: int = 0
    turns: int = 0
    held_tokens: int = 0
    held_usd: float = 0.0
    held_bytes: int = 0


class Ends(Value):
    """The ends of the minute, the day and the month that contain a time, in UTC."""

    minute: str
    day: str
    month: str


def ends(at: datetime) -> Ends:
    """Return the ends of a time's minute, day and month."""
    now = at.astimezone(UTC)
    minute = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
    return Ends(minute=utc(minute), day=utc(day_end(now)), month=utc(month_end(now)))


def day_end(at: datetime) -> datetime:
    """Return the end of a time's day in UTC."""
    return at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def month_end(at: datetime) -> datetime:
    """Return the end of a time's month in UTC."""
    first = at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return (first + timedelta(days=32)).replace(day=1)


LimitCode: TypeAlias = Literal["limit_tokens", "limit_usd", "limit_storage", "limit_turns", "stopped"]
LimitWindow: TypeAlias = Literal["", "day", "month", "held", "unpriced"]
"""The period that a limit counts; `held` if running rounds or uploads hold the rest, `unpriced` if no dollars are known."""


class Excess(Value):
    """A reached limit: its code, its account, and its period. `retry_after_s` is 0 if no time ends it."""

    code: LimitCode
    kind: ScopeKind
    window: LimitWindow = ""
    retry_after_s: int = 0

    @property
    def names(self) -> str:
        """The names of its account and its time, for the state of an execution."""
        return f"{self.kind} {self.window or '-'}"


LIMIT_CODES: Final = frozenset(get_args(LimitCode))


_WHOSE: Final = {"user": "Your", "project": "This project's", "tenant": "This organization's"}
_WHEN: Final = {
    "day": "is used up. It begins again at 00:00 UTC.",
    "month": "is used up. It begins again with the next month, at 00:00 UTC.",
    "unpriced": "cannot be kept: the price of the model is not known. Please ask the administrators to set it.",
}


def limit_sentence(code: str, names: str = "") -> str:
    """Return the sentence that a user reads about a limit; `names` begins with those of the exceeded limit."""
    kind, window, *_ = (*names.split(), "", "")
    whose, period = _WHOSE.get(kind, "The"), {"day": "daily ", "month": "monthly "}.get(window, "")
    budget = f"{whose} {period}budget of {'tokens' if code == 'limit_tokens' else 'dollars'}"
    match code:
        case "stopped":
            return "Work is stopped here by the administrators. Please ask them."
        case "limit_storage" if window == "held":
            return f"{whose} storage is held by files that are uploaded now. Please try again in a minute."
        case "limit_storage":
            return f"{whose} storage is full. Please delete conversations that are no longer needed."
        case "limit_turns":
            return f"{whose} limit of turns at once is reached. Please send the message again in a moment."
        case _ if window == "held":
            return f"{budget} is held by turns that run now. Please send the message again in a minute."
        case _:
            return f"{budget} {_WHEN.get(window, 'is used up.')}"
