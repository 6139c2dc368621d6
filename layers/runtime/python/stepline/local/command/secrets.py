"""`stepline secrets`: set, list and remove the secrets of a stage's tools."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from stepline.errors import InputError
from stepline.local.command.argument import check_text, json_option, text_option
from stepline.local.command.cloud import profile_option, region_option

if TYPE_CHECKING:
    from stepline.local.secret_desk import SecretDesk

name_argument = click.argument("name", callback=check_text)
owner_option = text_option(
    "--bundle",
    metavar="NAME",
    help="The secret of this bundle, `default` for the stage's own; without it, of the deployment.",
)


def desk_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the `desk` of its stage."""

    @click.option(
        "--stage", default="local", show_default=True, callback=check_text, metavar="NAME", help="The stage."
    )
    @profile_option
    @region_option
    @wraps(command)
    def wrapped(*, stage: str, profile: str, region: str, **given: Any) -> None:
        command(desk=_open_desk(stage, profile, region), **given)

    return wrapped


@click.group()
def secrets() -> None:
    """Set the secrets that tools and MCP servers read."""


@secrets.command("set")
@name_argument
@owner_option
@desk_options
@json_option
def set_secret(*, name: str, bundle: str, desk: SecretDesk, as_json: bool) -> None:
    """Set a secret to a text from standard input.

    A terminal asks for it and does not show it; from a pipe, all of standard input is the value, without its last line
    break. Functions read a new value within five minutes. The names that tools use: `get_secret("crm.token")`, and
    with --bundle `get_secret("b:crm.token")`.
    """
    from stepline.local.secret_desk import check_secret_name, check_secret_owner, render_owner
    from stepline.local.terminal.output import print_result

    check_secret_name(name)  # before a person types the value
    check_secret_owner(bundle)
    changed = bool(desk.put(bundle, {name: _read_value()}))
    said = f"{'set' if changed else 'unchanged:'} {name} {render_owner(bundle)}"
    print_result({"bundle": bundle, "name": name, "changed": changed}, said, as_json=as_json)


@secrets.command("list")
@desk_options
@json_option
def list_secrets(*, desk: SecretDesk, as_json: bool) -> None:
    """List the names of all secrets of a stage, with the time when each was set; never a value."""
    import msgspec

    from stepline.local.terminal.json_lines import render_json_line

    for row in desk.rows():
        if as_json:
            click.echo(render_json_line(msgspec.to_builtins(row)))
        else:
            click.echo(f"{row.bundle or '-':16} {row.name:40} {row.set_at}")


@secrets.command("remove")
@name_argument
@owner_option
@desk_options
@json_option
def remove_secret(*, name: str, bundle: str, desk: SecretDesk, as_json: bool) -> None:
    """Remove a secret. Functions may use it for five more minutes."""
    from stepline.local.secret_desk import render_owner
    from stepline.local.terminal.output import print_result

    desk.remove(bundle, name)
    said = f"removed {name} {render_owner(bundle)}"
    print_result({"bundle": bundle, "name": name}, said, as_json=as_json)


def _open_desk(stage: str, profile: str, region: str) -> SecretDesk:
    """Return the secrets of the local stage, or of one in the account where it was deployed."""
    from stepline.adapters.system import SystemClock
    from stepline.local.secret_desk import SecretDesk
    from stepline.local.stage.deployed import LOCAL_STAGE

    if stage == LOCAL_STAGE:
        from stepline.local.caller import find_stage
        from stepline.local.stage.deployed import client

        return SecretDesk(client("secretsmanager", find_stage()), stage, SystemClock())
    from stepline.local.cloud.deploy import Order, find_deployment
    from stepline.local.cloud.deployment import check_stage
    from stepline.local.command.cloud import make_desk

    order = Order(stage=check_stage(stage), profile=profile, region=region)
    account, _ = find_deployment(order, make_desk(yes=False), in_any_app=True)
    return SecretDesk(account.client("secretsmanager"), stage, SystemClock())


def _read_value() -> str:
    if sys.stdin.isatty():
        value = str(click.prompt("value", hide_input=True, err=True))
    else:
        try:
            value = sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
        except UnicodeDecodeError:
            raise InputError("the value is no UTF-8 text", code="bad_secret") from None
    if not value:
        raise InputError("the value is empty: standard input has the secret", code="bad_secret")
    return value
