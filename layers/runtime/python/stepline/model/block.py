"""A block: one immutable piece of the timeline, addressed by its logical path; and the tagged lines of a note."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.model.base import Value


class Body(Value):
    """Bytes stored outside of the log: an object written once under `key`."""

    key: str
    sha256: str
    size_bytes: int
    mime: str = "text/markdown"


class Block(Value):
    """An event of the timeline, in the text that the model reads.

    `type` is dotted (`react.tool.result`), `ts` is when it began (order is append order, never `ts`). `text`
    is the body, or `body` names it. `meta` holds data for renderers and readers, JSON only.

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
    """A block produced by a tool, as stored in its result: without the data of its result or turn.

    Time, call, tool and round are those of the call. Without a `path` it has the path of the call,
    `tc:<turn>.<call>.result`.
    """

    type: str = "react.tool.result"
    author: str = "react"
    path: str = ""
    mime: str = "text/markdown"
    text: str = ""
    body: Body | None = None
    meta: dict[str, Any] = msgspec.field(default_factory=dict)


NOTE_TAGS: Final[Mapping[str, str]] = {
    "P": "a preference of the user",
    "D": "a decision and why",
    "S": "structure or a specification",
    "A": "an achievement",
    "K": "a key file's path and why",
}
"""The kinds of a note's lines: a line that begins with `[D]` is a decision."""


def read_note(text: str) -> list[tuple[str, str]]:
    """Return the tagged lines of a note, each with its tag; a line without a tag continues the one before it."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line[:1] == "[" and line[1:2] in NOTE_TAGS and line[2:3] == "]":
            found.append((line[1], [line[3:]]))
        elif found:
            found[-1][1].append(line)
    return [(tag, " ".join(part for line in lines if (part := line.strip()))) for tag, lines in found]


class Hide(Value):
    """An overlay: the block of batch `n` at `path`, unchanged itself, is shown as `replacement`, or not if that is ""."""

    path: str
    n: int
    replacement: str = ""
