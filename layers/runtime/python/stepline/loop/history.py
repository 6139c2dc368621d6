"""The folded conversations a warm process remembers, so that a step reads only what came since."""

from __future__ import annotations

from collections import OrderedDict

from stepline.loop.journal import Journal
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.timeline.fold import Timeline

REMEMBERED = 32


class History:
    """The newest timelines by lane. A log only grows, so what was folded once stays true."""

    def __init__(self) -> None:
        self._timelines: OrderedDict[Lane, Timeline] = OrderedDict()

    def load(self, journal: Journal, *, consistent: bool = False) -> Timeline:
        """Return the conversation's timeline as of now, reading the batches after the remembered ones."""
        known = self._timelines.get(journal.lane) or Timeline.empty(journal.lane)
        timeline = known.extended(journal.since(known.n, consistent=consistent))
        return self._remember(journal.lane, timeline)

    def follow(self, journal: Journal, batch: Batch) -> Timeline:
        """Return the timeline behind a batch this process has just put, reading only what came in between."""
        known = self._timelines.get(journal.lane) or Timeline.empty(journal.lane)
        between = [] if batch.n == known.n + 1 else journal.since(known.n, upto=batch.n - 1, consistent=True)
        return self._remember(journal.lane, known.extended([*between, batch]))

    def _remember(self, lane: Lane, timeline: Timeline) -> Timeline:
        self._timelines[lane] = timeline
        self._timelines.move_to_end(lane)
        while len(self._timelines) > REMEMBERED:
            self._timelines.popitem(last=False)
        return timeline
