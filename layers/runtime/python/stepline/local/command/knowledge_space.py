"""`stepline knowledge`: the index of a bundle's documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import json_option
from stepline.local.counted import counted
from stepline.local.safe_text import one_line
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from stepline.local.knowledge.build_index import Built


@click.group()
def knowledge() -> None:
    """Index the documents of a bundle."""


@knowledge.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@json_option
def build(folder: Path, *, as_json: bool) -> None:
    """Build the index of the documents in DIR/knowledge.yaml.

    DIR is the folder of a bundle, or one in it. The file names a repository and folders of it; without the file, all of
    DIR is indexed. The index is written to DIR/.knowledge and deployed with the bundle. If nothing has changed, the
    command does nothing. `up` and `deploy` build the index, too.

    References to files that do not exist are counted, and the first 20 are listed; they are not a failure.
    """
    import msgspec

    from stepline.local.knowledge.build_index import build_index
    from stepline.local.terminal.json_lines import render_json_line

    built = build_index(folder, progress)
    if as_json:
        click.echo(render_json_line(msgspec.to_builtins(built)))
        return
    for line in render_built(built):
        click.echo(line)


def render_built(built: Built) -> list[str]:
    """Return an index as lines of text: its size, the files left out, its references."""
    return [
        f"{counted(built.documents, 'document')}, {counted(built.sections, 'section')}: {built.path}",
        f"{counted(built.left_out, 'file')} left out: empty, too large, or not text",
        f"{counted(built.references, 'reference')}, {built.missing_references} without a target",
        *(f"  {one_line(path)}: {one_line(reference)}" for path, reference in built.missing),
    ]
