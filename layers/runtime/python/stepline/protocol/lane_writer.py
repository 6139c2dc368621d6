"""One lane as it is written: its facts before its first character, its citations as links, one end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from msgspec.structs import replace

from stepline.model.source import Citation
from stepline.protocol.citation import CitationStream, CitedFormat
from stepline.protocol.lane import AbortReason, LaneClosed, LaneEvent, LaneFacts, LaneOpened, LaneText
from stepline.protocol.transcript import CloseReason

Emit: TypeAlias = Callable[[LaneEvent], None]

_ABORTED: Final[Mapping[CloseReason, AbortReason]] = {
    "eof": "eof",
    "policy": "policy",
    "cancelled": "cancelled",
    "provider_error": "provider_error",
}

_CITED: Final[Mapping[str, CitedFormat]] = {"markdown": "markdown", "html": "html"}


def abort_reason(reason: CloseReason) -> AbortReason:
    """Return why the lanes of a channel that ended like this will not go on; "" if nothing is missing."""
    return _ABORTED.get(reason, "")


class LaneWriter:
    """Writes one lane. It opens with its first character, so an empty one never shows; `close` is its end.

    With `sources` the citations in markdown and HTML become links; `raw` is the text as it was taken.
    """

    __slots__ = ("_cite", "_emit", "_facts", "_raw", "_sources", "chars", "closed", "name")

    def __init__(
        self, name: str, facts: LaneFacts, emit: Emit, *, sources: Mapping[int, Citation] | None = None
    ) -> None:
        self.name = name
        self.chars = 0
        """How many characters were written; 0 for a lane that was not opened."""
        self.closed = False
        self._facts = facts
        self._emit = emit
        self._sources = sources
        self._raw: list[str] = []
        form = _CITED.get(facts.format)
        self._cite = CitationStream(sources, form) if sources and form else None

    @property
    def raw(self) -> str:
        """What was taken so far, citations as the model wrote them."""
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
        self._emit(LaneText(self.name, text))

    def end(self) -> None:
        """End the lane as it was to end."""
        self.close()

    def close(self, aborted: AbortReason = "") -> None:
        """End the lane, whether it is complete or not. Closing again does nothing."""
        if self.closed:
            return
        self.closed = True
        if self._cite and (tail := self._cite.close()):
            self._write(tail)
        if self.chars:
            self._emit(LaneClosed(lane=self.name, chars=self.chars, aborted=aborted))

    def successor(self) -> LaneWriter:
        """Return a lane that takes the place of this one."""
        if not self.chars:
            return LaneWriter(self.name, self._facts, self._emit, sources=self._sources)
        facts = replace(self._facts, replaces=self.name)
        return LaneWriter(f"{self.name}.r1", facts, self._emit, sources=self._sources)

    def _write(self, text: str) -> None:
        if not self.chars:
            self._emit(LaneOpened(lane=self.name, facts=self._facts))
        self.chars += len(text)
        self._emit(LaneText(self.name, text))


def write_whole(name: str, facts: LaneFacts, text: str, emit: Emit) -> None:
    """Write a lane whose text is known from the start."""
    lane = LaneWriter(name, facts, emit)
    lane.take(text)
    lane.end()
