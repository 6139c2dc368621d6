"""Parsing and validation of command arguments, the options that commands share, and their questions."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from stepline.errors import InputError, NotFoundError
from stepline.model.ids import BUNDLE, FURTHER_BUNDLE, SEGMENT, is_user
from stepline.model.wire.live_event import KIND

if TYPE_CHECKING:
    from stepline.local.caller import Caller
    from stepline.local.client.http_api import HttpApi
    from stepline.ports.channel import Role

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
CURSOR = click.IntRange(min=0)
"""The number of the event or batch to start after."""

ORIGIN: Final = re.compile(
    r"(?!http:.*:80$)(?!https:.*:443$)https?://([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d{1,5})?", re.ASCII
)
"""A web page's origin as browsers send it: without a path, a capital letter, or the port that the scheme has anyway."""


class Have(NamedTuple):
    """Running text that a client already has: `chars` of lane `lane` of stream `claim`."""

    claim: int
    lane: str
    chars: int


def check_text(context: click.Context, parameter: click.Parameter, text: str | None) -> str:
    """Return the text of an option, "" if the option is not given.

    Refuses an empty text, and an option in its place: both result from an unset shell variable. Raises
    click.BadParameter.
    """
    if text is None:
        return ""
    if not text.strip():
        raise click.BadParameter("a value is needed, and this one is empty", param=parameter)
    if any(text in other.opts for other in context.command.params):
        raise click.BadParameter(f"a value is needed, and {text} is an option", param=parameter)
    return text


def check_origins(
    context: click.Context,  # noqa: ARG001 - click's callback
    parameter: click.Parameter,
    texts: tuple[str, ...],
) -> tuple[str, ...]:
    """Return the origins of an option. Raises click.BadParameter for one that no browser sends."""
    for text in texts:
        if not ORIGIN.fullmatch(text):
            wanted = (
                "an origin is like http://localhost:5173, without a path, a capital letter or a default port"
            )
            raise click.BadParameter(f"{text!r:.80}: {wanted}", param=parameter)
    return texts


def text_option(*names: str, metavar: str, help: str) -> Callable[[Decorated], Decorated]:  # noqa: A002 - the names are click's
    """Return an option with a text, which `check_text` checks; its parameter is "" if the option is not given."""
    return click.option(*names, default=None, callback=check_text, metavar=metavar, help=help)


def parse_have(text: str) -> Have:
    """Read `CLAIM/LANE=CHARS`. Raises click.BadParameter."""
    found = re.fullmatch(r"(\d{1,12})/([^=]{1,64})=(\d{1,12})", text)
    if found is None:
        raise click.BadParameter("expected CLAIM/LANE=CHARS", param_hint="--have")
    return Have(claim=int(found[1]), lane=found[2], chars=int(found[3]))


def parse_payload(text: str, *, hint: str = "--payload") -> dict[str, Any]:
    """Read a JSON object. Raises click.BadParameter."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"no JSON: {error}", param_hint=hint) from error
    if not isinstance(found, dict):
        raise click.BadParameter("expected a JSON object", param_hint=hint)
    return found


def read_text_argument(text: str) -> str:
    """Return the text to send; `-` reads standard input. Raises click.BadParameter if it is empty."""
    sent = sys.stdin.read().rstrip("\n") if text == "-" else text
    if not sent.strip():
        raise click.BadParameter("the text is empty", param_hint="TEXT")
    return sent


def check_conversation(_context: click.Context, parameter: click.Parameter, name: str | None) -> str:
    """Return a conversation's name, or "" if none is given. Raises click.BadParameter."""
    if name is not None and not SEGMENT.fullmatch(name):
        raise click.BadParameter(
            "a conversation's name is at most 64 letters, digits, _ and -, and begins with a letter or a digit",
            param=parameter,
        )
    return name or ""


def check_user(context: click.Context, parameter: click.Parameter, name: str | None) -> str:
    """Return a user's name, or "" if none is given. Raises click.BadParameter."""
    if check_text(context, parameter, name) and not is_user(name or ""):
        raise click.BadParameter("a user's name is printable ASCII, at most 256 characters", param=parameter)
    return name or ""


def check_kind(_context: click.Context, parameter: click.Parameter, kind: str) -> str:
    """Return the kind of an event. Raises click.BadParameter."""
    if not KIND.fullmatch(kind):
        raise click.BadParameter(
            "a kind is at most 32 small letters, digits, _ and -, and begins with a letter", param=parameter
        )
    return kind


NO_BUNDLE_NAME: Final = (
    "a bundle's name is at most 32 small letters, digits, _ and -, and begins with a letter"
)


def check_bundle_name(_context: click.Context, parameter: click.Parameter, name: str | None) -> str:
    """Return a bundle's name, or "" if none is given. Raises click.BadParameter."""
    if name is not None and not BUNDLE.fullmatch(name):
        raise click.BadParameter(NO_BUNDLE_NAME, param=parameter)
    return name or ""


def parse_bundles(texts: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Return the module of the default bundle, and those of further ones by name. Raises click.BadParameter."""
    modules = [text for text in texts if "=" not in text]
    if len(modules) > 1:
        raise click.BadParameter("one bundle is the default; give another one a name", param_hint="--bundle")
    further = dict(text.split("=", 1) for text in texts if "=" in text)
    if wrong := [name for name in further if not FURTHER_BUNDLE.fullmatch(name)]:
        raise click.BadParameter(f"{wrong[0]!r:.80}: {NO_BUNDLE_NAME}", param_hint="--bundle")
    return (modules or ["bundles.default"])[0], further


def ask_user(question: str) -> str:
    """Return the line that a person types. Raises InputError `not_confirmed` if standard input is no terminal."""
    if not sys.stdin.isatty():
        raise InputError(
            f'standard input is not a terminal: add --yes to answer "{question}"', code="not_confirmed"
        )
    return str(click.prompt(question, default="", show_default=False, err=True)).strip()


def confirm(question: str) -> bool:
    """Return True if the user confirms. Raises as `ask_user` does."""
    return ask_user(f"{question} (y/n)").lower() in ("y", "yes")


def no_conversation(name: str, remedy: str = "") -> NotFoundError:
    """Return the error `not_found`, common to all commands on a conversation that the stage does not have."""
    return NotFoundError(f"there is no conversation {name}{remedy}")


@contextmanager
def naming(conversation: str) -> Iterator[None]:
    """Add the conversation's name to the API's error `not_found`. Raises NotFoundError."""
    from stepline.local.client.api_transport import ApiError

    try:
        yield
    except ApiError as error:
        if error.reason != "not_found":
            raise
        raise no_conversation(conversation) from error


conversation_argument = click.argument("conversation", callback=check_conversation)
conversation_option = click.option(
    "--conversation",
    default=None,
    callback=check_conversation,
    metavar="ID",
    help="Continue this conversation.",
)
attach_option = click.option(
    "--attach",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Attach a file to the message; may be repeated.",
)
new_option = click.option("--new", is_flag=True, help="Create the conversation if it does not exist.")
bundle_option = click.option(
    "--bundle",
    default=None,
    callback=check_bundle_name,
    metavar="NAME",
    help="Start the conversation with this bundle of the stage.",
)
user_option = click.option(
    "--user",
    default=None,
    callback=check_user,
    metavar="NAME",
    help="Act as this user of the local stage; default: your login name.",
)
stage_option = text_option(
    "--stage", metavar="NAME", help="Use this deployed stage, as the user of STEPLINE_TOKEN."
)
token_option = text_option(
    "--token-command", metavar="CMD", help="With --stage: a command that prints a token."
)


def environment_token() -> str:
    """Return the token in the caller's environment, or ""."""
    import os

    from stepline.local.cloud.program.child import CALLER_TOKEN_VARIABLE

    return os.environ.get(CALLER_TOKEN_VARIABLE, "")  # noqa: TID251 - the caller's variable, not a setting; every process could read it in argv


@dataclass(frozen=True, kw_only=True)
class Login:
    """The stage and the identity of a command: its options, and the token of the environment."""

    user: str
    stage: str
    token_command: str

    def caller(self, bundle: str = "", *, role: Role = "user") -> Caller:
        """Return the caller. Raises as `stepline.local.caller.find_caller` does."""
        from stepline.local import caller

        given = {"token": environment_token(), "token_command": self.token_command}
        return caller.find_caller(self.stage, self.user, bundle=bundle, role=role, **given)

    def api(self) -> HttpApi:
        """Return the HTTP API of the caller. Also raises InputError `not_deployed`."""
        from stepline.local.caller import open_api

        return open_api(self.caller())


def login_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of its `login`."""

    @wraps(command)
    def wrapped(*, user: str, stage: str, token_command: str, **given: Any) -> None:
        command(login=Login(user=user, stage=stage, token_command=token_command), **given)

    return user_option(stage_option(token_option(wrapped)))


out_option = click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Write the files into this folder."
)
overwrite_option = click.option("--overwrite", is_flag=True, help="With --out: replace existing files.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
