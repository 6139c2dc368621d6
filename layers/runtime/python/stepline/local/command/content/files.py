"""`stepline files`: list the files of a conversation, and write them under their names."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stepline.errors import InputError
from stepline.local.command.argument import (
    Login,
    conversation_argument,
    json_option,
    login_options,
    naming,
    out_option,
    overwrite_option,
    text_option,
)
from stepline.local.counted import counted
from stepline.local.safe_text import clean_line
from stepline.local.terminal.output import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepline.api.files import FileRow
    from stepline.local.client.http_api import HttpApi


@click.command()
@conversation_argument
@text_option("--turn", metavar="ID", help="Only the files of this turn.")
@out_option
@overwrite_option
@login_options
@json_option
def files(
    *, conversation: str, turn: str, out: Path | None, overwrite: bool, login: Login, as_json: bool
) -> None:
    """List the files of a conversation, newest turn first.

    Each line has the name, turn, size and type of a file: an attachment, or one that the agent offers. With --out the files
    are written as TURN/NAME into a folder, and their paths are printed. The exit code is 1 if a file cannot be fetched.
    """
    import msgspec

    from stepline.local.named_files import FileNames, check_folder, write_files
    from stepline.local.terminal.json_lines import render_json_line

    if out:
        check_folder(out)
    with closing(login.api()) as api:
        names = FileNames()
        rows = {
            names.choose(row.logical_path, row.sha256): row for row in _list_files(api, conversation, turn)
        }
        if not rows:
            progress(f"{conversation} has no files")
        if not out:
            for name, row in rows.items():
                click.echo(render_json_line(msgspec.to_builtins(row)) if as_json else _render_row(name, row))
            return
        reads = {name: partial(fetch_row, api, conversation, row) for name, row in rows.items()}
        written = 0
        for name, path in write_files(out, reads, overwrite=overwrite):
            written += 1
            fields = {**msgspec.to_builtins(rows[name]), "path": path}
            click.echo(render_json_line(fields) if as_json else path)
    if missing := len(rows) - written:
        raise InputError(f"{counted(missing, 'file')} could not be fetched", code="file_not_fetched")


def _list_files(api: HttpApi, conversation: str, turn: str) -> Iterator[FileRow]:
    """Yield the files of a conversation, or of one turn. Raises NotFoundError `not_found`, ApiError."""
    after = ""
    while True:
        with naming(conversation):
            page = api.list_files(conversation, turn=turn, after=after)
        yield from page.items
        if not (after := page.next):
            return


def fetch_row(api: HttpApi, conversation: str, row: FileRow) -> bytes | None:
    """Return the content of a file, None if it cannot be fetched."""
    from stepline.api.files import LinkRequest
    from stepline.local.user_archive import fetch_content

    link = api.create_link(conversation, LinkRequest(path=row.logical_path))
    return fetch_content(link.url, row.sha256)


def _render_row(name: str, row: FileRow) -> str:
    """Return a file as one line: name, turn, size and type."""
    _, _, rest = name.partition("/")
    return clean_line(f"{rest or name:40}  {row.turn_id}  {counted(row.size_bytes, 'byte')}  {row.mime}")
