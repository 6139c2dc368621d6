"""`stepline knowledge`: the index of a bundle's documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import json_option
from stepline.local.safe_text import one_line
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from stepline.local.knowledge.build_index import Built


@click.group()
def knowledge() -> None:
    """Make a bundle's documents searchable."""


@knowledge.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@json_option
def build(folder: Path, *, as_json: bool) -> None:
    """Build the index of the documents that DIR/knowledge.yaml names; at once if nothing has changed.

    DIR is the folder of a bundle, or one in it. The file says which repository, and which folders of it; without it all of DIR is indexed. The index is in DIR/.knowledge, and is deployed with the bundle. `up` and `deploy` build it, too.

    References of documents to files that do not exist are counted, and the first 20 shown; they are no failure.
    """
    import msgspec

    from stepline.local.knowledge.build_index import build_index
    from stepline.local.terminal.json_lines import render_json

    built = build_index(folder, progress)
    if as_json:
        click.echo(render_json(msgspec.to_builtins(built)))
        return
    for line in render_built(built):
        click.echo(line)


def render_built(built: Built) -> list[str]:
    """Return the lines for a person about an index: its size, its references, the files left out."""
    lines = [
        f"{built.documents} documents, {built.sections} sections: {built.path}",
        f"{built.references} references, {built.missing_references} of them to nothing",
        *(f"  {one_line(path)}: {one_line(reference)}" for path, reference in built.missing),
    ]
    return [*lines[:1], f"{built.left_out} files left out: empty, too large, or no text", *lines[1:]]
