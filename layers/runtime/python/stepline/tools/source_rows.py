"""Rows of the pool of sources as they stand at `so:sources_pool[…]`: JSON, ascending by their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec

from stepline.errors import ToolError
from stepline.model.block import Block
from stepline.model.path import SourcesPath
from stepline.timeline.sources import select_sources
from stepline.tools.context import ToolContext, render_json

MISSING_SHOWN: Final = 50


def source_rows(path: SourcesPath, context: ToolContext) -> list[dict[str, Any]]:
    """Return the rows that a path names, ascending. Raises ToolError `not_found` if it names some and none is there."""
    rows = select_sources(context.sources.rows, path.ranges)
    if path.ranges and not rows:
        named = ", ".join(map(str, _missing(path, set())[:10]))
        raise ToolError(f"the source pool has no row {named}", code="not_found")
    return [msgspec.to_builtins(row) for row in rows]


def sources_block(path: SourcesPath, rows: Sequence[Mapping[str, Any]], context: ToolContext) -> Block:
    """Return what stands at a path of the pool, as a block that the log does not hold."""
    missing = _missing(path, {row["sid"] for row in rows})
    return Block(
        type="react.sources",
        author="react",
        ts=context.ts,
        path=str(path),
        mime="application/json",
        text=render_rows(rows) if rows else "",
        meta={"missing_sids": missing} if missing else {},
    )


def render_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON, one a line."""
    return "[" + ",\n".join(render_json(row) for row in rows) + "]"


def _missing(path: SourcesPath, there: AbstractSet[int]) -> list[int]:
    """Return the sids that a path names and the pool does not have; of a long range only the first ones."""
    missing: dict[int, None] = {}
    for first, last in path.ranges:
        for sid in range(first, last + 1):
            if len(missing) == MISSING_SHOWN:
                return list(missing)
            if sid not in there:
                missing[sid] = None
    return list(missing)
