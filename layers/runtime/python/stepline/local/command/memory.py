"""`stepline memory`: the index of what a user's conversations have said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stepline.local.command.argument import json_option, user_option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stepline.model.memory_row import MemoryScope
    from stepline.ports.artifacts import Artifacts
    from stepline.ports.log import Log


@click.group()
def memory() -> None:
    """Look after the index that memory searches."""


@memory.command()
@user_option
@json_option
def rebuild(user: str, *, as_json: bool) -> None:
    """Make a user's index on the local stage anew, from the logs.

    It is never needed for what is new, which every search reads itself. It helps after objects were lost, and before a first search of many conversations. What is searched meanwhile may be behind.
    """
    from stepline.local.caller import PROJECT, TENANT, find_stage
    from stepline.local.command.batches import open_log
    from stepline.local.own_name import name_user
    from stepline.local.terminal.json_lines import render_json
    from stepline.local.terminal.output import progress
    from stepline.model.memory_row import MemoryScope

    scope = MemoryScope(tenant=TENANT, project=PROJECT, user=name_user(user))
    conversations = rows = 0
    for conversations, rows in rebuilt(*open_log(find_stage()), scope):
        progress(f"{conversations} conversations, {rows} rows")
    if as_json:
        click.echo(render_json({"conversations": conversations, "rows": rows}))


def rebuilt(log: Log, artifacts: Artifacts, scope: MemoryScope) -> Iterable[tuple[int, int]]:
    """Rebuild an index; yield how many conversations and rows it has so far. Raises DependencyError."""
    from dataclasses import replace

    from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
    from stepline.bootstrap.memory_wiring import in_memory
    from stepline.settings import Settings

    ports = replace(in_memory(Settings.from_env({})).ports, log=log, artifacts=artifacts)
    return EmbeddedMemoryIndex(ports).rebuild(scope)
