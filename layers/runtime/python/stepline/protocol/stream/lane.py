"""Lanes: the client's view of a running generation, as a stream of pure values.

A lane is one text that grows: a status, an answer, a file while it is written. Its name is
`<what>.<instance>[.<part>]`, unique in its stream, and its facts are sent before its first character. A lane
that replaces another one makes the other's text void. Every opened lane is closed, in every case.
`LaneWriter` writes one lane, with its citations as links; `CodeLane` that of a program.

Source: docs/reference/events.md#lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.source import Citation
from stepline.protocol.citation.citation_stream import CitationStream, CitedFormat

Marker: TypeAlias = Literal["thinking", "timeline_text", "answer", "canvas", "subsystem"]

AbortReason: TypeAlias = Literal["", "policy", "cancelled", "provider_error", "eof"]


class LaneFacts(Value):
    """The content of a lane, and where a client shows it. `format` is a channel's format, or `python`.

    `artifact_name` is the path or name of the file, `sub_type` the kind of a widget, `execution_id` the call
    it belongs to, `replaces` the lane whose text this one makes void. `began_at` is when its program began to run.
    """

    marker: Marker
    format: str = "markdown"
    artifact_name: str = ""
    title: str = ""
    sub_type: str = ""
    execution_id: str = ""
    language: str = ""
    replaces: str = ""
    began_at: str = ""


class LaneOpened(Value, tag="open", tag_field="do"):
    """A lane begins."""

    lane: str
    facts: LaneFacts


class LanePiece(Value, kw_only=False, gc=False):
    """The next piece of a lane's text, never empty."""

    lane: str
    text: str


class LaneClosed(Value, tag="close", tag_field="do"):
    """The end of a lane of `chars` characters. `aborted` says why it is incomplete, `at` when its program ended."""

    lane: str
    chars: int
    aborted: AbortReason = ""
    at: str = ""


LaneEvent: TypeAlias = LaneOpened | LanePiece | LaneClosed

Emit: TypeAlias = Callable[[LaneEvent], None]

_CITED: Final[Mapping[str, CitedFormat]] = {"markdown": "markdown", "html": "html"}


class LaneWriter:
    """Writes one lane. It opens with its first character, so an empty one is never shown; `close` ends it.

    With `sources` the citations in Markdown and HTML become links; `raw` is the text as received.
    """

    __slots__ = ("_cite", "_emit", "_facts", "_raw", "_sources", "chars", "closed", "name")

    def __init__(
        self, name: str, facts: LaneFacts, emit: Emit, *, sources: Mapping[int, Citation] | None = None
    ) -> None:
        self.name = name
        self.chars = 0
        """The number of characters written; 0 for a lane that was not opened."""
        self.closed = False
        self._facts = facts
        self._emit = emit
        self._sources = sources
        self._raw: list[str] = []
        form = _CITED.get(facts.format)
        self._cite = CitationStream(sources, form) if sources and form else None

    @property
    def raw(self) -> str:
        """The text received so far, with its citation tokens."""
        return "".join(self._raw)

    def take(self, text: str, /) -> None:
        """Write the next piece."""
        self._raw.append(text)
        if self._cite:
            text = self._cite.feed(text)
            if not text:
                return
        if not self.chars:
            self._emit(LaneOpened(lane=self.name, facts=self._facts))
        self.chars += len(text)
        self._emit(LanePiece(self.name, text))

    def end(self) -> None:
        """End a complete lane."""
        self.close()

    def close(self, aborted: AbortReason = "") -> None:
        """End the lane, complete or not. Closing again does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._cite and (tail := self._cite.close()):
            self._write(tail)
        if self.chars:
            self._emit(LaneClosed(lane=self.name, chars=self.chars, aborted=aborted))

    def successor(self) -> LaneWriter:
        """Return a lane that replaces this one."""
        if not self.chars:
            return LaneWriter(self.name, self._facts, self._emit, sources=self._sources)
        facts = replace(self._facts, replaces=self.name)
        return LaneWriter(f"{self.name}.r1", facts, self._emit, sources=self._sources)

    def _write(self, text: str) -> None:
        if not self.chars:
            self._emit(LaneOpened(lane=self.name, facts=self._facts))
        self.chars += len(text)
        self._emit(LanePiece(self.name, text))


class CodeLane(LaneWriter):
    """Program text; leading blanks are written with the first other character."""

    __slots__ = ("_lead", "aborted")

    def __init__(self, name: str, facts: LaneFacts, emit: Emit) -> None:
        super().__init__(name, facts, emit)
        self.aborted: AbortReason = ""
        self._lead: list[str] = []

    def take(self, text: str, /) -> None:
        """Write the next piece."""
        if not self.chars:
            self._lead.append(text)
            if text.isspace():
                return
            text = "".join(self._lead)
        self._write(text)

    def close(self, aborted: AbortReason = "") -> None:
        """End the lane, complete or not."""
        super().close(aborted)
        self.aborted = self.aborted or aborted


def write_whole(name: str, facts: LaneFacts, text: str, emit: Emit) -> None:
    """Write a lane whose whole text is known."""
    lane = LaneWriter(name, facts, emit)
    lane.take(text)
    lane.end()
