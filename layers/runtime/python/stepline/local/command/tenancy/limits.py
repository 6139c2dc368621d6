"""`stepline limits`: show limits and their usage; for admins, set limits and stop work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from stepline.errors import InputError
from stepline.local.command.argument import Login, check_user, json_option, login_options, text_option
from stepline.local.safe_text import clean_line, one_line

if TYPE_CHECKING:
    from stepline.api.tenancy.limit_endpoints import NewLimits, ScopeStanding
    from stepline.local.client.http_api import HttpApi

COUNTED: Final[Mapping[str, str]] = {
    "messages_per_minute": "minute_ends_at",
    "turns_at_once": "",
    "tokens_day": "day_ends_at",
    "tokens_month": "month_ends_at",
    "usd_day": "day_ends_at",
    "usd_month": "month_ends_at",
    "storage_bytes": "",
}
"""Each limit, and the field with the time when its count restarts."""
USED: Final[Mapping[str, str]] = {"turns_at_once": "turns"}
"""The usage fields that are not named like their limit."""


@click.command()
@click.argument("limits", nargs=-1, metavar="[NAME=VALUE]...")
@click.option("--tenant", is_flag=True, help="The limits of the tenant.")
@text_option("--project", metavar="NAME", help="The limits of this project, or of a user in it.")
@click.option("--of", default=None, callback=check_user, metavar="USER", help="The limits of this user.")
@text_option("--stop", metavar="REASON", help="Stop all work; clients read the reason.")
@click.option("--resume", is_flag=True, help="Allow work again.")
@login_options
@json_option
def limits(
    *,
    limits: tuple[str, ...],
    tenant: bool,
    project: str,
    of: str,
    stop: str,
    resume: bool,
    login: Login,
    as_json: bool,
) -> None:
    """Show the limits and their usage; admins set them.

    Without an option these are the limits of you, your project and your tenant. --tenant, --project and --of choose an
    account of which you are an admin; on the local stage you are. NAME=VALUE sets a limit (usd_day=5), NAME= resets it
    to the stage's default; the others do not change. --stop and --resume are the kill switch: a running turn ends after
    its round.
    """
    from contextlib import closing

    import msgspec

    from stepline.local.caller import open_api
    from stepline.local.terminal.json_lines import render_json_line

    named, changes = tenant or bool(project or of), parse_changes(limits, stop=stop, resume=resume)
    check_changes(changes)
    if tenant and (project or of):
        raise click.UsageError("--tenant cannot be combined with --project or --of")
    if changes and not named:
        raise click.UsageError("add --tenant, --project or --of: the account whose limits are set")
    caller = login.caller(role="tenant_admin" if named else "user")
    with closing(open_api(caller)) as api:
        found = [administer(api, project, of, changes)] if named else list(api.read_limits().scopes)
    for scope in found:
        row = msgspec.to_builtins(scope)
        for line in [render_json_line(row)] if as_json else render_limit(row):
            click.echo(line)


def parse_changes(texts: Sequence[str], *, stop: str, resume: bool) -> dict[str, Any]:
    """Return the limits to change, each with its value or None for the default. Raises click.BadParameter."""
    changes: dict[str, Any] = {}
    for text in texts:
        name, found, value = text.partition("=")
        if not found or name not in COUNTED:
            hint = "is a shell variable not set? " if not text.strip() else ""
            raise click.BadParameter(
                f"{text!r:.80} is not a limit: {hint}write NAME=VALUE, with one of {', '.join(COUNTED)}"
            )
        try:
            changes[name] = (float if name.startswith("usd") else int)(value) if value else None
        except ValueError as error:
            kind = "number" if name.startswith("usd") else "whole number"
            raise click.BadParameter(f"{text!r:.80}: {value!r:.80} is not a {kind}") from error
    if stop and resume:
        raise click.UsageError("--stop and --resume cannot be combined")
    if stop or resume:
        changes["stopped"] = stop
    return changes


def check_changes(changes: Mapping[str, Any]) -> None:
    """Raise InputError `bad_limit` for a value that is out of range."""
    import msgspec

    from stepline.model.tenancy.limits import Limits

    for name, value in changes.items():
        try:
            msgspec.convert({name: value}, Limits)
        except msgspec.ValidationError as error:
            given = "--stop" if name == "stopped" else f"{name}={value}"
            bound = str(error).partition(" - at ")[0].replace("`", "").lower()
            raise InputError(f"{given} is out of range: {bound}", code="bad_limit") from error


def administer(api: HttpApi, project: str, user: str, changes: Mapping[str, Any]) -> ScopeStanding:
    """Change the limits of an account and return its status: a user's, a project's, or without both the tenant's.

    Raises ApiError: `limits_changed`, or the caller is no admin of the account.
    """
    here = api.read_limits()
    project = project or (here.project if user else "")
    if user:
        read = api.read_user_limits(here.tenant, project, user)
    elif project:
        read = api.read_project_limits(here.tenant, project)
    else:
        read = api.read_tenant_limits(here.tenant)
    if not changes:
        return read
    new = _changed(read, changes)
    if user:
        return api.write_user_limits(here.tenant, project, user, new)
    if project:
        return api.write_project_limits(here.tenant, project, new)
    return api.write_tenant_limits(here.tenant, new)


def _changed(scope: ScopeStanding, changes: Mapping[str, Any]) -> NewLimits:
    import msgspec

    from stepline.api.tenancy.limit_endpoints import NewLimits

    given = {**msgspec.to_builtins(scope.given), **changes, "version": scope.version}
    return msgspec.convert(given, NewLimits)


def render_limit(row: Mapping[str, Any]) -> Iterator[str]:
    """Yield an account as lines: whether it is stopped, and each limit with its usage and the time of its reset."""
    limits, used = row["limits"], row["used"]
    yield f"{row['scope']}{', stopped: ' if limits.get('stopped') else ''}{one_line(limits.get('stopped') or '')}"
    for name, end in COUNTED.items():
        most, has = limits.get(name), used.get(USED.get(name, name), 0)
        if most is None and not has:
            continue
        if most is None:
            yield clean_line(f"  {name:20} {_number(name, has)}, no limit")
            continue
        counted = name != "messages_per_minute"
        count = f"{_number(name, has)} of " if counted else ""
        mine = "" if row["given"].get(name) is not None else ", by default"
        until = f", until {row[end][:16]}Z" if end and counted else ""
        yield clean_line(f"  {name:20} {count}{_number(name, most)}{mine}{until}")


def _number(name: str, value: float) -> str:
    return f"${value:,.2f}" if name.startswith("usd") else f"{value:,}"
