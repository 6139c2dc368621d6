"""The folded conversations a warm process remembers, so that a step reads only what came since.

Who remembers nothing begins with the newest segment, if its step names one. Batches before a segment are read when
somebody asks for them: in a cold process because it never had them, in a warm one because it has let go of them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache

from stepline.loop.journal import Journal
from stepline.loop.segment import open_segment
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.rendering.layout import STANDARD, Layout
from stepline.timeline.fold import Timeline

REMEMBERED = 32
RANGES = 4
"""So many stretches of older batches are kept: those of the open turn, and of turns that its tools look into."""


class History:
    """The newest timelines by lane. A log only grows, so what was folded once stays true.

    Threads of several conversations may share one: each operation on the dictionary is a single step.
    """

    def __init__(self, *, layout: Layout = STANDARD) -> None:
        """Fold in this layout."""
        self._timelines: OrderedDict[Lane, Timeline] = OrderedDict()
        self._layout = layout

    def load(self, journal: Journal, *, segment: int = 0, consistent: bool = False) -> Timeline:
        """Return the conversation's timeline as of now.

        Read are the batches after the remembered ones, or else those after the batch up to which there is a
        `segment`, or all of them.
        """
        known = self._known(journal, segment)
        return self._remember(known, known.extended(journal.since(known.n, consistent=consistent)))

    def follow(self, journal: Journal, batch: Batch) -> Timeline:
        """Return the timeline behind a batch this process has just put, reading only what came in between."""
        known = self._known(journal, batch.state.segment)
        between = [] if batch.n == known.n + 1 else journal.since(known.n, upto=batch.n - 1, consistent=True)
        return self._remember(known, known.extended([*between, batch]))

    def _known(self, journal: Journal, segment: int) -> Timeline:
        known = self._timelines.get(journal.lane)
        if known is not None:
            return known
        opened = open_segment(journal.ports, journal.lane, segment, self._layout) if segment else None
        begun = opened or Timeline.empty(journal.lane, layout=self._layout)
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
    """Let go of the batches that a segment holds, now that it has been named: others begin there, too."""
    base = max(timeline.base, timeline.state.segment)
    return replace(timeline, base=base, batches=timeline.batches[base - timeline.base :])


def _older_batches(journal: Journal) -> Callable[[int, int], Sequence[Batch]]:
    """Return what reads batches that are not at hand. They do not change, so a stretch is read once."""

    @lru_cache(maxsize=RANGES)
    def read(after: int, upto: int) -> tuple[Batch, ...]:
        found = journal.since(after, upto=upto)
        if len(found) < upto - after:  # a weak read may miss the newest of them
            found = journal.since(after, upto=upto, consistent=True)
        return tuple(found)

    return read
