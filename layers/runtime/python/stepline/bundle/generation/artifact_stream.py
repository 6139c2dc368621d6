"""Stream the values of a JSON channel while its object is being written: as artifacts, or as suggested followups."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast, get_args

from stepline.bundle.generation.shown_text import ShownText
from stepline.bundle.generation.subscriber import Consume
from stepline.events.types import Followups
from stepline.model.source import Citation
from stepline.protocol.parser.field import FieldStream, Path
from stepline.protocol.parser.grammar import ChannelSpec, Format

FORMATS: Final = frozenset(get_args(Format))
FOLLOWUP_MARKER: Final = "followup"
FOLLOWUPS: Final = Followups.EVENT
"""The type of a client event; also that of the payloads that hold its data."""


@dataclass(frozen=True, kw_only=True)
class ArtifactSetup:
    """The channel whose objects are split, the keys with their formats, and the surface of the artifacts."""

    channel: str
    formats: Mapping[str, str]
    marker: str


def plan_artifacts(
    channels: Sequence[ChannelSpec], formats: Mapping[str, str] | None, channel: str | None, marker: str
) -> ArtifactSetup | None:
    """Return the artifact setup, if any. Raises ValueError if no declared channel holds the artifacts."""
    if not formats:
        return None
    for spec in channels:
        if channel and channel.lower() in (spec.name.lower(), *(alias.lower() for alias in spec.aliases)):
            return ArtifactSetup(channel=spec.name, formats=formats, marker=marker)
    raise ValueError(f"no channel {channel!r} with objects that could be split")


class _Artifact:
    """One streamed value; its pieces go into the queue that all values share."""

    def __init__(self, key: str, kind: str, sources: Mapping[int, Citation], queue: _Queue) -> None:
        self.key = key
        self.index = 0
        self.is_open = False
        self._sources = sources
        self._queue = queue
        self.show_as(cast("Format", kind) if kind in FORMATS else "markdown")

    def show_as(self, form: Format) -> None:
        """Set the format, before the first piece."""
        self.format = form
        self.shown = ShownText(ChannelSpec("artifact", form), self._sources)

    def take(self, text: str, /) -> None:
        if text:
            self._queue.append((self, text))

    def end(self) -> None:
        self._queue.append((self, None))


_Queue: TypeAlias = deque[tuple[_Artifact, str | None]]
"""Pieces of values in the order of reading; None at a value's end."""


class CompositeJsonArtifactStreamer:
    """Streams the values of the keys in `artifacts_cfg`, a map of top-level key to format.

    An unknown format, such as the path of a schema, is Markdown. A value that is not a string is streamed
    as JSON, in this format; null is no value, and of a duplicate key the first one counts. The deltas of each key are
    numbered from 0; number 0 resets it, and the last one is `completed`. `emit_delta` is called with
    `text index marker agent format artifact_name completed`, and `aborted` for a value without an end; its result is
    awaited.
    """

    def __init__(
        self,
        artifacts_cfg: Mapping[str, str],
        citation_map: Mapping[int, Citation],
        channel: str,
        agent: str,
        emit_delta: Consume,
    ) -> None:
        """Prepare for one object; `channel` is the marker of the deltas."""
        self._queue: _Queue = deque()
        self._artifacts = {
            key: _Artifact(key, kind, citation_map, self._queue) for key, kind in artifacts_cfg.items()
        }
        self._marker = channel
        self._agent = agent
        self._emit = emit_delta
        self._fields = FieldStream(self._choose, self._choose_json)

    async def feed(self, chunk: str) -> None:
        """Take the next piece of the JSON text."""
        self._fields.feed(chunk)
        await self._send()

    async def finish(self, aborted: str = "") -> None:
        """End the text; `aborted` is set if that is too early. Closes a value that is still open.

        If interrupted and called again, it continues with the rest.
        """
        await self._send()
        for artifact in self._artifacts.values():
            if artifact.is_open:
                await self._close(artifact, aborted or "eof")

    def _choose(self, path: Path) -> _Artifact | None:
        artifact = self._artifacts.get(path[0]) if len(path) == 1 else None
        if artifact:
            artifact.is_open = True
        return artifact

    def _choose_json(self, path: Path) -> _Artifact | None:
        artifact = self._choose(path)
        if artifact:
            artifact.show_as("json")
        return artifact

    async def _send(self) -> None:
        while self._queue:
            artifact, text = self._queue.popleft()
            if text is None:
                await self._close(artifact, "")
            else:
                await self._show(artifact, artifact.shown.feed(text))

    async def _close(self, artifact: _Artifact, aborted: str) -> None:
        artifact.is_open = False
        await self._show(artifact, artifact.shown.close())
        facts = {"aborted": aborted} if aborted else {}
        await self._send_delta(artifact, "", completed=True, **facts)

    async def _show(self, artifact: _Artifact, text: str) -> None:
        if text:
            await self._send_delta(artifact, text, completed=False)

    async def _send_delta(self, artifact: _Artifact, text: str, **facts: Any) -> None:
        index, artifact.index = artifact.index, artifact.index + 1
        result = self._emit(
            text=text,
            index=index,
            marker=self._marker,
            agent=self._agent,
            format=artifact.format,
            artifact_name=artifact.key,
            **facts,
        )
        if inspect.isawaitable(result):
            await result


class FollowupStreamer:
    """Sends the suggestions of `{"followups": […]}`, all that are known, as soon as each is complete."""

    def __init__(self, emit: Consume) -> None:
        """Prepare for one object. `emit` is called with the `type` and the `data` of the client event."""
        self._emit = emit
        self._index = -1
        self._items: list[str] = []
        self._sent = 0
        self._text: list[str] = []
        self._fields = FieldStream(lambda path: self if path == ("followups", "") else None)

    def take(self, text: str, /) -> None:
        """Take the next piece of a suggestion."""
        self._text.append(text)

    def end(self) -> None:
        """End the suggestion."""
        self._items += filter(None, ["".join(self._text).strip()])
        self._text.clear()

    async def feed(self, chunk: str) -> None:
        """Take the next piece of the JSON text."""
        self._fields.feed(chunk)
        if self._sent < len(self._items):
            self._sent, self._index = len(self._items), self._index + 1
            data = {"items": [*self._items]}
            result = self._emit(text="", index=self._index, completed=False, type=FOLLOWUPS, data=data)
            if inspect.isawaitable(result):
                await result

    async def finish(self, aborted: str = "") -> None:
        """End the text; an incomplete suggestion is not sent."""
