"""CLI commands for stages in AWS: deploy, restore, destroy, and the checks of an account."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from stepline.errors import InputError
from stepline.local.command.argument import json_option
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from stepline.local.check import Check
    from stepline.local.cloud.deploy import Desk

stage_argument = click.option(
    "--stage", required=True, metavar="NAME", help="The stage, for example dev or prod."
)
profile_option = click.option(
    "--profile", default="", metavar="NAME", help="AWS profile; default: the one of the last time."
)
region_option = click.option(
    "--region", default="", metavar="REGION", help="AWS region; default: that of the last time, then yours."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@stage_argument
@click.option(
    "-c", "choices", multiple=True, metavar="KEY=VALUE", help="A choice of the stage; KEY= forgets it."
)
@profile_option
@region_option
@yes_option
@click.option("--no-smoke", is_flag=True, help="Do not try a turn at the end.")
@json_option
def deploy(
    *,
    stage: str,
    choices: tuple[str, ...],
    profile: str,
    region: str,
    yes: bool,
    no_smoke: bool,
    as_json: bool,
) -> None:
    """Deploy a stage to an AWS account, or update it.

    Choices are remembered, so that the next time `--stage NAME` is enough; docs/how-to/deploy.md lists them.
    With STEPLINE_TOKEN set, the turn at the end uses that token; otherwise a user of the stage's pool is
    created for it. Exit code 0 on success, 3 if the stage is deployed but its first turn failed, else 1.
    """
    import msgspec

    from stepline.local.cloud import deploy as cloud
    from stepline.local.cloud.deployment import check_stage, parse_choices
    from stepline.local.terminal.json_lines import render_json

    order = cloud.Order(
        stage=check_stage(stage),
        choices=parse_choices(choices),
        profile=profile,
        region=region,
        smoke=not no_smoke,
        token=environment_token(),
    )
    deployment, code = cloud.deploy(order, _desk(yes=yes))
    if as_json:
        click.echo(render_json(msgspec.to_builtins(deployment)))
    sys.exit(code)


@click.command()
@stage_argument
@click.option(
    "--at", default="", metavar="TIME", help="2026-11-26T07:00:00Z; default: the latest time there is."
)
@click.option(
    "--from", "source", default="", metavar="TABLE", help="A table; default: the one that the stage uses."
)
@profile_option
@region_option
@yes_option
@click.option("--no-smoke", is_flag=True, help="Do not try a turn at the end.")
@json_option
def restore(
    *,
    stage: str,
    at: str,
    source: str,
    profile: str,
    region: str,
    yes: bool,
    no_smoke: bool,
    as_json: bool,
) -> None:
    """Take a stage back to an earlier time, on a new table.

    What was said since is lost to the stage; the table that it uses now stays. What was deleted since is deleted again. It may
    be run again after a failure, with the same --at. Exit codes are those of deploy.
    """
    import msgspec

    from stepline.adapters.system import SystemClock
    from stepline.local.cloud.deploy import Order
    from stepline.local.cloud.deployment import check_stage
    from stepline.local.cloud.restoring import restore_stage
    from stepline.local.terminal.json_lines import render_json

    order = Order(
        stage=check_stage(stage),
        profile=profile,
        region=region,
        smoke=not no_smoke,
        token=environment_token(),
    )
    deployment, code = restore_stage.restore(order, at, source, _desk(yes=yes), SystemClock())
    if as_json:
        click.echo(render_json(msgspec.to_builtins(deployment)))
    sys.exit(code)


@click.command()
@stage_argument
@profile_option
@region_option
@yes_option
@json_option
def destroy(*, stage: str, profile: str, region: str, yes: bool, as_json: bool) -> None:
    """Delete a deployed stage.

    Retained resources are listed with the commands that delete them. Stage `prod` keeps its table, bucket and
    users; every other stage loses them.
    """
    from stepline.local.cloud.deploy import Order
    from stepline.local.cloud.deployment import check_stage
    from stepline.local.cloud.destroy import destroy as take_away
    from stepline.local.terminal.json_lines import render_json

    def confirm_name(name: str) -> bool:
        return yes or bool(_ask(f"type the stage's name to delete it [{name}]") == name)

    order = Order(stage=check_stage(stage), profile=profile, region=region)
    commands = take_away(order, _desk(yes=yes), confirm_name)
    click.echo(f"stage {stage} is gone", err=True)
    if as_json:
        click.echo(render_json({"stage": stage, "left": commands}))
        return
    if commands:
        click.echo("what stayed is deleted with:", err=True)
    for command in commands:
        click.echo(command)


def check_cloud(stage: str, profile: str, region: str) -> list[Check]:
    """Return the checks of an account, and those of a stage if one is named."""
    from stepline.local.cloud.account import open_account
    from stepline.local.cloud.deployment import check_stage, load
    from stepline.local.cloud.health import health
    from stepline.local.cloud.readiness import readiness
    from stepline.local.stage.deployed import HOME

    known = load(HOME, check_stage(stage)) if stage else None
    account = open_account(
        profile or (known.profile if known else ""), region or (known.region if known else "")
    )
    ready = readiness(
        account, stage, known.context if known else None, expected=known.account if known else ""
    )
    if not stage or not ready[0].ok:
        return ready
    return [*ready, *health(account, stage)]


def environment_token() -> str:
    """Return the token in the caller's environment, or ""."""
    import os

    from stepline.local.cloud.child import TOKEN_VARIABLE

    return os.environ.get(TOKEN_VARIABLE, "")  # noqa: TID251 - the caller's, not a setting; in argv all could read it


def _desk(*, yes: bool) -> Desk:
    from stepline.local.cloud.deploy import Desk
    from stepline.local.stage.deployed import HOME

    def confirm(question: str) -> bool:
        return yes or _ask(f"{question} [y/N]").lower() in ("y", "yes")

    return Desk(home=HOME, confirm=confirm, say=progress)


def _ask(question: str) -> str:
    """Prompt for a line. Raises InputError `not_confirmed` if standard input is not a terminal."""
    if not sys.stdin.isatty():
        raise InputError(f"{question}: nobody can answer here; add --yes", code="not_confirmed")
    return str(click.prompt(question, default="", show_default=False, err=True)).strip()
