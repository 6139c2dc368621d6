"""docs/reference/cli.md: the command line, from the commands' own help."""

from __future__ import annotations

from typing import Final

import click

from docs.build import DOCS
from stepline.local.command.cli import main

PATH: Final = DOCS / "reference/cli.md"

WIDTH_CHARS: Final = 96


def render() -> str:
    """Return the page."""
    pages = [_help(main, None)]
    pages += [_help(command, main) for _, command in sorted(main.commands.items())]
    head = ["# The command line", "", "Generated from `stepline --help`; a test keeps it in step.", ""]
    return "\n".join([*head, *pages])


def _help(command: click.Command, parent: click.Group | None) -> str:
    above = click.Context(parent, info_name="stepline", **parent.context_settings) if parent else None
    name = command.name if parent else "stepline"
    widths = {"terminal_width": WIDTH_CHARS, "max_content_width": WIDTH_CHARS}
    with click.Context(
        command, parent=above, info_name=name, **{**command.context_settings, **widths}
    ) as context:
        text = command.get_help(context)
    title = f"stepline {name}" if parent else "stepline"
    return f"## `{title}`\n\n```text\n{text}\n```\n"
