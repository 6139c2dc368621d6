"""Erasure: the tombstones of deleted conversations, the removal of their content, and the erasures of users.

A tombstone is put by the log, in the transaction of the batch that deletes the conversation (`stepline.ports.log.Log.put`).
Each method that removes something may be called again, and by several processes: what is gone is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from stepline.model.base import Value
from stepline.model.batch import Tombstone
from stepline.model.ids import Lane


class Erasure(Protocol):
    """The removal of conversations, a request at a time. Whatever yields has removed so many pieces of content since."""

    def tombstone(self, lane: Lane) -> Tombstone | None:
        """Return the tombstone of a conversation, by a strong read; None if it was not deleted."""

    def pending(self, *, before: str) -> list[Tombstone]:
        """Return the tombstones whose next pass is due at or before an ISO time, oldest first; one may be late here."""

    def keep(self, tombstone: Tombstone) -> None:
        """Store a tombstone outside the table, where a restored table does not lose it; do nothing if it is there."""

    def kept(self) -> Iterator[Tombstone]:
        """Yield every tombstone that is stored outside the table, without what is known only while it is pending."""

    def bury(self, tombstone: Tombstone) -> None:
        """Put a tombstone into the table, pending, in the place of whatever tombstone stands there."""

    def unlist(self, tombstone: Tombstone) -> None:
        """Reduce the conversation's row in its listing to a number that no late writer exceeds."""

    def erase_rows(self, lane: Lane, *, husks_from: str) -> Iterator[int]:
        """Delete the rows of a conversation: first those beside its log, then its batches with what they streamed.

        The oldest go first. A batch put at or after the time `husks_from` becomes a husk, its key and number alone: whoever
        puts at its place is refused. The counters of what the conversation was charged stay as long as husks do.
        """

    def erase_husks(self, lane: Lane) -> Iterator[int]:
        """Delete all husks, the row in the listing, and the counters: nothing but the tombstone is left."""

    def delete_prefix(self, prefix: str, *, but: Sequence[str] = ()) -> Iterator[int]:
        """Delete all versions and delete markers of the objects below a prefix, which ends in `/`.

        Of the keys in `but` the newest version stays.
        """

    def delete_rows(self, pk: str, *, sk: str = "") -> Iterator[int]:
        """Delete the rows of a partition whose sort key begins with `sk`."""

    def postpone(self, lane: Lane, due: str) -> None:
        """Set the time of the next pass."""

    def finish(self, lane: Lane, done_at: str) -> None:
        """Record that nothing but the tombstone is left, and forget its owner's name."""


KEPT_S: Final = 90 * 86_400
"""Seconds for which it is remembered that a user was erased."""


class UserErasure(Value):
    """An erasure; `whose` stands for the user for good (`model.ids.person`), and `user` is "" once nothing is left.

    It concerns what was there at `asked_at`; `done_at` is "" as long as something may be left. Times are ISO-8601 in UTC.
    `conversations` counts those deleted so far. `by_admin`: an admin asked, so what was counted for the user goes, too.
    `told`: the user's connections heard of it and were closed.
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
    """One row a user; each method raises DependencyError."""

    def ask(self, erasure: UserErasure) -> UserErasure:
        """Keep an erasure unless one of this user is not done yet; return the one that is kept."""

    def get(self, tenant: str, project: str, user: str) -> UserErasure | None:
        """Return a user's erasure, by a strong read; None if there was none within KEPT_S."""

    def keep(self, erasure: UserErasure, *, before: UserErasure) -> bool:
        """Replace a user's erasure, if it is still the one `before`; one that is done is no longer pending."""

    def pending(self) -> list[UserErasure]:
        """Return the erasures that are not done, oldest first; a new one may be late."""
