"""`stepline import`: import an exported conversation as one of the user's."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import (
    Login,
    check_bundle_name,
    check_conversation,
    json_option,
    login_options,
    text_option,
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
    help="The new name of the conversation; default: one made from its content.",
)
@text_option("--of", metavar="ID", help="The conversation to import from the archive of a user.")
@click.option(
    "--bundle",
    default=None,
    callback=check_bundle_name,
    metavar="NAME",
    help="The bundle that continues the conversation.",
)
@login_options
@json_option
def move_in(*, path: Path, conversation: str, of: str, bundle: str, login: Login, as_json: bool) -> None:
    """Import an exported conversation.

    PATH is a folder that `export --out` wrote, a zip of one, the zip of `export-user`, or a JSON file, also of the existing
    system. The conversation keeps its turns, paths and numbers, and can be continued like any other. After an interruption
    the same command continues the import; after a complete import it changes nothing.
    """
    import msgspec

    from stepline.adapters.system import SystemClock
    from stepline.local.client.importer import Importer
    from stepline.local.counted import counted
    from stepline.local.imported_documents import read_imported_documents
    from stepline.local.safe_text import clean_line
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.local.terminal.output import progress

    imported = read_imported_documents(path, conversation=of)
    name = conversation or name_import(imported.documents)
    with closing(login.api()) as api:
        importer = Importer(api, SystemClock(), name, report=lambda text: progress(clean_line(text)))
        status = importer.import_documents(imported, bundle=bundle)
    report = status.report
    if as_json:
        click.echo(render_json_line({"conversation": name, **msgspec.to_builtins(status)}))
        return
    click.echo(
        f"{name}: {counted(report.turns, 'turn')}, {counted(report.blocks, 'block')},"
        f" {counted(report.sources, 'source')}, {counted(report.files, 'file')}"
    )
    for what, counts in (("changed", report.changed), ("left out", report.left_out)):
        for kind, count in sorted(counts.items()):
            click.echo(clean_line(f"{what}: {kind}: {count}"))
    if report.files_missing:
        click.echo(f"{counted(report.files_missing, 'file')} without content")


def name_import(documents: Sequence[Document]) -> str:
    """Return the default name of an imported conversation: the same documents give the same name."""
    import hashlib

    import msgspec

    return (
        f"import-{hashlib.sha256(msgspec.json.encode([one.payload for one in documents])).hexdigest()[:16]}"
    )
