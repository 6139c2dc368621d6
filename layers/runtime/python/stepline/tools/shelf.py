"""Shelves: what stands outside the conversation and is read by path all the same, as a bundle provides it.

    ks:<rel>          the bundle's knowledge
    sk:<namespace>.<id>   its skills

A family without a shelf does not exist for the agent. Nothing of a shelf is in the log until a read has shown it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.block import Block, Body
from stepline.model.path import out_key

if TYPE_CHECKING:
    from stepline.tools.context import ToolContext


class Shelved(Value):
    """What stands at a path of a shelf: a text, or `data` for bytes that are none. `path`: where, if an alias was asked for."""

    text: str = ""
    data: bytes | None = None
    mime: str = "text/markdown"
    path: str = ""


Shelf: TypeAlias = Callable[[str], Shelved | None]
"""Returns what stands at a canonical path, None if nothing does. Raises ToolError."""


def read_shelf(path: str, shelf: Shelf, context: ToolContext) -> Block:
    """Return what stands at a path of a shelf as a block that the log does not hold; bytes go to the artifact store.

    Raises ToolError: `not_found`, or what the shelf refuses.
    """
    found = shelf(path)
    if found is None:
        raise ToolError("nothing stands at this path", code="not_found")
    body = _store(found, context) if found.data is not None else None
    kind = "react.skill" if path.startswith("sk:") else "react.knowledge"
    where = found.path or path
    return Block(
        type=kind, author="react", ts=context.ts, path=where, mime=found.mime, text=found.text, body=body
    )


def _store(found: Shelved, context: ToolContext) -> Body:
    data = found.data or b""
    digest = hashlib.sha256(data).hexdigest()
    key = out_key(context.lane, context.turn, digest)
    context.artifacts.put(key, data, mime=found.mime)
    return Body(key=key, sha256=digest, size_bytes=len(data), mime=found.mime)
