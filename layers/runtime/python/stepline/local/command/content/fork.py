"""`stepline fork`: a conversation that continues another one from a point of its past."""

from __future__ import annotations

import shlex
from contextlib import closing
from typing import TYPE_CHECKING, Final

import click

from stepline.local.command.argument import (
    Login,
    check_conversation,
    conversation_argument,
    json_option,
    login_options,
    naming,
    text_option,
)
from stepline.local.own_name import own_command
from stepline.local.terminal.output import print_result, progress

if TYPE_CHECKING:
    from stepline.api.time_travel.fork_endpoints import ForkPlace

POINTS: Final = "name one point: --at, --turn, --round or --message"


@click.command()
@conversation_argument
@text_option("--at", metavar="N", help="After this batch.")
@text_option("--turn", metavar="ID", help="After the end of this turn.")
@text_option("--round", "round_", metavar="N", help="After the round that this batch decided.")
@text_option("--message", metavar="ID", help="After the batch that has this message.")
@click.option("--before", is_flag=True, help="Before that point, and not after it.")
@click.option(
    "--name",
    callback=check_conversation,
    metavar="NAME",
    help="The name of the fork; default: a random one.",
)
@text_option("--title", metavar="WORDS", help='Its title; default: that of the conversation with "(fork)".')
@login_options
@json_option
def fork(
    *,
    conversation: str,
    at: str,
    turn: str,
    round_: str,
    message: str,
    before: bool,
    name: str,
    title: str,
    login: Login,
    as_json: bool,
) -> None:
    """Continue a conversation from a point of its past.

    The fork is a conversation of its own; nothing is copied, and its origin does not change. `stepline log`
    prints the numbers of its batches and the ids of its turns, with --json the ids of its messages, too. The name of the
    fork is printed. With a --name the same command may be repeated.
    """
    from stepline.api.time_travel.fork_endpoints import ForkRequest
    from stepline.local.caller import open_api
    from stepline.local.conversation import new_conversation

    given = {"batch": at, "turn": turn, "round": round_, "message": message}
    point = _read_point(given, before=before)
    request = ForkRequest(conversation=name or new_conversation(), point=point, title=title)
    caller = login.caller()
    with closing(open_api(caller)) as api, naming(conversation):
        made = api.make_fork(conversation, request)
    print_result(made, made.conversation, as_json=as_json)
    words = [*own_command(), "chat", "--conversation", made.conversation, *caller.options]
    progress(f"it has the batches of {made.origin} up to {made.n}; continue with: {shlex.join(words)}")


def _read_point(given: dict[str, str], *, before: bool) -> ForkPlace:
    """Return the one point that the options name. Raises click.UsageError."""
    import msgspec

    from stepline.api.time_travel.fork_endpoints import ForkPlace

    named = [(kind, at) for kind, at in given.items() if at]
    if len(named) != 1:
        raise click.UsageError(POINTS)
    ((kind, at),) = named
    return msgspec.convert({"kind": kind, "at": at, "before": before}, ForkPlace)
