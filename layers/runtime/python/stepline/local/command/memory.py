"""`stepline memory`: the search index over a user's conversations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import json_option, user_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepline.model.memory_row import MemoryScope
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import StageLog


@click.group()
def memory() -> None:
    """Maintain the search index of memory."""


@memory.command()
@user_option
@json_option
def rebuild(user: str, *, as_json: bool) -> None:
    """Rebuild the index of a user on the local stage from the logs.

    New conversations do not need it: each search adds them. Use it after objects were lost, or before a first search over many
    conversations. Searches may be out of date while it runs.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.counted import counted
    from stepline.local.own_name import name_user
    from stepline.local.terminal.json_lines import render_json_line
    from stepline.local.terminal.output import progress
    from stepline.model.memory_row import MemoryScope

    scope = MemoryScope(tenant=TENANT, project=PROJECT, user=name_user(user))
    conversations = rows = 0
    for conversations, rows in rebuilt(*open_log(find_stage()), scope):
        progress(f"{counted(conversations, 'conversation')}, {counted(rows, 'row')}")
    if as_json:
        click.echo(render_json_line({"conversations": conversations, "rows": rows}))


def rebuilt(log: StageLog, artifacts: Artifacts, scope: MemoryScope) -> Iterable[tuple[int, int]]:
    """Rebuild an index; yield the number of conversations and rows so far. Raises DependencyError."""
    from dataclasses import replace

    from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
    from stepline.bootstrap.memory_wiring import in_memory
    from stepline.settings import Settings

    ports = replace(in_memory(Settings.from_env({})).ports, log=log, artifacts=artifacts)
    return EmbeddedMemoryIndex(ports).rebuild(scope)
