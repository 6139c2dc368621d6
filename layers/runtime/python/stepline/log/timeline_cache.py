"""Folded conversations kept by a warm process, so that a step reads only the batches since.

A cold process begins with the newest segment, if its step names one. Batches before a segment are read on
demand: a cold process never had them, a warm one has dropped them.

Segments: put by Decide when the log since the last one is long, read by cold processes.

    seg/<lane>/<batch>-v<format>    the fold of the log up to that batch

The object is put before the batch that names it, and stays valid even if that batch is not stored. Only a log that was
restored to an earlier time may have other batches with its numbers: its segment is replaced before it is named again.
Segments only save time and money: one that cannot be put is not named, and one that cannot be read is folded from the
log.
Source: docs/concepts/log.md#segments.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Final

import msgspec

from stepline.errors import NotFoundError, SteplineError
from stepline.log.bindings import Policy, Ports
from stepline.log.journal import Journal
from stepline.metrics import SEGMENTS_SEALED, SEGMENTS_UNREAD, SEGMENTS_UNSEALED
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.rendering.text_form import STANDARD, TextForm
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import TIMELINE_SEGMENT_FORMAT, decode_segment, encode_segment

REMEMBERED = 32
RANGES = 4
"""The cached ranges of older batches: those of the open turn, and of turns that its tools read."""


class History:
    """The newest timelines by lane. A log only grows, so a folded batch never has to be folded again.

    Threads of several conversations may share one: each operation on the dictionary is a single step.
    """

    def __init__(self, *, form: TextForm = STANDARD) -> None:
        """Use `form` for every fold."""
        self._timelines: OrderedDict[Lane, Timeline] = OrderedDict()
        self._form = form

    def load(self, journal: Journal, *, segment: int = 0, consistent: bool = False) -> Timeline:
        """Return the conversation's timeline as of now.

        It reads the batches after the cached timeline, else those after batch `segment`, else all of them.
        """
        known = self._known(journal, segment)
        return self._remember(known, known.extended(journal.since(known.n, consistent=consistent)))

    def follow(self, journal: Journal, batch: Batch) -> Timeline:
        """Return the timeline after a batch that this process has just put; read only the batches in between."""
        known = self._known(journal, batch.state.segment)
        between = [] if batch.n == known.n + 1 else journal.since(known.n, upto=batch.n - 1, consistent=True)
        return self._remember(known, known.extended([*between, batch]))

    def _known(self, journal: Journal, segment: int) -> Timeline:
        known = self._timelines.get(journal.lane)
        if known is not None:
            return known
        opened = open_segment(journal.ports, journal.lane, segment, self._form) if segment else None
        begun = opened or Timeline.empty(journal.lane, form=self._form)
        return replace(begun, load=_older_batches(journal))

    def _remember(self, known: Timeline, timeline: Timeline) -> Timeline:
        if known.n and timeline.state.segment > known.state.segment:
            timeline = _trimmed(timeline)
        lane = timeline.lane
        self._timelines.pop(lane, None)
        self._timelines[lane] = timeline
        while len(self._timelines) > REMEMBERED:
            self._timelines.popitem(last=False)
        return timeline


def _trimmed(timeline: Timeline) -> Timeline:
    """Drop the batches that a named segment holds; other processes begin after it, too."""
    base = max(timeline.base, timeline.state.segment)
    return replace(timeline, base=base, batches=timeline.batches[base - timeline.base :])


def _older_batches(journal: Journal) -> Callable[[int, int], Sequence[Batch]]:
    """Return a function that reads dropped batches. Batches do not change, so a range is read once."""

    @lru_cache(maxsize=RANGES)
    def read(after: int, upto: int) -> tuple[Batch, ...]:
        found = journal.since(after, upto=upto)
        if len(found) < upto - after:  # a weak read may miss the newest of them
            found = journal.since(after, upto=upto, consistent=True)
        return tuple(found)

    return read


logger = logging.getLogger(__name__)

MIME: Final = "application/msgpack"
_encode: Final = msgspec.json.Encoder().encode


def segment_key(lane: Lane, n: int) -> str:
    """Return the key of the segment up to batch n."""
    return f"seg/{lane.prefix()}/{n:012d}-v{TIMELINE_SEGMENT_FORMAT}"


def seal(ports: Ports, lane: Lane, timeline: Timeline) -> int:
    """Put a segment if the log since the last one is long; return the newest batch that a segment holds."""
    named = timeline.state.segment
    if not _is_long(timeline, ports.policy):
        return named
    body = encode_segment(timeline)
    try:
        key = segment_key(lane, timeline.n)
        if not ports.artifacts.put(key, body, mime=MIME):
            # An earlier step put it, or it has batches that the log lost when it was restored to an earlier time.
            ports.artifacts.replace(key, body, mime=MIME)
    except SteplineError:
        logger.exception("segment not put", extra={"n": timeline.n, "size_bytes": len(body)})
        ports.meter.count(SEGMENTS_UNSEALED)
        return named
    logger.info("segment put", extra={"n": timeline.n, "size_bytes": len(body)})
    ports.meter.count(SEGMENTS_SEALED)
    return timeline.n


def copy_segment(ports: Ports, origin: Lane, lane: Lane, n: int) -> int:
    """Store the origin's segment up to batch n for a fork; return n, or 0 if the fork has none. Raises DependencyError."""
    if not n:
        return 0
    try:
        body = ports.artifacts.get(segment_key(origin, n))
    except NotFoundError:  # it has expired, or has another format
        return 0
    ports.artifacts.put(segment_key(lane, n), body, mime=MIME)
    return n


def open_segment(ports: Ports, lane: Lane, n: int, form: TextForm) -> Timeline | None:
    """Return the timeline up to batch n; None, logged, if its segment is gone or cannot be read here."""
    try:
        found = decode_segment(ports.artifacts.get(segment_key(lane, n)), lane, form)
    except SteplineError:
        logger.exception("segment not read", extra={"n": n})
        found = None
    if found is None:
        logger.warning("log read from its beginning", extra={"n": n})
        ports.meter.count(SEGMENTS_UNREAD)
    return found


def _is_long(timeline: Timeline, policy: Policy) -> bool:
    """Return True if a cold reader would have too much to read after the segment."""
    if timeline.n - timeline.base >= policy.seal_batches:
        return True
    return len(_encode([batch.entries for batch in timeline.batches])) >= policy.seal_bytes
