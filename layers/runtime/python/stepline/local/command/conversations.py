"""CLI commands for conversations: send, watch, list, print the log, and print a token for another client."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from stepline.errors import InputError, NotFoundError
from stepline.local.command.argument import (
    CURSOR,
    attach_option,
    bundle_option,
    check_kind,
    conversation_argument,
    conversation_option,
    json_option,
    new_option,
    parse_have,
    parse_payload,
    read_text,
    stage_option,
    token_option,
    user_option,
)
from stepline.local.command.cloud import environment_token
from stepline.local.command.failure import INTERRUPTED
from stepline.local.safe_text import one_line
from stepline.local.terminal.output import progress, shower
from stepline.ports.channel import ROLES, Role
from stepline.ports.log import Listing

if TYPE_CHECKING:
    from stepline.local.caller import Caller
    from stepline.local.client.session import Session
    from stepline.local.client.state import ClientState


@click.command()
@click.argument("text")
@attach_option
@conversation_option
@new_option
@bundle_option
@user_option
@stage_option
@token_option
@json_option
def send(
    *,
    text: str,
    attach: tuple[Path, ...],
    conversation: str,
    new: bool,
    bundle: str,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Send one message and wait for its answer.

    With --attach files come with it: each is uploaded and judged before, and if one is refused nothing is sent. A text of
    more than 32,000 characters goes as a file, too. TEXT may be - to read it from standard input. With --bundle another agent of the stage answers; a conversation keeps
    the one that its first message chose. Ctrl-C ends the wait, not the turn.

    With --json every durable event (with its `n` and `prev`) and every piece of running text (by `off`) is one
    line, and the turn's end is the one with `"terminal": true`. Exit code 0 if the turn came to an answer, else 1; also 1 if
    it asks for an approval: then approve, deny or edit goes on.
    """
    said, caller = read_text(text), find_caller(stage, user, token_command, bundle)
    _tell(
        lambda session: _say(session, caller, said, attach),
        caller,
        stage=stage,
        conversation=conversation,
        new=new,
        as_json=as_json,
    )


@click.command()
@click.argument("kind", callback=check_kind)
@click.option(
    "--payload", default="{}", metavar="JSON", help="What it says: an object; `text` in it is its text."
)
@click.option("--reactive/--quiet", default=None, help="Whether it asks for an answer; default: by its kind.")
@conversation_option
@new_option
@bundle_option
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
    new: bool,
    bundle: str,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Send an event to a conversation, and wait for its turn.

    KIND is form, wizard, alert, steer, stop, or any other. Waits until no turn is running; Ctrl-C ends the
    wait, not the turn. Exit code 0 if the event was accepted and the turn, if there was one, completed, else
    1.
    """
    said = parse_payload(payload)
    _tell(
        lambda session: session.tell(kind, said, reactive=reactive),
        find_caller(stage, user, token_command, bundle),
        stage=stage,
        conversation=conversation,
        new=new,
        as_json=as_json,
    )


_call_option = click.option(
    "--call", default="", metavar="ID", help="Only if it is this call about which you are asked."
)


def _verdict(
    name: Literal["approve", "deny", "edit"], about: str, *options: Callable[[Any], Any]
) -> click.Command:
    """Return the command for one answer to a request for an approval."""

    def command(
        *,
        conversation: str,
        call: str,
        user: str,
        stage: str,
        token_command: str,
        as_json: bool,
        text: str = "",
        params: str = "{}",
    ) -> None:
        said: dict[str, Any] = {"text": text} if text else {}
        said |= {"payload": parse_payload(params, hint="--params")} if name == "edit" else {}
        caller = find_caller(stage, user, token_command)
        _answer(name, said, caller, stage=stage, conversation=conversation, call=call, as_json=as_json)

    command.__doc__ = about
    shared = (
        conversation_argument,
        *options,
        _call_option,
        user_option,
        stage_option,
        token_option,
        json_option,
    )
    for option in reversed(shared):
        command = option(command)
    return click.command(name)(command)


approve = _verdict(
    "approve",
    """Let the call run that waits for you, and wait for its turn.

    Exit code 0 if the turn came to an answer, else 1; also 1 if it asks about another call.
    """,
)
deny = _verdict(
    "deny",
    """Keep the call from running that waits for you.

    The agent reads --text, and its turn is waited for. Exit code as of approve.
    """,
    click.option("--text", default="", metavar="WORDS", help="Why not, for the agent."),
)
edit = _verdict(
    "edit",
    """Let the call that waits for you run with other parameters.

    --params are all of its parameters. The edited call has an id of its own. Exit code as of approve.
    """,
    click.option("--params", required=True, metavar="JSON", help="The parameters, an object."),
)


@click.command()
@conversation_argument
@click.argument("reaction", type=click.Choice(("ok", "not_ok", "neutral", "none")))
@click.option("--text", default="", metavar="WORDS", help="Why, up to 1,000 characters.")
@click.option("--turn", default="", metavar="ID", help="About this turn; default: the newest that has ended.")
@user_option
@stage_option
@token_option
@json_option
def feedback(
    *,
    conversation: str,
    reaction: str,
    text: str,
    turn: str,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Say what you think of an answer; none takes it back.

    It replaces what you said of that turn before, and the agent reads it. Exit code 1 if it was refused.
    """
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import confirm, parse_reaction

    caller = find_caller(stage, user, token_command)
    with _session(caller, ClientState(conversation=conversation), stage=stage) as session:
        _join(session)
        message_id = session.rate(parse_reaction(reaction), text, turn=turn)
        taken = confirm(session.effects(), message_id, shower(as_json, local=not stage))
    sys.exit(0 if taken else 1)


@click.command()
@conversation_argument
@click.option("--after", default=0, type=CURSOR, metavar="N", help="Begin after this event number.")
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
    """Show what happened, and follow until no turn is running.

    Below each answer is the usage of its turn. With --have, running text begins where an earlier
    `send --json` was cut off.
    """
    from stepline.local.client.state import ClientState, LaneText
    from stepline.local.conversation import watch as follow

    pieces = [parse_have(text) for text in have]
    claim = max((piece.claim for piece in pieces), default=0)
    lanes = {piece.lane: LaneText(base=piece.chars) for piece in pieces if piece.claim == claim}
    state = ClientState(conversation=conversation, cursor=after, claim=claim, lanes=lanes)
    with _session(find_caller(stage, user, token_command), state, stage=stage) as session:
        completed = follow(session, session.effects(), shower(as_json, usage=True, local=not stage))
    sys.exit(0 if completed else 1)


@click.command()
@conversation_argument
@click.option("--after", default=0, type=CURSOR, metavar="N", help="Begin after this batch.")
@json_option
def log(conversation: str, after: int, as_json: bool) -> None:
    """Print the log of a conversation from the table.

    Its batches, with --json whole and one a line.
    """
    from stepline.inspection.documents import render_batch
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log, read_batches, render_summary
    from stepline.local.terminal.json_lines import render_json
    from stepline.model.ids import make_lane

    batches = read_batches(*open_log(find_stage()), make_lane(TENANT, PROJECT, conversation), after=after)
    for batch in batches:
        lines = [render_json(render_batch(batch))] if as_json else render_summary(batch)
        for line in lines:
            click.echo(line)
    if not batches and not after:
        raise NotFoundError(f"no conversation {conversation}", code="conversation_not_found")


@click.command()
@user_option
@json_option
def conversations(user: str, as_json: bool) -> None:
    """List your conversations on the local stage, newest first.

    Each with the time of its last event, the state of its last turn, and its title. They are read from the
    table; the API of a deployed stage has no list of them.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.own_name import name_user
    from stepline.local.terminal.json_lines import render_json

    log, _ = open_log(find_stage())
    for listing in log.conversations(TENANT, PROJECT, name_user(user)):
        if not listing.importing:
            click.echo(render_json(render_listing(listing)) if as_json else render_row(listing))


@click.command()
@user_option
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="user",
    help="Let the token of the local stage name this role; default: user.",
)
@stage_option
@token_option
@json_option
def token(*, user: str, role: Role, stage: str, token_command: str, as_json: bool) -> None:
    """Print a token for a client of your own.

    On the local stage a new one, valid for an hour; with --role an admin's. With --stage it is the one from STEPLINE_TOKEN or
    --token-command. With --json also its addresses: the `url` of the websocket and, where it renews itself,
    the `api_url`.
    """
    from stepline.local.terminal.json_lines import render_json

    caller = find_caller(stage, user, token_command, role=role)
    found = {"token": caller.token(), "url": caller.url}
    if caller.api_url and caller.renews:
        found["api_url"] = caller.api_url
    if not stage:
        found["user"] = caller.user
    click.echo(render_json(found) if as_json else found["token"])


def find_caller(
    stage: str, user: str, token_command: str, bundle: str = "", *, role: Role = "user"
) -> Caller:
    """Return the caller for a command's options and the environment's token."""
    from stepline.local import caller

    return caller.find_caller(
        stage, user, token=environment_token(), token_command=token_command, bundle=bundle, role=role
    )


def check_exists(caller: Caller, conversation: str) -> None:
    """Raise NotFoundError `conversation_not_found` unless the caller has this conversation."""
    from stepline.local.caller import sessions
    from stepline.local.client.state import ClientState

    with sessions(caller)(ClientState(conversation=conversation)) as session:
        _join(session)


def _tell(
    say: Callable[[Session], str], caller: Caller, *, stage: str, conversation: str, new: bool, as_json: bool
) -> None:
    """Send something to a conversation, show its effects, and exit."""
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import new_conversation, settle

    state = ClientState(conversation=conversation or new_conversation())
    with _session(caller, state, stage=stage) as session:
        if conversation and new:
            session.join()
        elif conversation:
            _join(session)
        completed = settle(session, session.effects(), say(session), shower(as_json, local=not stage))
    if not as_json and not conversation:
        progress(f"go on with: stepline send --conversation {state.conversation} …")
    sys.exit(0 if completed else 1)


def _say(session: Session, caller: Caller, text: str, attach: tuple[Path, ...]) -> str:
    """Upload the files of a message, and send it; return its id."""
    from stepline.local.caller import upload_to
    from stepline.model.file.attachment import TEXT_MAX_CHARS

    if not attach and len(text) <= TEXT_MAX_CHARS:
        return session.say(text)
    uploader = upload_to(caller, progress, session.state.conversation)
    message = uploader.compose(text, tuple(map(uploader.upload_file, attach)))
    return session.say(message.text, uploads=message.uploads)


def _answer(
    verdict: Literal["approve", "deny", "edit"],
    said: dict[str, Any],
    caller: Caller,
    *,
    stage: str,
    conversation: str,
    call: str,
    as_json: bool,
) -> None:
    """Answer the request of a conversation, show what follows, and exit."""
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import pending_call, settle

    with _session(caller, ClientState(conversation=conversation), stage=stage) as session:
        _join(session)
        effects = session.effects()
        waits = pending_call(session, effects)
        if not waits or call not in ("", waits):
            raise InputError(f"{conversation} asks about {waits or 'no call'}", code="approval_not_pending")
        message_id = session.answer(verdict, waits, **said)
        completed = settle(session, effects, message_id, shower(as_json, local=not stage))
    sys.exit(0 if completed else 1)


def _join(session: Session) -> None:
    if not session.join():
        name = session.state.conversation
        raise NotFoundError(
            f"there is no conversation {name}: --new begins one of this name", code="conversation_not_found"
        )


@contextmanager
def _session(caller: Caller, state: ClientState, *, stage: str) -> Iterator[Session]:
    """Yield a session; on Ctrl-C, print how to watch the turn that is still running."""
    from stepline.local.caller import sessions

    with sessions(caller)(state) as session:
        try:
            yield session
        except KeyboardInterrupt:
            where = ["--stage", stage] if stage else ["--user", caller.user]
            words = ["stepline", "watch", state.conversation, "--after", str(session.state.cursor), *where]
            progress(f"a turn that runs goes on; watch it with: {shlex.join(words)}")
            sys.exit(INTERRUPTED)


def render_row(listing: Listing) -> str:
    """Return a conversation as one line: name, minute of the last event in UTC, last turn, title."""
    minute = listing.last_at[:16].replace("T", " ")
    standing = listing.outcome or ("open" if listing.turn else "idle")
    return f"{listing.lane.conversation:20}  {minute}  {standing:9}  {one_line(listing.title)}"


def render_listing(listing: Listing) -> dict[str, Any]:
    """Return a conversation as a JSON object; `n` is the newest batch that the listing has seen."""
    return {
        "conversation": listing.lane.conversation,
        "title": listing.title,
        "last_at": listing.last_at,
        "n": listing.applied_n,
        "turn_id": listing.turn,
        "outcome": listing.outcome,
        "input_tokens": listing.input_tokens,
        "output_tokens": listing.output_tokens,
    }
