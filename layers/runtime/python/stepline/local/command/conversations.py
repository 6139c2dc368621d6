"""CLI commands for conversations: send, watch, list, print the log, and print a token for another client."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from stepline.errors import InputError
from stepline.local.command.argument import (
    CURSOR,
    Login,
    attach_option,
    bundle_option,
    check_kind,
    conversation_argument,
    conversation_option,
    json_option,
    login_options,
    new_option,
    no_conversation,
    parse_have,
    parse_payload,
    read_text_argument,
    stage_option,
    text_option,
    token_option,
    user_option,
)
from stepline.local.command.failure import INTERRUPTED
from stepline.local.own_name import name_user, own_command
from stepline.local.safe_text import one_line
from stepline.local.terminal.output import progress, shower
from stepline.model.wire.live_event import FOLLOWUP, STEER, STOP
from stepline.ports.channel import ROLES, Role
from stepline.ports.log import Listing

if TYPE_CHECKING:
    from stepline.local.caller import Caller
    from stepline.local.client.session import Session
    from stepline.local.client.state import ClientState

NEW: Final = ": --new creates it"
"""The remedy for a missing conversation, for commands with that option."""


@click.command()
@click.argument("text")
@attach_option
@conversation_option
@new_option
@bundle_option
@login_options
@json_option
def send(
    *,
    text: str,
    attach: tuple[Path, ...],
    conversation: str,
    new: bool,
    bundle: str,
    login: Login,
    as_json: bool,
) -> None:
    """Send one message and wait for its answer.

    TEXT may be - to read it from standard input. --attach uploads and checks each file first; if one is refused, nothing is
    sent. A text of more than 32,000 characters is sent as a file. --bundle chooses the agent of a new conversation, which
    keeps it. Ctrl-C ends the wait, not the turn.

    With --json every durable event (with its `n` and `prev`) and every piece of streamed text (by `off`) is one
    line; the last event of the turn has `"terminal": true`. The exit code is 0 if the turn was answered, else 1. It is also 1
    if the turn waits for an approval; then use approve, deny or edit.
    """
    message, caller = read_text_argument(text), login.caller(bundle)
    say = partial(_say, caller=caller, text=message, attach=attach)
    _send(say, caller, conversation=conversation, new=new, as_json=as_json)


@click.command()
@click.argument("kind", callback=check_kind)
@click.option(
    "--payload",
    default="{}",
    metavar="JSON",
    help="The content, an object; its `text` is the text of the event.",
)
@click.option("--reactive/--quiet", default=None, help="Ask for an answer or not; default: by its kind.")
@conversation_option
@new_option
@bundle_option
@login_options
@json_option
def event(
    *,
    kind: str,
    payload: str,
    reactive: bool | None,
    conversation: str,
    new: bool,
    bundle: str,
    login: Login,
    as_json: bool,
) -> None:
    """Send an event to a conversation, and wait for its turn.

    KIND is form, wizard, alert, steer, stop, or a custom kind. steer and followup need a `text` in --payload; steer and
    stop need a --conversation. The command waits until no turn is running; Ctrl-C ends the wait, not the turn. The exit
    code is 0 if the event was accepted and the turn, if there was one, completed, else 1.
    """
    content = parse_payload(payload)
    check_event(kind, content, conversation)
    caller = login.caller(bundle)

    def say(session: Session) -> str:
        return session.tell(kind, content, reactive=reactive)

    _send(say, caller, conversation=conversation, new=new, as_json=as_json)


_call_option = text_option("--call", metavar="ID", help="Answer only if this call waits.")


def _verdict(
    name: Literal["approve", "deny", "edit"], about: str, *options: Callable[[Any], Any]
) -> click.Command:
    """Return the command for one answer to an approval request."""

    def command(
        *, conversation: str, call: str, login: Login, as_json: bool, text: str = "", params: str = "{}"
    ) -> None:
        fields: dict[str, Any] = {"text": text} if text else {}
        fields |= {"payload": parse_payload(params, hint="--params")} if name == "edit" else {}
        _answer(name, fields, login.caller(), conversation=conversation, call=call, as_json=as_json)

    command.__doc__ = about
    shared: list[Callable[[Any], Any]] = [conversation_argument, *options, _call_option]
    shared += [login_options, json_option]
    for option in reversed(shared):
        command = option(command)
    return click.command(name)(command)


approve = _verdict(
    "approve",
    """Approve the call that waits, and wait for the turn.

    The exit code is 0 if the turn was answered, else 1. It is also 1 if another call waits for an approval.
    """,
)
deny = _verdict(
    "deny",
    """Deny the call that waits, and wait for the turn.

    The agent reads --text. The exit codes are those of approve.
    """,
    text_option("--text", metavar="WORDS", help="The reason, for the agent."),
)
edit = _verdict(
    "edit",
    """Approve the call that waits with other parameters.

    --params replaces all of its parameters. The edited call has a new id. The exit codes are those of approve.
    """,
    click.option("--params", required=True, metavar="JSON", help="All parameters, an object."),
)


@click.command()
@conversation_argument
@click.argument("reaction", type=click.Choice(("ok", "not_ok", "neutral", "none")))
@text_option("--text", metavar="WORDS", help="The reason, at most 1,000 characters.")
@text_option("--turn", metavar="ID", help="Rate this turn; default: the newest that has ended.")
@login_options
@json_option
def feedback(*, conversation: str, reaction: str, text: str, turn: str, login: Login, as_json: bool) -> None:
    """Rate an answer; none withdraws the rating.

    It replaces your earlier rating of that turn, and the agent reads it. The exit code is 1 if it was refused.
    """
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import parse_reaction, wait_for_ack

    caller = login.caller()
    with _session(caller, ClientState(conversation=conversation)) as session:
        _join(session)
        message_id = session.rate(parse_reaction(reaction), text, turn=turn)
        accepted = wait_for_ack(session.effects(), message_id, shower(as_json, local=caller.local))
    sys.exit(0 if accepted else 1)


@click.command()
@conversation_argument
@click.option("--after", default=0, type=CURSOR, metavar="N", help="Start after this event number.")
@click.option(
    "--have", multiple=True, metavar="CLAIM/LANE=CHARS", help="Streamed text that you already have."
)
@login_options
@json_option
def watch(*, conversation: str, after: int, have: tuple[str, ...], login: Login, as_json: bool) -> None:
    """Show the events of a conversation until no turn is running.

    The usage of each turn is below its answer. With --have, streamed text continues where an earlier
    `send --json` was cut off.
    """
    from stepline.local.client.state import ClientState, LaneText
    from stepline.local.conversation import watch_conversation as follow

    pieces = [parse_have(text) for text in have]
    claim = max((piece.claim for piece in pieces), default=0)
    lanes = {piece.lane: LaneText(base=piece.chars) for piece in pieces if piece.claim == claim}
    state = ClientState(conversation=conversation, cursor=after, claim=claim, lanes=lanes)
    caller = login.caller()
    with _session(caller, state) as session:
        completed = follow(session, session.effects(), shower(as_json, usage=True, local=caller.local))
    sys.exit(0 if completed else 1)


@click.command()
@conversation_argument
@click.option("--after", default=0, type=CURSOR, metavar="N", help="Start after this batch.")
@json_option
def log(conversation: str, after: int, as_json: bool) -> None:
    """Print the log of a conversation of the local stage.

    With --json each batch is complete, one per line.
    """
    from stepline.inspection.documents import render_batch
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log, read_batches, render_summary
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.model.ids import make_lane

    batches = read_batches(*open_log(find_stage()), make_lane(TENANT, PROJECT, conversation), after=after)
    for batch in batches:
        lines = [render_json_line(render_batch(batch))] if as_json else render_summary(batch)
        for line in lines:
            click.echo(line)
    if not batches and not after:
        raise no_conversation(conversation)


@click.command()
@user_option
@json_option
def conversations(user: str, as_json: bool) -> None:
    """List your conversations on the local stage, newest first.

    Each line has the name, the time of the last event, the state of the last turn, and the title.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.terminal.json_lines import render_json_line

    log, _ = open_log(find_stage())
    for listing in log.conversations(TENANT, PROJECT, name_user(user)):
        if not listing.importing:
            click.echo(render_json_line(render_listing(listing)) if as_json else _render_row(listing))


@click.command()
@user_option
@click.option(
    "--role",
    type=click.Choice(ROLES),
    default="user",
    help="The role of a token of the local stage; default: user.",
)
@stage_option
@token_option
@json_option
def token(*, user: str, role: Role, stage: str, token_command: str, as_json: bool) -> None:
    """Print a token for your own client.

    A token of the local stage is new and valid for an hour. With --stage it is the one of STEPLINE_TOKEN or
    --token-command. --json adds the addresses: the `url` of the websocket and, if the token can be renewed, the
    `api_url`.
    """
    from stepline.local.terminal.json_lines import render_json_line

    caller = Login(user=user, stage=stage, token_command=token_command).caller(role=role)
    found = {"token": caller.token(), "url": caller.url}
    if caller.api_url and caller.renews:
        found["api_url"] = caller.api_url
    if not stage:
        found["user"] = caller.user
    click.echo(render_json_line(found) if as_json else found["token"])


def check_exists(caller: Caller, conversation: str) -> None:
    """Raise NotFoundError `not_found` unless the caller has this conversation."""
    from stepline.local.caller import sessions
    from stepline.local.client.state import ClientState

    with sessions(caller)(ClientState(conversation=conversation)) as session:
        _join(session, NEW)


def check_event(kind: str, content: Mapping[str, Any], conversation: str) -> None:
    """Refuse an event that can have no effect. Raises click.UsageError."""
    if kind in (STEER, STOP) and not conversation:
        raise click.UsageError(f"{kind} needs the --conversation whose turn is running")
    if kind in (STEER, FOLLOWUP) and not content.get("text"):
        raise click.UsageError(f"""{kind} needs a text: --payload '{{"text": "…"}}'""")


def _send(
    say: Callable[[Session], str], caller: Caller, *, conversation: str, new: bool, as_json: bool
) -> None:
    """Send a message or an event to a conversation, show its effects, and exit."""
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import new_conversation, settle

    state = ClientState(conversation=conversation or new_conversation())
    with _session(caller, state) as session:
        if conversation and new:
            session.join()
        elif conversation:
            _join(session, NEW)
        completed = settle(session, session.effects(), say(session), shower(as_json, local=caller.local))
        exists = session.state.cursor > 0
    if exists and not as_json and not conversation:
        words = [*own_command(), "send", "--conversation", state.conversation, *caller.options]
        progress(f"continue with: {shlex.join(words)} …")
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
    fields: dict[str, Any],
    caller: Caller,
    *,
    conversation: str,
    call: str,
    as_json: bool,
) -> None:
    """Answer the approval request of a conversation, show its effects, and exit."""
    from stepline.local.client.state import ClientState
    from stepline.local.conversation import pending_call, settle

    with _session(caller, ClientState(conversation=conversation)) as session:
        _join(session)
        effects = session.effects()
        waits = pending_call(session, effects)
        if not waits or call not in ("", waits):
            pending = f"the call that waits is {waits}" if waits else "no call waits for an approval"
            raise InputError(f"{conversation}: {pending}", code="approval_not_pending")
        message_id = session.answer(verdict, waits, **fields)
        completed = settle(session, effects, message_id, shower(as_json, local=caller.local))
    sys.exit(0 if completed else 1)


def _join(session: Session, remedy: str = "") -> None:
    if not session.join():
        raise no_conversation(session.state.conversation, remedy)


@contextmanager
def _session(caller: Caller, state: ClientState) -> Iterator[Session]:
    """Yield a session; on Ctrl-C, print how to watch the turn that is still running."""
    from stepline.local.caller import sessions

    with sessions(caller)(state) as session:
        try:
            yield session
        except KeyboardInterrupt:
            after = ["--after", str(session.state.cursor)]
            words = [*own_command(), "watch", state.conversation, *after, *caller.options]
            progress(f"a running turn continues; watch it with: {shlex.join(words)}")
            sys.exit(INTERRUPTED)


def _render_row(listing: Listing) -> str:
    """Return a conversation as one line: name, minute of the last event in UTC, last turn, title."""
    minute = listing.last_at[:16].replace("T", " ")
    state = listing.waits_for or listing.outcome or ("open" if listing.turn else "idle")
    return f"{listing.lane.conversation:20}  {minute}  {state:9}  {one_line(listing.title)}"


def render_listing(listing: Listing) -> dict[str, Any]:
    """Return a conversation as a JSON object; `n` is the newest batch in the listing."""
    return {
        "conversation": listing.lane.conversation,
        "title": listing.title,
        "last_at": listing.last_at,
        "n": listing.applied_n,
        "turn_id": listing.turn,
        "outcome": listing.outcome,
        "input_tokens": listing.input_tokens,
        "output_tokens": listing.output_tokens,
        "branch_of": listing.branch_of,
    }
