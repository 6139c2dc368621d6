"""docs/reference/cli.md: the command line, from the commands' own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import click

from docs.build import DOCS
from stepline.local.command.cli import main

PATH: Final = DOCS / "reference/cli.md"

WIDTH_CHARS: Final = 96


def render() -> str:
    """Return the page."""
    pages = [_help(words) for words in ((), *sorted(command_words(main)))]
    head = ["# The command line", "", "Generated from `stepline --help`; a test compares them.", ""]
    return "\n".join([*head, *pages])


def command_words(group: click.Group) -> Iterator[tuple[str, ...]]:
    """Yield the words after `stepline` that call each command: two for a command of a nested group."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from ((name, *words) for words in command_words(command))
        else:
            yield (name,)


def _help(words: tuple[str, ...]) -> str:
    command: click.Command = main
    context = click.Context(
        main,
        info_name="stepline",
        **{**main.context_settings, "terminal_width": WIDTH_CHARS, "max_content_width": WIDTH_CHARS},
    )
    for word in words:
        assert isinstance(command, click.Group)
        command = command.commands[word]
        context = click.Context(
            command, parent=context, info_name=word, terminal_width=WIDTH_CHARS, max_content_width=WIDTH_CHARS
        )
    with context:
        text = command.get_help(context)
    return f"## `{' '.join(('stepline', *words))}`\n\n```text\n{text}\n```\n"
