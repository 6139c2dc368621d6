"""The `stepline` command: the local stage up and down, stages in AWS, and the conversations on them.

Each command imports what it needs when it runs, so that `--help` and `status` answer at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

import click

from stepline.errors import SteplineError
from stepline.local.argument import parse_have, parse_payload
from stepline.local.cloud import command as cloud
from stepline.local.export import export
from stepline.local.output import make_view, progress, shower

if TYPE_CHECKING:
    from stepline.local.caller import Caller

conversation_option = click.option(
    "--conversation", default="", metavar="ID", help="Go on in this conversation."
)
user_option = click.option(
    "--user",
    default="",
    metavar="NAME",
    help="Speak as this user of the local stage; default: your login name.",
)
stage_option = click.option(
    "--stage", default="", metavar="NAME", help="Speak to this deployed stage, as whom STEPLINE_TOKEN says."
)
token_option = click.option(
    "--token-command", default="", metavar="CMD", help="A command that prints a token, for --stage."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")


class Edge(click.Group):
    """Turns our errors into one line and exit code 1."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except SteplineError as error:
            fail(f"{error.reason}: {error}")


@click.group(cls=Edge)
@click.version_option(package_name="stepline", message="%(version)s")
def main() -> None:
    """Run the agent, on this machine or in AWS, and talk to it."""


@main.command()
def up() -> None:
    """Start the emulator and deploy the app on it; at once if nothing has changed."""
    from stepline.local import lifecycle

    stage = lifecycle.up(progress)
    progress(f"ready at {stage.socket_url}")


@main.command()
def down() -> None:
    """Stop everything; conversations are kept, and a turn that still runs is taken over by the next `up`."""
    from stepline.local import lifecycle

    if not lifecycle.down(progress):
        fail("the emulator had to be killed; what it held since its start may be lost")
    progress("stopped")


@main.command()
@json_option
def status(as_json: bool) -> None:
    """Say what runs, and where; exit code 1 unless all of it does."""
    import msgspec

    from stepline.local import lifecycle

    found = lifecycle.status()
    if as_json:
        click.echo(msgspec.json.encode({"up": found.up, "services": found.services, "stage": found.stage}))
    else:
        for name, running in found.services.items():
            click.echo(f"{name:10} {'running' if running else 'stopped'}")
        click.echo(f"{'socket':10} {found.stage.socket_url if found.stage else 'nothing is deployed'}")
    sys.exit(0 if found.up else 1)


@main.command()
@click.option("--aws", is_flag=True, help="Check an AWS account instead of this machine.")
@click.option("--stage", default="", metavar="NAME", help="With --aws: also a stage that is deployed there.")
@cloud.profile_option
@cloud.region_option
def doctor(aws: bool, stage: str, profile: str, region: str) -> None:
    """Check what the local stage needs, or an AWS account, and say how to mend what is missing.

    A line that begins with `warn` or `unknown` stops nothing. Exit code 1 if one begins with `NO`.
    """
    if (stage or profile or region) and not aws:
        raise click.UsageError("--stage, --profile and --region go with --aws")
    if aws:
        found = cloud.check_cloud(stage, profile, region)
    else:
        from stepline.local.doctor import doctor as checks

        found = checks()
    for check in found:
        click.echo(f"{check.mark:7} {check.name:14} {check.detail}")
        if check.remedy:
            click.echo(f"{'':22} → {check.remedy}")
    sys.exit(0 if all(check.ok for check in found) else 1)


@main.command()
@conversation_option
@user_option
@stage_option
@token_option
def chat(*, conversation: str, user: str, stage: str, token_command: str) -> None:
    """Talk to the agent: a prompt on a terminal, a message a line from a pipe.

    Without --conversation the last one goes on; /new begins another.

    While the agent works, a line that is typed is heard with what it does next; /steer TEXT interrupts it, and /stop or
    Ctrl-C ends the turn. What it does not hear of any more comes back to the prompt. A second Ctrl-C leaves.

    From a pipe the exit code is 0 if the last turn completed, else 1.
    """
    from stepline.local.caller import sessions
    from stepline.local.chat import Chat
    from stepline.local.keyboard import Pipe, Terminal

    caller = the_caller(stage, user, token_command)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    keyboard = Terminal() if interactive else Pipe(iter(sys.stdin))
    talk = Chat(sessions(caller), make_view(interactive), keyboard, user=caller.user, home=caller.home)
    sys.exit(talk.run(conversation))


@main.command()
@click.argument("text")
@conversation_option
@user_option
@stage_option
@token_option
@json_option
def send(*, text: str, conversation: str, user: str, stage: str, token_command: str, as_json: bool) -> None:
    """Send one message and wait for its answer.

    With --json every durable event (with its `n` and `prev`) and every piece of running text (by `off`) is one
    line, and the turn's end is the one with `"terminal": true`. Exit code 0 if the turn completed, else 1.
    """
    from stepline.local.caller import sessions
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import ask, new_conversation

    state = ClientState(conversation=conversation or new_conversation())
    with sessions(the_caller(stage, user, token_command))(state) as session:
        if conversation:
            session.join()
        completed = ask(session, session.effects(), text, shower(as_json))
    if not as_json and not conversation:
        progress(f"go on with: stepline send --conversation {state.conversation} …")
    sys.exit(0 if completed else 1)


@main.command()
@click.argument("kind")
@click.option(
    "--payload", default="{}", metavar="JSON", help="What it says: an object; `text` in it is its text."
)
@click.option("--reactive/--quiet", default=None, help="Whether it asks for an answer; default: by its kind.")
@conversation_option
@user_option
@stage_option
@token_option
@json_option
def event(
    *,
    kind: str,
    payload: str,
    reactive: bool | None,
    conversation: str,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Tell a conversation of an event: a form, a wizard's step, an alert, a steer, a stop, or any other kind.

    Waits until no turn is running. Exit code 0 if it was taken and the turn, if there was one, completed, else 1.
    """
    from stepline.local.caller import sessions
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import new_conversation, settle

    said = parse_payload(payload)
    state = ClientState(conversation=conversation or new_conversation())
    with sessions(the_caller(stage, user, token_command))(state) as session:
        if conversation:
            session.join()
        message_id = session.tell(kind, said, reactive=reactive)
        completed = settle(session, session.effects(), message_id, shower(as_json))
    if not as_json and not conversation:
        progress(f"go on with: stepline send --conversation {state.conversation} …")
    sys.exit(0 if completed else 1)


@main.command()
@click.argument("conversation")
@click.option("--after", default=0, metavar="N", help="Begin after this event number.")
@click.option("--have", multiple=True, metavar="CLAIM/LANE=CHARS", help="Running text that is there already.")
@user_option
@stage_option
@token_option
@json_option
def watch(
    *,
    conversation: str,
    after: int,
    have: tuple[str, ...],
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Show what happened in a conversation since an event, and go on until no turn is running.

    Under each answer stands what its turn consumed.

    With --have, running text begins where an earlier `send --json` was cut off.
    """
    from stepline.local.caller import sessions
    from stepline.local.client.state import ClientState, LaneText
    from stepline.local.conversation import watch as follow

    pieces = [parse_have(text) for text in have]
    claim = max((piece.claim for piece in pieces), default=0)
    lanes = {piece.lane: LaneText(base=piece.chars) for piece in pieces if piece.claim == claim}
    state = ClientState(conversation=conversation, cursor=after, claim=claim, lanes=lanes)
    with sessions(the_caller(stage, user, token_command))(state) as session:
        completed = follow(session, session.effects(), shower(as_json, usage=True))
    sys.exit(0 if completed else 1)


@main.command()
@click.argument("conversation")
@click.option("--after", default=0, metavar="N", help="Begin after this batch.")
@json_option
def log(conversation: str, after: int, as_json: bool) -> None:
    """Print the log of a conversation from the table: its batches, with --json whole and one a line."""
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.logview import open_log, read_batches, render_batch, render_summary
    from stepline.local.record import render_json
    from stepline.model.ids import make_lane

    batches = read_batches(*open_log(find_stage()), make_lane(TENANT, PROJECT, conversation), after=after)
    for batch in batches:
        lines = [render_json(render_batch(batch))] if as_json else render_summary(batch)
        for line in lines:
            click.echo(line)
    if not batches and not after:
        fail(f"no conversation {conversation}")


for command in (cloud.deploy, cloud.destroy, export):
    main.add_command(command)


def the_caller(stage: str, user: str, token_command: str) -> Caller:
    """Return who calls, by the options of a command and the environment's token."""
    from stepline.local.caller import find_caller

    return find_caller(stage, user, token=cloud.environment_token(), token_command=token_command)


def fail(text: str) -> NoReturn:
    """End with an error."""
    click.echo(f"error: {text}", err=True)
    sys.exit(1)
