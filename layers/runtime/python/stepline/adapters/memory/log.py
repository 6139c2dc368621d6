"""The log as lists of bytes: every batch is encoded and decoded like a stored one."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, Final

from msgspec.structs import replace

from stepline.errors import InputError, NotFoundError
from stepline.model.batch import (
    EMPTY,
    Batch,
    FeedbackRow,
    ForkRow,
    QueuedTurn,
    Tombstone,
    bury_batch,
    decode_batch,
    encode_batch,
    feedback_rows,
    fork_change,
    forked_from,
    is_founding,
    queue_changes,
)
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Scope
from stepline.ports.log import (
    HAS_FORKS,
    Duplicate,
    FeedbackQuery,
    Listing,
    ListPosition,
    Occupied,
    OpenLane,
    Put,
    Slot,
    Slots,
    SlotTaken,
    Written,
)

RESERVED: Final = b"-"


class MemoryLog:
    """`batches` maps a lane's key to its batches: batch n is at index n - 1.

    A husk is empty; an erased batch, and one before the first of a fork, is None; the first place of a fork is RESERVED.

    `tombstones` has the tombstone of each deleted lane.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self.batches: dict[str, list[bytes | None]] = {}
        self._messages: dict[tuple[str, str], int] = {}
        self._open: dict[str, OpenLane] = {}
        self._slots: dict[str, set[int]] = {}
        self._held: dict[str, tuple[Slot, ...]] = {}
        self._queue: dict[str, QueuedTurn] = {}
        self._listings: dict[str, Listing] = {}
        self._read: dict[str, int] = {}
        self._feedback: dict[tuple[str, str, str], FeedbackRow] = {}
        self.tombstones: dict[str, Tombstone] = {}
        self._unlisted: dict[str, int] = {}
        self._forks: dict[str, dict[str, ForkRow]] = {}

    def put(
        self,
        lane: Lane,
        batch: Batch,
        *,
        message_id: str = "",
        marks_open: bool = False,
        slots: Slots | None = None,
    ) -> Put:
        with self._lock:
            stored = self.batches.setdefault(lane.key(), [])
            rated = feedback_rows(lane, batch)
            moved = queue_changes(lane, batch)
            obstacle = self._obstacle(lane, batch, message_id, alone=not (marks_open or rated or moved))
            if obstacle is not None:
                return obstacle
            if (fork := forked_from(batch)) and fork.n:
                stored += [RESERVED, *[None] * (fork.n - 1)]  # its origin has them
            if batch.n > len(stored) + 1:
                raise ValueError(f"batch {batch.n} would leave a hole after batch {len(stored)}")
            if slots is not None and not self._take_slots(lane, slots):
                return SlotTaken()
            stored[batch.n - 1 : batch.n] = [encode_batch(batch)]
            for entry, row in rated:
                self._feedback.pop((lane.key(), entry.turn, entry.origin), None)
                if row is not None:
                    self._feedback[lane.key(), entry.turn, entry.origin] = row
            self._move(moved)
            if message_id:
                self._messages[lane.key(), message_id] = batch.n
            if marks_open:
                self._open[lane.key()] = OpenLane(lane=lane, n=batch.n, since=batch.at)
            self._count_fork(lane, batch)
            if tombstone := bury_batch(lane, batch):
                self.tombstones[lane.key()] = tombstone
                self.unlist(tombstone)
            return Written()

    def _obstacle(self, lane: Lane, batch: Batch, message_id: str, *, alone: bool) -> Put | None:
        """Return the obstacle to a batch, None if there is none; `alone`: no row is put with it.

        Raises NotFoundError `conversation_deleted`, unless the batch is put without a transaction.
        """
        stored = self.batches[lane.key()]
        body = stored[batch.n - 1] if batch.n <= len(stored) else None
        if body == b"":
            raise _deleted()
        there = None if body in (None, RESERVED) else decode_batch(body)
        if there and there.by == batch.by:
            return Occupied(batch=there)
        transacted = not alone or message_id or is_founding(batch) or bury_batch(lane, batch)
        if transacted and (tombstone := self.tombstones.get(lane.key())):
            raise _deleted(tombstone.whose)
        change = fork_change(lane, batch)
        if change and change[1] and (tombstone := self.tombstones.get(change[0].key())):
            raise _deleted(tombstone.whose)
        if bury_batch(lane, batch) and self._forks.get(lane.key()):
            raise InputError(HAS_FORKS, code="has_forks")
        if message_id and (admitted := self._messages.get((lane.key(), message_id))):
            return Duplicate(n=admitted)
        if body == RESERVED or (forked_from(batch) and stored and not there):
            return Occupied(batch=EMPTY)
        return Occupied(batch=there) if there else None

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        found = self.since(lane, n - 1, upto=n)
        return found[0] if found else None

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        stored = [body for body in self.batches.get(lane.key(), []) if body not in (None, RESERVED)]
        if stored and not stored[-1]:
            raise _deleted()
        return decode_batch(stored[-1]) if stored else None

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        found = self.batches.get(lane.key(), [])[max(n, 0) : upto]
        if b"" in found:
            raise _deleted()
        return [decode_batch(body) for body in found if body and body != RESERVED]

    def forks(self, lane: Lane) -> list[ForkRow]:
        with self._lock:
            return [row for _, row in sorted(self._forks.get(lane.key(), {}).items())]

    def admitted(self, lane: Lane, message_id: str) -> int | None:
        return self._messages.get((lane.key(), message_id))

    def clear_open(self, lane: Lane, upto: int) -> None:
        with self._lock:
            if (mark := self._open.get(lane.key())) and mark.n <= upto:
                del self._open[lane.key()]
                for slot in self._held.pop(lane.key(), ()):
                    self._slots[slot.scope.key()].discard(slot.index)

    def _take_slots(self, lane: Lane, slots: Slots) -> bool:
        """Give these slots to the lane's mark; return False if one is not free, or the mark holds others."""
        taken = [(self._slots.setdefault(slot.scope.key(), set()), slot.index) for slot in slots.taken]
        if self._held.get(lane.key(), ()) != slots.held or any(index in there for there, index in taken):
            return False
        for there, index in taken:
            there.add(index)
        self._held[lane.key()] = (*slots.held, *slots.taken)
        return True

    def _count_fork(self, lane: Lane, batch: Batch) -> None:
        """Add a fork to those that its origin counts, or remove it."""
        if change := fork_change(lane, batch):
            counted = self._forks.setdefault(change[0].key(), {})
            counted.pop(lane.conversation, None)
            if change[1]:
                counted[lane.conversation] = change[1]

    def _move(self, changes: list[tuple[QueuedTurn, bool]]) -> None:
        """Add turns to the queue and remove them."""
        for turn, comes in changes:
            if comes:
                self._queue[turn.place] = turn
            else:
                self._queue.pop(turn.place, None)

    def queued_turns(self, most: int) -> list[QueuedTurn]:
        with self._lock:
            return [self._queue[place] for place in sorted(self._queue)[:most]]

    def count_queued(self, before: QueuedTurn | None = None) -> int:
        with self._lock:
            return sum(1 for place in self._queue if before is None or place < before.place)

    def leave_queue(self, turn: QueuedTurn) -> None:
        with self._lock:
            self._queue.pop(turn.place, None)

    def held_slots(self, lane: Lane) -> tuple[Slot, ...]:
        with self._lock:
            return self._held.get(lane.key(), ())

    def taken_slots(self, scope: Scope) -> frozenset[int]:
        with self._lock:
            return frozenset(self._slots.get(scope.key(), ()))

    def open_lanes(self, *, before: str) -> list[OpenLane]:
        with self._lock:
            marks = [mark for mark in self._open.values() if mark.since <= before]
        return sorted(marks, key=lambda mark: mark.since)

    def project(self, listing: Listing) -> None:
        with self._lock:
            name = listing.lane.key()
            there = self._listings.get(name)
            applied_n = there.applied_n if there else self._unlisted.get(name, -1)
            if applied_n < listing.applied_n:
                self._listings[name] = listing

    def listing(self, lane: Lane) -> Listing | None:
        with self._lock:
            row = self._listings.get(lane.key())
            return row and self._with_marks(row)

    def mark_read(self, lane: Lane, n: int) -> None:
        with self._lock:
            self._read[lane.key()] = max(n, self._read.get(lane.key(), 0))

    def conversations(
        self,
        tenant: str,
        project: str,
        user: str,
        *,
        after: ListPosition | None = None,
        most: int | None = None,
    ) -> list[Listing]:
        with self._lock:
            listings = list(self._listings.values())
        theirs = [
            self._with_marks(listing)
            for listing in listings
            if (listing.lane.tenant, listing.lane.project, listing.owner) == (tenant, project, user)
        ]
        rows = sorted(theirs, key=lambda listing: listing.place, reverse=True)
        return [row for row in rows if after is None or row.place < after][:most]

    def feedback(self, query: FeedbackQuery, most: int) -> list[FeedbackRow]:
        with self._lock:
            known = list(self._feedback.values())
        found = [
            row
            for row in known
            if (row.lane.tenant, row.lane.project) == (query.tenant, query.project)
            and query.user in (None, row.owner)
            and query.since <= row.at <= query.until
            and (query.before is None or row.place < query.before)
        ]
        return sorted(found, key=lambda row: row.place, reverse=True)[:most]

    def conversation_feedback(self, lane: Lane) -> list[FeedbackRow]:
        with self._lock:
            found = [row for row in self._feedback.values() if row.lane == lane]
        return sorted(found, key=lambda row: row.place)

    def _with_marks(self, row: Listing) -> Listing:
        name = row.lane.key()
        return replace(row, read_n=self._read.get(name, 0), open=name in self._open)

    def unlist(self, tombstone: Tombstone) -> None:
        """Remove a conversation from its listing, permanently while its husks exist."""
        name = tombstone.lane.key()
        self._listings.pop(name, None)
        self._read.pop(name, None)
        self._unlisted[name] = tombstone.n

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        """Erase a conversation's other rows, then its batches, oldest first (`Erasure.erase_rows`)."""
        name = lane.key()
        rows: tuple[dict[Any, Any], ...] = (self._messages, self._feedback)
        for found in rows:
            for place in [place for place in found if place[0] == name]:
                yield found.pop(place, None) is not None
        for at, body in enumerate(self.batches.get(name, ())):
            if body and body != RESERVED:
                self.batches[name][at] = b"" if decode_batch(body).at >= husks_from else None
                yield 1

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        """Erase the husks, oldest first, and the conversation's row in the listing (`Erasure.erase_husks`)."""
        name = lane.key()
        for at, body in enumerate(self.batches.get(name, ())):
            if body in (b"", RESERVED):
                self.batches[name][at] = None
                yield 1
        if not any(self.batches.get(name, ())):
            self.batches.pop(name, None)
        self._open.pop(name, None)
        self._unlisted.pop(name, None)


def _deleted(whose: str | None = None) -> NotFoundError:
    return NotFoundError("the conversation was deleted", code="conversation_deleted", whose=whose)
