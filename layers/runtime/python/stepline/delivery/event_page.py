"""A page of a conversation's events: the newest turns first, for a client that does not replay everything.

Pages are adjacent: the last batch of one directly precedes the first batch of the next. A page begins where a turn
opened; a turn that is larger than a page is cut between two batches.
Source: docs/concepts/http-api.md#events-in-pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepline.delivery.effect import frame_batch
from stepline.log.bindings import Ports
from stepline.model.base import Value
from stepline.model.wire.event import EventFrame, encode_frame
from stepline.timeline.fold import Timeline

PAGE_MAX_BYTES: Final = 4 * 1024 * 1024
"""The JSON of a page's frames; a function's answer has at most 6 MB."""
AHEAD: Final = 256
"""The batches that one query reads: most pages need one query, and none reads many batches that it does not show."""


class ForkStart(Value, omit_defaults=False):
    """The start of a fork: its batches up to `n` are in the log of `origin`. A branch names its root, `branch_of`."""

    origin: str
    n: int
    branch_of: str


class EventPage(Value, omit_defaults=False):
    """The frames of a page, oldest first, exactly as `resume` sends them.

    `first_n` is the number of its first batch, 0 for an empty page: the previous page ends `before` that number.
    `more`: a previous page exists. `turns_before` counts the turns that opened before its first batch. `fork` says where
    a fork begins; null for a conversation that is none.
    """

    events: tuple[EventFrame, ...] = ()
    first_n: int = 0
    more: bool = False
    turns_before: int = 0
    fork: ForkStart | None = None


def read_page(ports: Ports, timeline: Timeline, *, before: int, turns: int) -> EventPage:
    """Return the last `turns` turns of the events before batch `before`; 0 is the end of the conversation.

    Raises DependencyError if a long text of a batch cannot be read.
    """
    end = min(before or timeline.n + 1, timeline.n + 1)
    begins = [1, *(turn.opened for turn in timeline.history[1:])]
    begins = [begin for begin in begins if begin < end][-turns:]
    newest_first: list[EventFrame] = []
    if not begins:
        return EventPage()
    first, size = end, 0
    whole, whole_first = 0, end  # up to the oldest turn that is complete from its beginning
    for frames, n in _backwards(ports, timeline, begins[0], end):
        size += sum(len(encode_frame(frame)) for frame in frames)
        if size > PAGE_MAX_BYTES and first < end:
            if whole_first < end:
                newest_first, first = newest_first[:whole], whole_first
            break
        newest_first += reversed(frames)
        first = n
        if n in begins:
            whole, whole_first = len(newest_first), n
    return EventPage(
        events=tuple(reversed(newest_first)),
        first_n=first,
        more=first > 1,
        turns_before=sum(turn.opened < first for turn in timeline.history),
    )


def _backwards(
    ports: Ports, timeline: Timeline, begin: int, end: int
) -> Iterator[tuple[list[EventFrame], int]]:
    """Yield the frames and the number of each batch from `begin` on and before `end`, newest first."""
    while end > begin:
        start = max(begin, end - AHEAD)
        batches = timeline.since(start - 1, end - 1)
        for batch in reversed(batches):
            yield frame_batch(ports, timeline.lane, batch), batch.n
        end = start
