"""The log as bytes in lists: every batch is encoded and decoded like a stored one."""

from __future__ import annotations

from threading import Lock

from msgspec.structs import replace

from stepline.model.batch import Batch, decode_batch, encode_batch
from stepline.model.ids import Lane
from stepline.ports.log import (
    Duplicate,
    FeedbackQuery,
    FeedbackRow,
    Listing,
    Occupied,
    OpenLane,
    Place,
    Put,
    Written,
    feedback_rows,
)


class MemoryLog:
    """`batches` maps a lane's key to its stored batches: batch n is at index n - 1."""

    def __init__(self) -> None:
        """Start without conversations."""
        self._lock = Lock()
        self.batches: dict[str, list[bytes]] = {}
        self._messages: dict[tuple[str, str], int] = {}
        self._open: dict[str, OpenLane] = {}
        self._listings: dict[str, Listing] = {}
        self._read: dict[str, int] = {}
        self._feedback: dict[tuple[str, str, str], FeedbackRow] = {}

    def put(self, lane: Lane, batch: Batch, *, message_id: str = "", marks_open: bool = False) -> Put:
        with self._lock:
            stored = self.batches.setdefault(lane.key(), [])
            there = decode_batch(stored[batch.n - 1]) if batch.n <= len(stored) else None
            if there and there.by == batch.by:
                return Occupied(batch=there)
            if message_id and (admitted := self._messages.get((lane.key(), message_id))):
                return Duplicate(n=admitted)
            if there:
                return Occupied(batch=there)
            if batch.n != len(stored) + 1:
                raise ValueError(f"batch {batch.n} would leave a hole behind batch {len(stored)}")
            stored.append(encode_batch(batch))
            for entry, row in feedback_rows(lane, batch):
                self._feedback.pop((lane.key(), entry.turn, entry.origin), None)
                if row is not None:
                    self._feedback[lane.key(), entry.turn, entry.origin] = row
            if message_id:
                self._messages[lane.key(), message_id] = batch.n
            if marks_open:
                self._open[lane.key()] = OpenLane(lane=lane, n=batch.n, since=batch.at)
            return Written()

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        found = self.since(lane, n - 1, upto=n)
        return found[0] if found else None

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        stored = self.batches.get(lane.key())
        return decode_batch(stored[-1]) if stored else None

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        return [decode_batch(body) for body in self.batches.get(lane.key(), [])[max(n, 0) : upto]]

    def admitted(self, lane: Lane, message_id: str) -> int | None:
        return self._messages.get((lane.key(), message_id))

    def clear_open(self, lane: Lane, upto: int) -> None:
        with self._lock:
            if (mark := self._open.get(lane.key())) and mark.n <= upto:
                del self._open[lane.key()]

    def open_lanes(self, *, before: str) -> list[OpenLane]:
        with self._lock:
            marks = [mark for mark in self._open.values() if mark.since <= before]
        return sorted(marks, key=lambda mark: mark.since)

    def project(self, listing: Listing) -> None:
        with self._lock:
            there = self._listings.get(listing.lane.key())
            if there is None or there.applied_n < listing.applied_n:
                self._listings[listing.lane.key()] = listing

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
        after: Place | None = None,
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
