"""The folded conversations a warm process remembers, so that a step reads only what came since."""

from __future__ import annotations

from collections import OrderedDict

from stepline.loop.journal import Journal
from stepline.model.ids import Lane
from stepline.timeline.fold import Timeline

REMEMBERED = 32


class History:
    """The newest timelines by lane. A log only grows, so what was folded once stays true."""

    def __init__(self) -> None:
        self._timelines: OrderedDict[Lane, Timeline] = OrderedDict()

    def load(self, journal: Journal, *, consistent: bool = False) -> Timeline:
        """Return the conversation's timeline as of now, reading the batches after the remembered ones."""
        known = self._timelines.pop(journal.lane, None) or Timeline.empty(journal.lane)
        timeline = known.extended(journal.since(known.n, consistent=consistent))
        self._timelines[journal.lane] = timeline
        while len(self._timelines) > REMEMBERED:
            self._timelines.popitem(last=False)
        return timeline
