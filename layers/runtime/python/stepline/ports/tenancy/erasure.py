"""Erasure: the tombstones of deleted conversations, the removal of their content, and the erasures of users.

The log puts a tombstone in the transaction of the batch that deletes the conversation (`stepline.ports.log.Log.put`).
Several processes may call each method that removes content, and repeatedly: a removal is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from stepline.model.base import Value
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane


class Erasure(Protocol):
    """The removal of conversations, one request at a time. Iterators yield the number of pieces removed since."""

    def tombstone(self, lane: Lane) -> Tombstone | None:
        """Return the tombstone of a conversation, by a strong read; None if it was not deleted."""

    def pending(self, *, before: str) -> list[Tombstone]:
        """Return the tombstones with a pass due at or before an ISO time, oldest first; a new one may be late."""

    def keep(self, tombstone: Tombstone) -> None:
        """Store a tombstone outside the table, so that a restored table does not lose it; do nothing if it exists."""

    def kept(self) -> Iterator[Tombstone]:
        """Yield every tombstone stored outside the table, without the fields known only while it is pending."""

    def bury(self, tombstone: Tombstone) -> None:
        """Put a tombstone into the table as pending, replacing an existing one."""

    def unlist(self, tombstone: Tombstone) -> None:
        """Reduce the conversation's row in its listing to a number higher than any late writer's."""

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        """Delete the rows of a conversation: first those besides its log, then its batches with their streamed text.

        The oldest go first. A batch put at or after the time `husks_from` becomes a husk, which has only its key and
        number: a put at its position is refused. The counters of the conversation's charges stay as long as husks do.
        """

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        """Delete all husks, the row in the listing, and the counters; only the tombstone is left."""

    def delete_prefix(self, prefix: str, *, but: Sequence[str] = ()) -> Iterator[int]:
        """Delete all versions and delete markers of the objects below a prefix, which ends in `/`.

        The newest version of each key in `but` stays.
        """

    def delete_rows(self, pk: str, *, sk: str = "") -> Iterator[int]:
        """Delete the rows of a partition whose sort key begins with `sk`."""

    def postpone(self, lane: Lane, due: str) -> None:
        """Set the time of the next pass."""

    def finish(self, lane: Lane, done_at: str) -> None:
        """Record that only the tombstone is left, and delete its owner's name."""


KEPT_S: Final = 90 * 86_400
"""Seconds for which the erasure of a user stays recorded."""


class UserErasure(Value):
    """An erasure; `whose` permanently represents the user (`model.ids.person`), and `user` is "" once nothing is left.

    It covers the content that existed at `asked_at`; `done_at` is "" as long as content may be left. Times are ISO-8601
    in UTC. `conversations` counts those deleted so far. `by_admin`: an admin requested it, so the user's counters are
    deleted too. `told`: the user's connections were notified and closed.
    """

    tenant: str
    project: str
    whose: str
    user: str
    asked_at: str
    done_at: str = ""
    conversations: int = 0
    by_admin: bool = False
    told: bool = False


class UserErasures(Protocol):
    """One row per user; each method raises DependencyError."""

    def ask(self, erasure: UserErasure) -> UserErasure:
        """Store an erasure unless one of this user is not done yet; return the stored one."""

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        """Return a user's erasure, by a strong read; None if there was none within KEPT_S."""

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        """Replace a user's erasure if it is still `before`; a completed one is no longer pending."""

    def pending(self) -> list[UserErasure]:
        """Return the erasures that are not done, oldest first; a new one may appear late."""
