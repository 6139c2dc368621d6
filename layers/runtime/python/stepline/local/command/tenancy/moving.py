"""`stepline import`: a conversation from elsewhere becomes one of the user's own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import (
    check_conversation,
    json_option,
    stage_option,
    token_option,
    user_option,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stepline.log.importing.import_document import Document


@click.command(name="import")
@click.argument("path", type=click.Path(exists=True, path_type=Path), metavar="PATH")
@click.option(
    "--conversation",
    default=None,
    callback=check_conversation,
    metavar="ID",
    help="The name that it has from now on; default: a new one, made of what is imported.",
)
@click.option("--of", default="", metavar="ID", help="In the archive of a user: the conversation to take.")
@click.option("--bundle", default="", metavar="NAME", help="The bundle that goes on with it.")
@user_option
@stage_option
@token_option
@json_option
def move_in(
    *,
    path: Path,
    conversation: str,
    of: str,
    bundle: str,
    user: str,
    stage: str,
    token_command: str,
    as_json: bool,
) -> None:
    """Import a conversation that was exported.

    It may come from here or from the existing system. PATH is a folder that `export --out` wrote, a zip of one, the zip of
    `export-user`, or a file of JSON. The conversation keeps its turns, paths and numbers, and goes on like any other. Cut off,
    the same command goes on; done again, it finds what is there.
    """
    import msgspec

    from stepline.adapters.system import SystemClock
    from stepline.local.brought_documents import read_brought
    from stepline.local.client.importer import Importer
    from stepline.local.command.tenancy.erasing import open_api
    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json
    from stepline.local.terminal.output import progress

    brought = read_brought(path, conversation=of)
    name = conversation or name_import(brought.documents)
    with closing(open_api(stage, user, token_command)) as api:
        importer = Importer(api, SystemClock(), name, tell=lambda text: progress(clean_line(text)))
        status = importer.bring(brought, bundle=bundle)
    report = status.report
    if as_json:
        click.echo(render_json({"conversation": name, **msgspec.to_builtins(status)}))
        return
    click.echo(
        f"{name}: {report.turns} turns, {report.blocks} blocks, {report.sources} sources, {report.files} files"
    )
    for what, counts in (("changed", report.changed), ("left out", report.left_out)):
        for kind, count in sorted(counts.items()):
            click.echo(clean_line(f"{what}: {kind}: {count}"))
    if report.files_missing:
        click.echo(f"{report.files_missing} files without their bytes")


def name_import(documents: Sequence[Document]) -> str:
    """Return the name of a conversation that was given none: the same documents have the same."""
    import hashlib

    import msgspec

    return (
        f"import-{hashlib.sha256(msgspec.json.encode([one.payload for one in documents])).hexdigest()[:16]}"
    )
