"""Rates of requests other than messages: the most a minute of a user, and of all users of a tenant together.

Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, TypeAlias

from msgspec import Meta

from stepline.model.base import Value
from stepline.model.tenancy.limits import Scope

RequestKind: TypeAlias = Literal["reads", "searches", "tickets", "changes"]
PerMinute: TypeAlias = Annotated[int, Meta(ge=0, le=10**9)]


class Rates(Value, forbid_unknown_fields=True):
    """Requests of each kind in a minute; 0 is no limit, and None means the default."""

    reads: PerMinute | None = None
    searches: PerMinute | None = None
    tickets: PerMinute | None = None
    changes: PerMinute | None = None


DEFAULTS: Final = {
    "user": Rates(reads=1_200, searches=60, tickets=120, changes=240),
    "tenant": Rates(reads=24_000, searches=1_200, tickets=2_400, changes=4_800),
}


class RequestRates(Value, forbid_unknown_fields=True):
    """The rates of every user and of every tenant."""

    user: Rates = Rates()
    tenant: Rates = Rates()

    def of(self, tenant: str, project: str, user: str, kind: RequestKind) -> Iterator[tuple[Scope, int]]:
        """Yield the accounts whose requests of this kind are limited, each with its limit."""
        for scope, rates in (
            (Scope(tenant=tenant, project=project, user=user), self.user),
            (Scope(tenant=tenant), self.tenant),
        ):
            given = getattr(rates, kind)
            limit = getattr(DEFAULTS[scope.kind], kind) if given is None else given
            if limit:
                yield scope, limit
