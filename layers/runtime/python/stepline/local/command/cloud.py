"""CLI commands for stages in AWS: deploy, restore, roll back, destroy, and the checks of an account."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

import click

from stepline.local.command.argument import (
    ask_user,
    check_text,
    confirm,
    environment_token,
    json_option,
    text_option,
    yes_option,
)
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from stepline.local.check import Check
    from stepline.local.cloud.deploy import Desk, Order
    from stepline.local.cloud.deployment import Deployment

stage_argument = click.option(
    "--stage", required=True, callback=check_text, metavar="NAME", help="The stage, for example dev or prod."
)
profile_option = text_option(
    "--profile", metavar="NAME", help="AWS profile; default: that of the last deployment."
)
region_option = text_option(
    "--region", metavar="REGION", help="AWS region; default: that of the last deployment, then yours."
)

CI_SERVICES = ("github", "gitlab", "bitbucket", "circleci")
"""The services of `--print-ci-role`; `local/cloud/role/ci_role.py` has their tokens."""

smoke_option = click.option("--no-smoke", is_flag=True, help="Do not run a turn at the end.")


def order_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command on a stage in AWS its `order` from its options, and `yes` to skip its questions."""

    @wraps(command)
    def wrapped(*, stage: str, profile: str, region: str, yes: bool, **given: Any) -> None:
        from stepline.local.cloud.deploy import Order
        from stepline.local.cloud.deployment import check_stage

        order = Order(stage=check_stage(stage), profile=profile, region=region, token=environment_token())
        command(order=order, yes=yes, **given)

    return profile_option(region_option(yes_option(wrapped)))


@click.command()
@stage_argument
@click.option(
    "-c", "choices", multiple=True, metavar="KEY=VALUE", help="A choice of the stage; KEY= is its default."
)
@order_options
@smoke_option
@json_option
@click.option(
    "--print-ci-role",
    "service",
    type=click.Choice(CI_SERVICES),
    help="Print a CloudFormation template of a role by which CI deploys this stage, and deploy nothing.",
)
@text_option(
    "--repository", metavar="NAME", help="Of that CI: the repository, as docs/how-to/deploy.md writes it."
)
@text_option("--branch", metavar="NAME", help="Of that CI: the only branch that may deploy.")
@text_option("--environment", metavar="NAME", help="Of that CI: the only environment that may deploy.")
def deploy(
    *,
    order: Order,
    choices: tuple[str, ...],
    yes: bool,
    no_smoke: bool,
    as_json: bool,
    service: str | None,
    repository: str,
    branch: str,
    environment: str,
) -> None:
    """Deploy a stage to an AWS account, or update it.

    Choices are written to stages/NAME.toml, so the next time `--stage NAME` is enough; docs/reference/choices.md lists them.
    The turn at the end uses STEPLINE_TOKEN if it is set, else a temporary user of the stage's pool. The exit code is 0 on success, 3 if the
    stage is deployed but its first turn failed, else 1.
    """
    from msgspec.structs import replace

    from stepline.local.cloud import deploy as cloud
    from stepline.local.cloud.deployment import parse_choices

    order = replace(order, choices=parse_choices(choices), smoke=not no_smoke)
    if service:
        _print_ci_role(order, service, repository, branch, environment)
        return
    _finish(*cloud.deploy_stage(order, make_desk(yes=yes)), as_json=as_json)


@click.command()
@stage_argument
@text_option("--at", metavar="TIME", help="Such as 2026-11-26T07:00:00Z; default: the latest possible time.")
@text_option("--from", "source", metavar="TABLE", help="The table to restore; default: that of the stage.")
@order_options
@smoke_option
@json_option
def restore(*, order: Order, at: str, source: str, yes: bool, no_smoke: bool, as_json: bool) -> None:
    """Restore a stage to an earlier time, on a new table.

    The stage loses the messages since then; its current table is kept. Conversations deleted since then are deleted again.
    After a failure, run the command again with the same --at. The exit codes are those of deploy.
    """
    from msgspec.structs import replace

    from stepline.adapters.system import SystemClock
    from stepline.local.cloud import restore_stage

    order = replace(order, smoke=not no_smoke)
    restored = restore_stage.restore_deployment(order, at, source, make_desk(yes=yes), SystemClock())
    _finish(*restored, as_json=as_json)


@click.command()
@stage_argument
@order_options
@json_option
def rollback(*, order: Order, yes: bool, as_json: bool) -> None:
    """Return to the versions that a deployment replaced.

    Those of before the last deployment serve again within seconds; resources and the page stay as they are. The versions
    remain for a day after a deployment; after it, deploy the previous release instead. The command may be repeated.
    """
    from stepline.local.cloud.rollback import roll_stage_back
    from stepline.local.terminal.json_lines import render_json_line

    moved = roll_stage_back(order, make_desk(yes=yes))
    if as_json:
        click.echo(render_json_line({"stage": order.stage, "versions": moved}))


@click.command()
@stage_argument
@order_options
@json_option
def destroy(*, order: Order, yes: bool, as_json: bool) -> None:
    """Delete a deployed stage.

    Resources that are kept are listed with the commands that delete them. A stage with keep_data keeps its table, bucket
    and users, which is the default of every stage but `dev`; one without loses them.
    """
    from stepline.local.cloud.destroy import destroy as destroy_stage
    from stepline.local.terminal.json_lines import render_json_line

    def confirm_name(name: str) -> bool:
        return yes or ask_user(f"type the stage's name to delete it [{name}]") == name

    commands = destroy_stage(order, make_desk(yes=yes), confirm_name)
    click.echo(f"stage {order.stage} is destroyed", err=True)
    if as_json:
        click.echo(render_json_line({"stage": order.stage, "left": commands}))
        return
    if commands:
        click.echo("delete the resources that are kept with:", err=True)
    for command in commands:
        click.echo(command)


@click.command("find")
@click.option(
    "--stack", required=True, callback=check_text, metavar="NAME", help="The stack that has the agent."
)
@text_option("--agent", metavar="PATH", help="Of several: the path of the construct within the stack.")
@profile_option
@region_option
@json_option
def find_agent(*, stack: str, agent: str, profile: str, region: str, as_json: bool) -> None:
    """Find the agent in a stack of your own CDK app.

    It is found by the stack's outputs. This machine remembers it as the stage whose name is printed: `chat`, `doctor`, `rollback`,
    `secrets` and other commands take it as --stage.
    """
    import msgspec

    from stepline.adapters.system import SystemClock
    from stepline.local.cloud.account import open_account
    from stepline.local.cloud.deployed_agent import find_deployed_agent
    from stepline.local.cloud.deployment import save_found
    from stepline.local.stage.deployed import HOME
    from stepline.local.terminal.output import print_result

    found = find_deployed_agent(
        open_account(profile, region), stack, agent, SystemClock().now().isoformat(timespec="seconds")
    )
    save_found(HOME, found)
    print_result(msgspec.to_builtins(found), f"--stage {found.stage}", as_json=as_json)


def _print_ci_role(order: Order, service: str, repository: str, branch: str, environment: str) -> None:
    """Print the template for the stage with the choices of its file and of the command. Asks AWS nothing."""
    from stepline.local.cloud.deployment import load_deployment
    from stepline.local.cloud.program.child import run
    from stepline.local.cloud.role.caller_rights import StagePlace
    from stepline.local.cloud.role.ci_role import read_trust, render_ci_role
    from stepline.local.cloud.stage_choices import ask_app
    from stepline.local.stage.deployed import HOME, PROJECT_FOLDER

    trust = read_trust(service, repository, branch, environment)
    known = load_deployment(HOME, order.stage)
    chosen = ask_app(run, order.stage, order.choices, project=PROJECT_FOLDER)
    place = StagePlace(
        stage=order.stage,
        context={**(known.context if known else {}), **chosen.values},
        outputs=known.outputs if known else {},
    )
    click.echo(render_ci_role(place, trust))


def check_cloud(stage: str, profile: str, region: str) -> list[Check]:
    """Return the checks of an account, and those of a stage if one is named."""
    from stepline.local.cloud.account import open_account
    from stepline.local.cloud.deployment import check_stage, load_deployment
    from stepline.local.cloud.health import health
    from stepline.local.cloud.program.child import run
    from stepline.local.cloud.readiness import readiness
    from stepline.local.cloud.stage_choices import find_choices
    from stepline.local.stage.deployed import HOME, PROJECT_FOLDER

    known = load_deployment(HOME, check_stage(stage)) if stage else None
    account = open_account(
        profile or (known.profile if known else ""), region or (known.region if known else "")
    )
    context = known.context if known else None
    is_ours = stage and not (known and known.stack)  # the choices of an agent are in its app
    chosen = find_choices(run, stage, project=PROJECT_FOLDER, context=context) if is_ours else None
    ready = readiness(account, stage, chosen, expected=known.account if known else "")
    if not stage or not ready[0].ok:
        return ready
    return [*ready, *health(account, stage, known)]


def _finish(deployment: Deployment, code: int, *, as_json: bool) -> NoReturn:
    import msgspec

    from stepline.local.terminal.json_lines import render_json_line

    if as_json:
        click.echo(render_json_line(msgspec.to_builtins(deployment)))
    sys.exit(code)


def make_desk(*, yes: bool) -> Desk:
    """Return the place of a command on a stage in AWS; with `yes` its questions are answered."""
    from stepline.local.install.extra import check_extra

    check_extra()
    from stepline.local.cloud.deploy import Desk
    from stepline.local.stage.deployed import HOME

    return Desk(home=HOME, confirm=lambda question: yes or confirm(question), say=progress)
