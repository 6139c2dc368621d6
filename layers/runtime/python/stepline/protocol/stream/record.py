"""A file while it is written: the long parameter of a call that writes, on the lane that the short ones choose.

`path` and `channel` come before the content, by the contract of the tools that write; a content that comes first
waits for them. Without a channel it is `canvas`. What is `internal` is for nobody but the model.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.path import artifact_path
from stepline.protocol.parser.field import Taker
from stepline.protocol.stream.lane import LaneFacts, LaneWriter, Marker

OpenLane = Callable[[str, LaneFacts], LaneWriter]
"""Makes a lane of this decision: what it is, and its facts."""

_REF: Final = "ref:"
_NAME_CHARS: Final = 300

_FORMATS: Final = {
    "md": "markdown",
    "markdown": "markdown",
    "html": "html",
    "htm": "html",
    "json": "json",
    "yaml": "yaml",
    "yml": "yaml",
    "txt": "text",
    "text": "text",
    "xml": "xml",
    "mmd": "mermaid",
    "mermaid": "mermaid",
}
"""Formats by the names and endings that stand for them; every other is markdown."""

_MARKERS: Final[Mapping[str, tuple[str, Marker]]] = {
    "canvas": ("canvas", "canvas"),
    "timeline": ("timeline", "timeline_text"),
    "timeline_text": ("timeline", "timeline_text"),
}


class RecordTool(Value):
    """How a tool writes: in which parameter, in which format if that is fixed, and where it may be shown.

    `refs`: the content may be `ref:` and a path instead of text.
    """

    content: str = "content"
    format: str = ""
    timeline: bool = False
    refs: bool = False


_TOOLS: Final = {
    "react.write": RecordTool(timeline=True),
    "react.patch": RecordTool(content="patch", format="markdown"),
}
_RENDERER: Final = "rendering_tools.write_"

CONTENTS: Final = frozenset({"content", "patch"})
"""The parameters that hold a file."""

TRAITS: Final = frozenset({"path", "channel", "format"})
"""The parameters that say where and how it is shown."""


def record_tool(tool_id: str) -> RecordTool | None:
    """Return how a tool writes; None if it does not."""
    return RecordTool(refs=True) if tool_id.startswith(_RENDERER) else _TOOLS.get(tool_id)


class Record:
    """The content of one call, on its way to its lane; text that comes before the lane is known waits."""

    def __init__(self, turn: str, execution_id: str, open_lane: OpenLane) -> None:
        self.lane: LaneWriter | None = None
        self._turn = turn
        self._execution_id = execution_id
        self._open_lane = open_lane
        self._tool: RecordTool | None = None
        self._traits: dict[str, str] = {}
        self._key = ""
        self._held: list[str] = []
        self._chosen = self._ended = False

    def settle(self, tool_id: str) -> None:
        """Hear which tool is called; nothing is shown for one that does not write."""
        self._tool = record_tool(tool_id)
        self._chosen = self._tool is None
        if self._tool and self._key != self._tool.content:
            self.forget()
        if self._held:
            self._look()

    def learn(self, trait: str, value: str) -> None:
        """Hear one of `TRAITS`."""
        self._traits[trait] = value
        if self._held:
            self._look()

    def taker(self, key: str) -> Taker | None:
        """Return what takes one of `CONTENTS` where it begins; None if nothing of it is shown."""
        if self._tool and key != self._tool.content:
            return None
        if not self._tool and self._key:
            return None  # which of two it is cannot be known yet
        self._key = key
        self._look()
        return self.lane if self._chosen else self

    def take(self, text: str, /) -> None:
        """Take the next piece of the content."""
        if self.lane:
            self.lane.take(text)
        elif not self._chosen:
            self._held.append(text)
            self._look()

    def end(self) -> None:
        """Hear that the content is complete."""
        self._ended = True
        self._look()
        if self.lane:
            self.lane.end()

    def forget(self) -> None:
        """Drop what waits."""
        self._held.clear()
        self._ended = False

    def relearn(self, params: Mapping[str, Any]) -> None:
        """Hear everything anew from the whole call."""
        self.forget()
        self._traits = {trait: value for trait in TRAITS if isinstance(value := params.get(trait), str)}

    def finish(self) -> None:
        """Hear that the call is complete: what it did not say is as by default."""
        self._traits = {"channel": "canvas", "path": "", **self._traits}
        self._look()
        if self.lane and self._ended:
            self.lane.end()

    def content(self, params: Mapping[str, Any]) -> str:
        """Return the text of a whole call that belongs on its lane."""
        value = params.get(self._tool.content) if self._tool else None
        return value if isinstance(value, str) else ""

    def _look(self) -> None:
        """Choose the lane if everything is known, and let go what waits for it."""
        if self._chosen or not self._tool or not self._traits.keys() >= {"path", "channel"}:
            return
        held = "".join(self._held)
        if self._tool.refs and len(held) < len(_REF) and _REF.startswith(held) and not self._ended:
            return
        self._chosen = True
        where = _MARKERS.get(self._traits["channel"])
        if where is None or (self._tool.refs and held.startswith(_REF)):
            return
        kind, marker = where if self._tool.timeline else _MARKERS["canvas"]
        self.lane = self._open_lane(kind, self._facts(self._tool, marker))
        if held:
            self.lane.take(held)

    def _facts(self, tool: RecordTool, marker: Marker) -> LaneFacts:
        path = self._traits["path"]
        asked = self._traits.get("format", "").lower() or posixpath.splitext(path)[1][1:].lower()
        return LaneFacts(
            marker=marker,
            format=tool.format or _FORMATS.get(asked, "markdown"),
            artifact_name=turn_path(self._turn, path),
            execution_id=self._execution_id,
        )


def turn_path(turn: str, path: str) -> str:
    """Return where a file lies in its turn, as `outputs/report.md`; a path that will be refused stays as it is."""
    try:
        found = artifact_path(turn, path)
    except PathError:
        return path[:_NAME_CHARS]
    return f"{found.space}/{found.rel}"
