"""A block: one immutable piece of the timeline, addressed by its logical path."""

from __future__ import annotations

from typing import Any

import msgspec

from stepline.model.base import Value


class Body(Value):
    """Bytes that do not live in the log: an object written once under `key`."""

    key: str
    sha256: str
    size_bytes: int
    mime: str = "text/markdown"


class Block(Value):
    """What happened, in the words the model reads.

    `type` is dotted (`react.tool.result`), `ts` is when the thing began (order is append order, never `ts`).
    `text` is the body, or `body` names it. `meta` holds what a renderer or a reader may use, JSON only.
    Source: docs/concepts/timeline.md.
    """

    type: str
    author: str
    ts: str
    turn_id: str = ""
    path: str = ""
    mime: str = "text/markdown"
    text: str = ""
    body: Body | None = None
    call_id: str = ""
    tool_id: str = ""
    iteration: int = 0
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


class Produced(Value):
    """A block that a tool produced, as its result stores it: without what the result and its turn say already.

    When it began, by which call, of which tool and in which round are the call's. Without a `path` it stands at
    the call's own, `tc:<turn>.<call>.result`.
    """

    type: str = "react.tool.result"
    author: str = "react"
    path: str = ""
    mime: str = "text/markdown"
    text: str = ""
    body: Body | None = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict)
