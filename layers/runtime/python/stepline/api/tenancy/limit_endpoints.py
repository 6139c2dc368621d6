"""Limits: those of the caller, and those that admins set for users, projects and the tenant.

Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import Annotated, Any, Final

from msgspec import Meta, to_builtins

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing
from stepline.errors import InputError, NotFoundError
from stepline.model.base import Value
from stepline.model.ids import SEGMENT, is_user, person, utc
from stepline.model.tenancy.limits import Limits, Scope, ScopeKind, Used, ends, overlaid, scopes_of
from stepline.ports.channel import Principal, Role
from stepline.ports.tenancy.accounts import GivenLimits

logger = logging.getLogger(__name__)

TRIES: Final = 5
"""How often setting limits is tried with the version found, if the request names none."""


class NewLimits(Limits, forbid_unknown_fields=True):
    """All limits of an account, which replace its current ones; a field that is absent or null means the default.

    `version` is that of the limits that were read: they are replaced only if they have not changed since. Without it
    they are replaced in any case.
    """

    version: Annotated[int, Meta(ge=0, lt=2**53)] | None = None

    def limits(self) -> Limits:
        """Return the limits alone."""
        return Limits(**{name: getattr(self, name) for name in Limits.__struct_fields__})


class ScopeStanding(Value, omit_defaults=False):
    """Limits of an account and its usage.

    `limits` are in effect: those `given` to the account, in this `version`, and the stage's defaults for the others.
    Counts restart when the minute, the day or the month ends. For a project and a tenant, a caller who is not its admin
    sees only the usage of limits that are set.
    """

    scope: ScopeKind
    limits: Limits
    given: Limits
    version: int
    used: Used
    minute_ends_at: str
    day_ends_at: str
    month_ends_at: str


class OwnStanding(Value, omit_defaults=False):
    """The caller, and the accounts to which their work is charged: the user's, the project's, the tenant's."""

    tenant: str
    project: str
    user: str
    role: Role
    scopes: tuple[ScopeStanding, ...]


def read_limits(call: Call[Nothing, None]) -> OwnStanding:
    """Read the limits of the caller, of the project and of the tenant, and their usage."""
    here = call.principal
    scopes = scopes_of(here.tenant, here.project, here.user)
    return OwnStanding(
        tenant=here.tenant,
        project=here.project,
        user=here.user,
        role=here.role,
        scopes=_read_scopes(call, *scopes),
    )


def read_tenant_limits(call: Call[Nothing, None]) -> ScopeStanding:
    """Read the limits of the tenant, as an admin of it."""
    return _read_scopes(call, _scope(call))[0]


def read_project_limits(call: Call[Nothing, None]) -> ScopeStanding:
    """Read the limits of a project, as an admin of it or of its tenant."""
    return _read_scopes(call, _scope(call))[0]


def read_user_limits(call: Call[Nothing, None]) -> ScopeStanding:
    """Read the limits of a user, as an admin of the project or of its tenant."""
    return _read_scopes(call, _scope(call))[0]


def write_tenant_limits(call: Call[Nothing, NewLimits]) -> ScopeStanding:
    """Set the limits of the tenant, as an admin of it; with `stopped`, all its work stops."""
    return _write(call)


def write_project_limits(call: Call[Nothing, NewLimits]) -> ScopeStanding:
    """Set the limits of a project, as an admin of it or of its tenant."""
    return _write(call)


def write_user_limits(call: Call[Nothing, NewLimits]) -> ScopeStanding:
    """Set the limits of a user, as an admin of the project or of its tenant."""
    return _write(call)


def administers(who: Principal, scope: Scope) -> bool:
    """Return True for an admin of the tenant, and of a project and its users for an admin of this project."""
    if who.tenant != scope.tenant:
        return False
    return who.role == "tenant_admin" or (who.role == "project_admin" and who.project == scope.project)


def _scope(call: Call[Any, Any]) -> Scope:
    """Return the account that a path names. Raises NotFoundError: the caller is not an admin of it."""
    path = call.path
    scope = Scope(tenant=path["tenant"], project=path.get("project", ""), user=path.get("user", ""))
    named = all(SEGMENT.fullmatch(path[name]) for name in ("tenant", "project") if name in path)
    if not (named and ("user" not in path or is_user(scope.user)) and administers(call.principal, scope)):
        raise NotFoundError("no such account")
    return scope


def _read_scopes(call: Call[Any, Any], *scopes: Scope) -> tuple[ScopeStanding, ...]:
    ports, now = call.ports, call.ports.clock.now()
    until = ends(now)
    found = zip(scopes, ports.accounts.limits(scopes), ports.accounts.used(scopes, now), strict=True)
    return tuple(
        ScopeStanding(
            scope=scope.kind,
            limits=(limits := overlaid(ports.policy.limits.of(scope), given.limits)),
            given=given.limits,
            version=given.version,
            used=_shown(call, scope, limits, used),
            minute_ends_at=until.minute,
            day_ends_at=until.day,
            month_ends_at=until.month,
        )
        for scope, given, used in found
    )


def _shown(call: Call[Any, Any], scope: Scope, limits: Limits, used: Used) -> Used:
    """Return the part of an account's usage that the caller may see: for others' accounts, only that of set limits."""
    everything = scope.kind == "user" or administers(call.principal, scope)
    turns = len(call.ports.log.taken_slots(scope)) if limits.turns_at_once is not None else 0
    seen = {name: getattr(used, name) for name in _LIMITED if everything or getattr(limits, name) is not None}
    if everything or limits.tokens_day is not None or limits.tokens_month is not None:
        seen["held_tokens"] = used.held_tokens
    if everything or limits.usd_day is not None or limits.usd_month is not None:
        seen["held_usd"] = used.held_usd
    if everything or limits.storage_bytes is not None:
        seen["held_bytes"] = used.held_bytes
    return Used(**seen, turns=turns)


_LIMITED: Final = ("tokens_day", "tokens_month", "usd_day", "usd_month", "storage_bytes")


def _write(call: Call[Nothing, NewLimits]) -> ScopeStanding:
    scope, limits = _scope(call), call.body.limits()
    version = _replace(call, scope, limits)
    logger.info(
        "limits set",
        extra={
            "account": scope.key(),
            "by": _name(call),
            "version": version,
            "stopped": bool(limits.stopped),
            "limits": {name: one for name, one in to_builtins(limits).items() if name != "stopped"},
        },
    )
    return _read_scopes(call, scope)[0]


def _replace(call: Call[Nothing, NewLimits], scope: Scope, limits: Limits) -> int:
    """Replace the limits of an account; return their version. Raises InputError `limits_changed`."""
    accounts, version, at = call.ports.accounts, call.body.version, utc(call.ports.clock.now())
    for _ in range(TRIES):
        (current,) = accounts.limits((scope,)) if version is None else (GivenLimits(version=version),)
        try:
            return accounts.set_limits(scope, limits, version=current.version, by=_name(call), at=at)
        except InputError:
            if version is not None:
                raise
    raise InputError("the limits were changed again and again", code="limits_changed")


def _name(call: Call[Any, Any]) -> str:
    """Return a hash that replaces the caller's name in permanent rows, so that an erasure need not find them."""
    here = call.principal
    return person(here.tenant, here.project, here.user)


_TENANT: Final = "/v1/tenants/{tenant}"
_PROJECT: Final = f"{_TENANT}/projects/{{project}}"
_USER: Final = f"{_PROJECT}/users/{{user+}}"
_CHANGED: Final = {**OWNED, HTTPStatus.PRECONDITION_FAILED: ("limits_changed",)}

ENDPOINTS: Final = (
    Endpoint("GET", "/v1/limits", read_limits),
    *(
        row
        for path, read, write in (
            (_TENANT, read_tenant_limits, write_tenant_limits),
            (_PROJECT, read_project_limits, write_project_limits),
            (_USER, read_user_limits, write_user_limits),
        )
        for row in (
            Endpoint("GET", f"{path}/limits", read, codes=OWNED),
            Endpoint("PUT", f"{path}/limits", write, codes=_CHANGED),
        )
    ),
)
