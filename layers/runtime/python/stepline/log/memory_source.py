"""The rows of the memory index, read directly from the logs of a user's conversations since a batch.

Nothing is stored at the end of a turn; a search reads the new batches itself. Source: docs/concepts/memory.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from stepline.errors import NotFoundError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_alive
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.timeline.fold import Timeline
from stepline.timeline.memory_rows import range_rows, turn_rows

AHEAD: Final = 256
"""The batches that are read at once: a long conversation may exceed the memory, and is rarely needed in full."""


class NewRows(NamedTuple):
    """Rows of one conversation, and the batch up to which they are complete; `whole` if that is its newest one."""

    rows: tuple[MemoryRow, ...]
    upto: int
    whole: bool


class LogRows:
    """The rows of the conversations of a deployment's log."""

    def __init__(self, ports: Ports) -> None:
        """Read the log and the artifacts of `ports`."""
        self._ports = ports
        self._history = History()

    def newest(self, scope: MemoryScope) -> dict[str, int]:
        """Return the newest known batch of each of the user's conversations, newest activity first."""
        listed = self._ports.log.conversations(scope.tenant, scope.project, scope.user)
        return {row.lane.conversation: row.applied_n for row in listed if not row.importing}

    def read(self, scope: MemoryScope, conversation: str, *, after: int, most: int) -> NewRows:
        """Return the rows of turns and compactions that ended after a batch; it ends after the turn that reaches `most`.

        A conversation that was deleted has none.

        Raises DependencyError.
        """
        lane = Lane(tenant=scope.tenant, project=scope.project, conversation=conversation)
        try:
            return self._read(lane, after=after, most=most)
        except NotFoundError as error:
            if error.reason != DELETED:
                raise
            return NewRows((), after, whole=True)

    def _read(self, lane: Lane, *, after: int, most: int) -> NewRows:
        journal = Journal(self._ports, lane, "memory")
        tail = journal.tail(consistent=False)
        check_alive(tail.state)
        timeline = self._history.load(journal, segment=tail.state.segment)
        own = timeline.state.forked  # the rows of earlier turns are those of the origin
        closed = [turn for turn in timeline.history if turn.closed > after and turn.opened >= own]
        if closed:
            first = min((closed[0].opened, *closed[0].prompts)) - 1
            timeline = replace(timeline, load=_read_ahead(timeline, journal, first))
        rows: list[MemoryRow] = []
        for turn in closed:
            rows += turn_rows(timeline, turn.id)
            if len(rows) >= most and turn != closed[-1]:
                return NewRows(tuple(rows), turn.closed, whole=False)
        if timeline.current:
            rows += (row for row in range_rows(timeline, timeline.current.id) if row.n > after)
        return NewRows(tuple(rows), timeline.n, whole=True)


def _read_ahead(
    timeline: Timeline, journal: Journal, first: int
) -> Callable[[int, int], Sequence[Batch]] | None:
    """Return the reader of batches that are not loaded: batches after `first` are read many at once, others as requested."""
    if timeline.load is None or first >= timeline.base:
        return timeline.load
    older = timeline.load
    begin, held = first, list[Batch]()

    def read(after: int, upto: int) -> Sequence[Batch]:
        nonlocal begin, held
        if after < begin:
            return older(after, upto)
        if upto > begin + len(held):
            last = min(timeline.base, max(upto, after + AHEAD))
            begin, held = after, journal.since(after, upto=last, consistent=True)
        return held[after - begin : upto - begin]

    return read
