"""The `stepline` command: the local stage, stages in AWS, and their conversations.

Each command imports its modules when it runs, so that `--help` and `status` answer at once.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
from click.core import ParameterSource

from stepline.local.command import cloud
from stepline.local.command.argument import (
    Login,
    bundle_option,
    check_origins,
    conversation_option,
    json_option,
    login_options,
    new_option,
    parse_bundles,
    text_option,
)
from stepline.local.command.bundle import bundle
from stepline.local.command.content.export import export
from stepline.local.command.content.files import files
from stepline.local.command.content.fork import fork
from stepline.local.command.content.replay import replay
from stepline.local.command.content.workspace import workspace
from stepline.local.command.conversations import (
    approve,
    check_exists,
    conversations,
    deny,
    edit,
    event,
    feedback,
    log,
    send,
    token,
    watch,
)
from stepline.local.command.door.serve import serve
from stepline.local.command.evaluate import evaluations
from stepline.local.command.event_source import event_source
from stepline.local.command.failure import Edge
from stepline.local.command.function_log import logs
from stepline.local.command.knowledge_space import knowledge
from stepline.local.command.memory import memory
from stepline.local.command.new import new
from stepline.local.command.proof.prove import prove
from stepline.local.command.secrets import secrets
from stepline.local.command.tenancy.cost import cost
from stepline.local.command.tenancy.erasing import delete, erasures, export_user
from stepline.local.command.tenancy.limits import limits
from stepline.local.command.tenancy.moving import move_in
from stepline.local.terminal.output import print_result, progress, render_status


@click.group(cls=Edge, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="stepline", message="%(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Run the agent, on this machine or in AWS, and talk to it."""
    from stepline.local.install.project import lay_out
    from stepline.local.stage.deployed import REPOSITORY

    if context.invoked_subcommand != serve.name:  # which may run where nothing can be written
        lay_out(REPOSITORY)


@main.command()
@click.option(
    "--bundle",
    "bundles",
    default=("bundles.default",),
    envvar="STEPLINE_BUNDLE",
    show_envvar=True,
    show_default=True,
    multiple=True,
    metavar="[NAME=]MODULE",
    help="The agent, a module of this folder; with a name, one that a conversation may choose.",
)
@text_option(
    "--model",
    metavar="NAME|URL",
    help="The model of every role, as `openai:gpt-5.5`, or the address of a server of chat completions.",
)
@click.option(
    "--app",
    "app_folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="The folder of a CDK app of yours with a stepline_cdk.Agent; its bundle is the agent's.",
)
@text_option(
    "--agent", metavar="PATH", help="Of that app: the construct to run, as Shop/Agent; default: the first."
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    callback=check_origins,
    metavar="URL",
    help="The origin of a web page of yours that may call, as `http://localhost:5173`; may be repeated.",
)
@json_option
def up(
    *,
    bundles: tuple[str, ...],
    model: str,
    app_folder: Path | None,
    agent: str,
    origins: tuple[str, ...],
    as_json: bool,
) -> None:
    """Start the local stage, or update it.

    Each bundle is checked before the deployment. The default is the bundle of the runtime. --bundle NAME=MODULE adds a
    bundle for `send --bundle NAME` and may be repeated; a checkout has `docs`, which answers from its documents.
    """
    from stepline.local.install.extra import check_extra

    module, further = parse_bundles(bundles)
    check_extra()  # before the imports of the stage, and before any service starts
    from stepline.local.stage import lifecycle
    from stepline.local.stage.own_app import take_app
    from stepline.local.stage.program_environment import requested_mode

    requested_mode()
    if agent and not app_folder:
        raise click.UsageError("--agent is of an app: name its folder with --app")
    if app_folder and _is_typed("bundles"):
        raise click.UsageError(
            "--app and --bundle: got both, takes one: the app says which bundles its agent has"
        )
    app = take_app(app_folder, agent) if app_folder else None
    stage = lifecycle.start_stage(
        progress, bundle=module, further=further, model=model, app=app, origins=origins
    )
    progress(f"ready at {stage.socket_url}")
    if as_json:
        click.echo(render_status(lifecycle.stage_status()))


def _is_typed(parameter: str) -> bool:
    """Return True if an option is in the command line, not in the environment."""
    return click.get_current_context().get_parameter_source(parameter) is ParameterSource.COMMANDLINE


@main.command()
@json_option
def down(as_json: bool) -> None:
    """Stop the local stage; conversations are kept.

    The next `up` resumes a turn that is still running.
    """
    from stepline.local.stage import lifecycle

    if not lifecycle.down(progress):
        progress("the emulator was killed; conversations are kept, the latest logs of its functions are lost")
    progress("stopped")
    if as_json:
        click.echo(render_status(lifecycle.stage_status()))


@main.command()
@json_option
def status(as_json: bool) -> None:
    """Show the services of the local stage and their addresses.

    The exit code is 1 unless all of them run.
    """
    from stepline.local.stage import lifecycle

    found = lifecycle.stage_status()
    if as_json:
        click.echo(render_status(found))
    else:
        for name, running in found.services.items():
            click.echo(f"{name:10} {'running' if running else 'stopped'}")
        if found.stage:
            click.echo(f"{'bundle':10} {found.stage.bundle}")
            for name, module in found.stage.bundles.items():
                click.echo(f"{'':10} {module}, as {name}")
            if found.stage.exec_mode:
                click.echo(f"{'programs':10} mode {found.stage.exec_mode}")
        click.echo(f"{'socket':10} {found.stage.socket_url if found.stage else 'nothing is deployed'}")
        if found.stage and found.stage.page_url:
            click.echo(f"{'address':10} {found.stage.page_url}/")
    sys.exit(0 if found.up else 1)


@main.command()
@json_option
def page(as_json: bool) -> None:
    """Print the address that opens the chat page, and open it.

    The address contains the key that signs in to the stage: keep it secret. The page is opened on a desktop, but not
    from a pipe, in CI, or over SSH.
    """
    from stepline.local.caller import find_stage
    from stepline.local.desktop import open_secret
    from stepline.local.stage.deployed import HOME
    from stepline.local.stage.issuer.owner_key import page_address

    address = page_address(find_stage().issuer_url, HOME)
    print_result({"page": address}, address, as_json=as_json)
    if not as_json:
        open_secret(address, HOME)


@main.command()
@click.option("--aws", is_flag=True, help="Check an AWS account instead of this machine.")
@text_option("--stage", metavar="NAME", help="With --aws: check this deployed stage, too.")
@cloud.profile_option
@cloud.region_option
@json_option
def doctor(*, aws: bool, stage: str, profile: str, region: str, as_json: bool) -> None:
    """Check the requirements of the local stage, or an AWS account.

    Each problem is followed by its remedy. A line that begins with `off`, `warn` or `unknown` is not a failure.
    The exit code is 1 if a line begins with `NO`.
    """
    from stepline.local.terminal.json_lines import render_json_line

    if (stage or profile or region) and not aws:
        raise click.UsageError("--stage, --profile and --region need --aws")
    if aws:
        found = cloud.check_cloud(stage, profile, region)
    else:
        from stepline.local.command.doctor import check_requirements as checks

        found = checks()
    for check in found:
        if as_json:
            click.echo(render_json_line(check.as_json()))
            continue
        click.echo(f"{check.mark:7} {check.name:14} {check.detail}")
        if check.remedy:
            click.echo(f"{'':22} → {check.remedy}")
    sys.exit(0 if all(check.ok for check in found) else 1)


@main.command()
@conversation_option
@new_option
@bundle_option
@login_options
@click.option("--open", "opens", is_flag=True, help="Open the chat page, too, on a desktop.")
@json_option
def chat(*, conversation: str, new: bool, bundle: str, login: Login, opens: bool, as_json: bool) -> None:
    """Talk to the agent, on a terminal or from a pipe.

    A terminal has a prompt; a pipe has one message per line. Without --conversation the last one is
    continued, if it has the --bundle; /new or --new starts another one, /help lists the commands.

    While the agent works, a typed line is part of its next step; /steer TEXT interrupts it, and /stop or
    Ctrl-C ends the turn. Lines that the agent did not read return to the prompt. At the prompt, Ctrl-C clears the line;
    on an empty line, a second Ctrl-C leaves.

    With --json a terminal is read like a pipe. From a pipe the exit code is 0 if the last turn completed,
    else 1.
    """
    from stepline.local.conversation import new_conversation
    from stepline.local.terminal.chat import run_chat

    caller = login.caller(bundle)
    if new:
        conversation = conversation or new_conversation()
    elif conversation:
        check_exists(caller, conversation)
    if caller.page_address and not as_json and sys.stdin.isatty() and sys.stdout.isatty():
        from stepline.local.desktop import open_secret

        progress(f"the chat page is at {caller.page_address}")
        if opens:
            open_secret(caller.page_address, caller.home)
    sys.exit(run_chat(caller, conversation, as_json=as_json))


for command in (
    *(new, bundle, send, event, approve, deny, edit, feedback, watch, log, conversations, logs, token),
    *(event_source, export, files, fork, cost, limits, export_user, move_in, delete, erasures, workspace),
    *(replay, evaluations, prove, knowledge, memory, secrets, serve),
    *(cloud.deploy, cloud.restore, cloud.rollback, cloud.destroy, cloud.find_agent),
):
    main.add_command(command)
