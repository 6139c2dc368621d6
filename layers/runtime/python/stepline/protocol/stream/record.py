"""The live view of a file: the long parameter of a writing call, on the lane that the short ones choose.

`path` and `channel` come before the content, by the contract of the writing tools; content that comes first
waits for them. The default channel is `canvas`; a renderer has no other, so its content waits for `path` alone.
Only the model sees an `internal` file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from typing import Any, Final

from stepline.errors import PathError
from stepline.model.base import Value
from stepline.model.path import artifact_path
from stepline.protocol.decision.call_check import REFERENCE
from stepline.protocol.parser.field import Taker
from stepline.protocol.stream.lane import LaneFacts, LaneWriter, Marker

OpenLane = Callable[[str, LaneFacts], LaneWriter]
"""Opens a lane of this decision by its kind and facts."""

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
"""Formats by file names and extensions; all others are Markdown."""

_MARKERS: Final[Mapping[str, tuple[str, Marker]]] = {
    "canvas": ("canvas", "canvas"),
    "timeline": ("timeline", "timeline_text"),
    "timeline_text": ("timeline", "timeline_text"),
}


class RecordTool(Value):
    """The way a tool writes: its content parameter, its format if fixed, and the lanes it may use.

    `needed` are the parameters that content waits for. `refs`: the content may be `ref:` and a path instead of
    text.
    """

    content: str = "content"
    format: str = ""
    timeline: bool = False
    needed: frozenset[str] = frozenset({"path", "channel"})
    refs: bool = False


_TOOLS: Final = {
    "react.write": RecordTool(timeline=True, refs=True),
    "react.patch": RecordTool(content="patch", format="markdown"),
}
_RENDERER: Final = "rendering_tools.write_"
_DRAWN: Final = RecordTool(needed=frozenset({"path"}), refs=True, format="markdown")

CONTENTS: Final = frozenset({"content", "patch"})
"""The parameters that hold a file's content."""

TRAITS: Final = frozenset({"path", "channel", "format"})
"""The parameters that determine a file's lane and format."""


def record_tool(tool_id: str) -> RecordTool | None:
    """Return the way a tool writes; None if it does not."""
    return _DRAWN if tool_id.startswith(_RENDERER) else _TOOLS.get(tool_id)


class Record:
    """The content of one call, streamed to its lane; text that comes before the lane is known waits."""

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

    @property
    def writes(self) -> bool:
        """True if the call's tool writes a file."""
        return self._tool is not None

    def settle(self, tool_id: str) -> None:
        """Set the tool; nothing is shown for one that does not write."""
        self._tool = record_tool(tool_id)
        self._chosen = self._tool is None
        if self._tool and self._key != self._tool.content:
            self.forget()
        if self._held:
            self._look()

    def learn(self, trait: str, value: str) -> None:
        """Set one of `TRAITS`."""
        self._traits[trait] = value
        if self._held:
            self._look()

    def taker(self, key: str) -> Taker | None:
        """Return the taker for one of `CONTENTS` as it begins; None if it is not shown."""
        if self._tool and key != self._tool.content:
            return None
        if not self._tool and self._key:
            return None  # which of the two parameters it is cannot be known yet
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
        """End the content, which is complete."""
        self._ended = True
        self._look()
        if self.lane:
            self.lane.end()

    def forget(self) -> None:
        """Drop the waiting text."""
        self._held.clear()
        self._ended = False

    def relearn(self, params: Mapping[str, Any]) -> None:
        """Set everything again from the complete call."""
        self._traits = {trait: value for trait in TRAITS if isinstance(value := params.get(trait), str)}
        self._held = [self.content(params)]
        self._ended = True

    def finish(self) -> None:
        """End the call: missing traits get their defaults."""
        self._traits = {"channel": "canvas", "path": "", **self._traits}
        self._look()
        if self.lane and self._ended:
            self.lane.end()

    def content(self, params: Mapping[str, Any]) -> str:
        """Return the text of a complete call that belongs on its lane."""
        value = params.get(self._tool.content) if self._tool else None
        return value if isinstance(value, str) else ""

    def _look(self) -> None:
        """Choose the lane once everything is known, and pass on the waiting text."""
        if self._chosen or not self._tool or not self._traits.keys() >= self._tool.needed:
            return
        held = "".join(self._held)
        if self._tool.refs and len(held) < len(REFERENCE) and REFERENCE.startswith(held) and not self._ended:
            return
        self._chosen = True
        where = _MARKERS.get(self._traits.get("channel", "canvas"))
        if where is None or (self._tool.refs and held.startswith(REFERENCE)):
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
    """Return a file's path in its turn, such as `outputs/report.md`; an invalid path is returned unchanged."""
    try:
        found = artifact_path(turn, path)
    except PathError:
        return path[:_NAME_CHARS]
    return f"{found.space}/{found.rel}"
