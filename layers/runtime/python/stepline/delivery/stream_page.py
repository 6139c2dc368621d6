"""A conversation as one stream of frames, in pages: the events after an offset, then the running text beyond it.

Frames are those of `resume`. A page that would be empty may wait for the next frame; a reader that comes later gets
the events, which contain all text that has settled.
Source: docs/concepts/streaming.md#durable-streams.
"""

from __future__ import annotations

from typing import Final, NamedTuple, cast

from msgspec.structs import replace

from stepline.delivery.effect import event_frames
from stepline.delivery.resume import running_text
from stepline.delivery.stream_offset import StreamOffset, find_sent, list_lanes, mark_sent
from stepline.errors import InputError
from stepline.events.derive import newest_event
from stepline.log.journal import Journal
from stepline.log.owned_tail import owned_tail
from stepline.model.wire.event import CONTROL_LANE, DeltaFrame, decode_frame, encode_frame

PAGE_MAX_BYTES: Final = 1024 * 1024
"""The JSON of a page's frames. A page ends before the frame that exceeds it, between two batches."""
AHEAD: Final = 64
"""The batches that one query reads."""
WAIT_MOST_S: Final = 20
"""The longest wait for a frame: the gateway of HTTP APIs ends a request after 30 s."""
PAUSE_FIRST_S: Final = 0.25
PAUSE_GROWTH: Final = 1.5
PAUSE_MOST_S: Final = 1.0
"""The pauses between two looks: text is stored once a second, so a longer one would delay it."""


class StreamPage(NamedTuple):
    """The frames after an offset, as JSON, and the offset after them; `ends`: there were no more."""

    frames: list[bytes]
    offset: StreamOffset
    ends: bool


class StreamReader:
    """Reads one conversation of a user from an offset on."""

    def __init__(self, journal: Journal, user: str, offset: StreamOffset | None) -> None:
        """Begin at an offset, or at the end if it is None.

        Raises:
            NotFoundError: the conversation is absent, foreign, or deleted (`conversation_deleted`).
            InputError: `resume_beyond_end`, the conversation does not have the event of the offset.
        """
        self._journal, self._user = journal, user
        self._tail = owned_tail(journal, user)
        newest = StreamOffset(n=newest_event(self._tail))
        self._offset = newest if offset is None else offset
        if max(self._offset.n, self._offset.claim) > self._tail.n:
            raise InputError(
                f"the conversation ends at {self._tail.n} and has no such offset; begin again without one",
                code="resume_beyond_end",
            )
        self._seen = self._offset.n
        while offset is None:
            page = self.read()
            self._offset = page.offset
            if page.ends:
                break

    @property
    def offset(self) -> StreamOffset:
        """The offset at which it began."""
        return self._offset

    def read(self) -> StreamPage:
        """Return the page after the offset, empty if there is no more. Raises InputError `bad_offset`, DependencyError."""
        page = self._read_events()
        return self._add_text(page) if page.ends else page

    def wait(self, wait_s: float) -> StreamPage:
        """Return the page after the offset, at the latest after `wait_s`; it is empty if nothing came until then.

        Raises as at the beginning, and as `read`: a conversation may be deleted meanwhile.
        """
        ports, pause_s = self._journal.ports, PAUSE_FIRST_S
        until_s = ports.clock.monotonic_s() + wait_s
        page = self.read()
        while not page.frames and (left_s := until_s - ports.clock.monotonic_s()) > 0:
            ports.clock.pause(min(pause_s, left_s))
            pause_s = min(pause_s * PAUSE_GROWTH, PAUSE_MOST_S)
            if ports.log.get(self._journal.lane, self._tail.n + 1, consistent=False):
                self._tail = owned_tail(self._journal, self._user)
            page = self.read()
        return page

    def _read_events(self) -> StreamPage:
        """Return the events after the offset, up to a page; the batches without events are not read again."""
        frames: list[bytes] = []
        offset, size = self._offset, 0
        while self._seen < self._tail.n:
            upto = min(self._seen + AHEAD, self._tail.n)
            for batch in self._journal.since(self._seen, upto=upto, consistent=True):
                made = event_frames(self._journal.ports, self._journal.lane, batch)
                size += sum(map(len, made))
                if frames and size > PAGE_MAX_BYTES:
                    return StreamPage(frames, offset, ends=False)
                self._seen = batch.n
                if made:
                    frames += made
                    offset = replace(offset, n=batch.n)
            self._seen = upto  # also if its batches are being erased: the next look at the tail is refused
        return StreamPage(frames, offset, ends=True)

    def _add_text(self, page: StreamPage) -> StreamPage:
        """Return the page with the running text beyond its offset, up to a page: the lane of lanes before those it opens."""
        journal, claim = self._journal, self._tail.state.claim
        found = [
            cast("DeltaFrame", decode_frame(one))
            for one in running_text(journal.ports, journal.lane, self._tail, claim, {})
        ]
        lines = "".join(frame.text for frame in found if frame.lane == CONTROL_LANE)
        place = page.offset.place if page.offset.claim == claim else ()
        if not found and page.frames:  # the events end the text before them
            return page._replace(offset=StreamOffset(n=page.offset.n))
        has_expired = bool(place) and place[0] > len(lines)
        if not found or has_expired:  # the batch that settles the stream has all of its text
            return page
        sent = find_sent(place, lines) if place else {}
        rank = {name: at for at, name in enumerate((CONTROL_LANE, *list_lanes(lines)))}
        frames, size = list(page.frames), sum(map(len, page.frames))
        for frame in sorted(
            (one for one in found if one.lane in rank), key=lambda one: (rank[one.lane], one.off)
        ):
            have = max(sent.get(frame.lane, 0), frame.off)
            text = frame.text[have - frame.off :]
            if not text:
                continue
            body = encode_frame(replace(frame, off=have, text=text))
            size += len(body)
            if frames and size > PAGE_MAX_BYTES:
                return StreamPage(frames, mark_sent(page.offset.n, claim, sent, lines), ends=False)
            frames.append(body)
            sent[frame.lane] = have + len(text)
        if len(frames) == len(page.frames):
            return page
        return StreamPage(frames, mark_sent(page.offset.n, claim, sent, lines), ends=True)
