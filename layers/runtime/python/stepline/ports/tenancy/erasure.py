"""Erasure: the tombstones of deleted conversations, and the removal of what stands behind them.

A tombstone is put by the log, in the transaction of the batch that deletes the conversation (`stepline.ports.log.Log.put`).
Each method that removes something may be called again, and by several processes: what is gone is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.entry import Deleted
from stepline.model.ids import Lane, person


class Tombstone(Value):
    """A conversation that was deleted: its names and times, and nothing that was said in it.

    `n` is the batch that deleted it, and `whose` stands for its owner; `owner` is their name as long as something is left to
    erase. `due` is the time of the next pass. With `done_at` nothing but the tombstone is left.
    """

    lane: Lane
    deleted_at: str
    n: int
    whose: str
    owner: str = ""
    due: str = ""
    done_at: str = ""


class Erasure(Protocol):
    """The removal of conversations, a request at a time. Whatever yields has removed so many pieces of content since."""

    def tombstone(self, lane: Lane) -> Tombstone | None:
        """Return the tombstone of a conversation, by a strong read; None if it was not deleted."""
        ...

    def pending(self, *, before: str) -> list[Tombstone]:
        """Return the tombstones whose next pass is due at or before an ISO time, oldest first; one may be late here."""
        ...

    def keep(self, tombstone: Tombstone) -> None:
        """Store a tombstone outside the table, where a restored table does not lose it; do nothing if it is there."""
        ...

    def kept(self) -> Iterator[Tombstone]:
        """Yield every tombstone that is stored outside the table, without what is known only while it is pending."""
        ...

    def bury(self, tombstone: Tombstone) -> None:
        """Put a tombstone into the table, pending, in the place of whatever tombstone stands there."""
        ...

    def unlist(self, tombstone: Tombstone) -> None:
        """Reduce the conversation's row in its listing to a number that no late writer exceeds."""
        ...

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        """Delete the rows of a conversation: first those beside its log, then its batches with what they streamed.

        The oldest go first. A batch put at or after the time `husks_from` becomes a husk, its key and number alone: whoever
        puts at its place is refused. The counters of what the conversation was charged stay as long as husks do.
        """
        ...

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        """Delete all husks, the row in the listing, and the counters: nothing but the tombstone is left."""
        ...

    def delete_prefix(self, prefix: str, *, but: Sequence[str] = ()) -> Iterator[int]:
        """Delete all versions and delete markers of the objects below a prefix, which ends in `/`.

        Of the keys in `but` the newest version stays.
        """
        ...

    def delete_rows(self, pk: str, *, sk: str = "") -> Iterator[int]:
        """Delete the rows of a partition whose sort key begins with `sk`."""
        ...

    def postpone(self, lane: Lane, due: str) -> None:
        """Set the time of the next pass."""
        ...

    def finish(self, lane: Lane, done_at: str) -> None:
        """Record that nothing but the tombstone is left, and forget its owner's name."""
        ...


def bury_batch(lane: Lane, batch: Batch) -> Tombstone | None:
    """Return the tombstone that a batch needs; None if it does not delete its conversation."""
    ending = next((entry for entry in batch.entries if isinstance(entry, Deleted)), None)
    if ending is None:
        return None
    owner = batch.state.owner
    return Tombstone(
        lane=lane,
        deleted_at=ending.at,
        n=batch.n,
        whose=person(lane.tenant, lane.project, owner),
        owner=owner,
        due=ending.at,
    )
