"""The log: one primitive, *put batch n of a conversation if it does not exist*."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

from stepline.model.base import Value
from stepline.model.batch import Batch, FeedbackPlace, FeedbackRow, ForkRow, QueuedTurn
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Scope

HAS_FORKS: Final = "other conversations are forks of this one; delete them first, or with it"


class Written(Value):
    """The batch is in the log, put by this call."""


class Occupied(Value):
    """Batch n exists already (perhaps our own: compare `by`); nothing was written."""

    batch: Batch


class Duplicate(Value):
    """The message of this batch was admitted before, in batch `n`; nothing was written."""

    n: int


class Slot(Value):
    """A slot for one concurrent turn of an account; there are as many as its limit, plus those of continued turns.

    The slots of the stage itself have a `stage_scope`.
    """

    scope: Scope
    index: int


class Slots(Value):
    """The slots of a turn that opens: those that its lane's mark already holds, and the free ones that it takes."""

    held: tuple[Slot, ...] = ()
    taken: tuple[Slot, ...] = ()


STAGE_GROUP: Final = 64
"""The number of stage slots in one partition: no partition is hot, and a search for a free slot reads few rows."""


def stage_scope(group: str) -> Scope:
    """Return the scope of a group of the stage's own slots; no account has a tenant without a name."""
    return Scope(tenant="", project=group)


def is_stage_slot(slot: Slot) -> bool:
    """Return True for one of the stage's own slots."""
    return not slot.scope.tenant


class SlotTaken(Value):
    """A slot is no longer free, or the lane's mark holds other slots; nothing was written."""


Put: TypeAlias = Written | Occupied | Duplicate | SlotTaken


class OpenLane(Value):
    """A conversation with an open turn, from the listing; batch `n` opened it or took it over last."""

    lane: Lane
    n: int
    since: str


ListPosition: TypeAlias = tuple[str, str]
"""The position of a row in its owner's list: the time of its last activity, and its conversation."""


class Listing(Value):
    """A row of a conversation listing. `applied_n` orders writers; a late writer loses.

    `active_n` is the newest batch with content to read, at `last_at`, and `read_n` is the newest batch that the user
    has read. `open`: the conversation is marked open. No projection changes `read_n` or `open`. `importing`: the
    import is not complete, and the row is hidden. `waits_for`: an open turn without a mark waits for an `approval`; ""
    for nothing. `branch_of`: the root of a branch.
    """

    lane: Lane
    owner: str
    title: str
    last_at: str
    applied_n: int
    turn: str = ""
    outcome: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    open: bool = False
    started_at: str = ""
    turns: int = 0
    active_n: int = 0
    read_n: int = 0
    importing: bool = False
    waits_for: Literal["", "approval"] = ""
    branch_of: str = ""

    @property
    def place(self) -> ListPosition:
        """The row's position in the list of its owner."""
        return (self.last_at, self.lane.conversation)


class FeedbackQuery(Value):
    """The feedback in a project from `since` to `until`, both included, of every user or of one `user`'s conversations.

    `before` is the position at which the previous page ended.
    """

    tenant: str
    project: str
    since: str
    until: str
    user: str | None = None
    before: FeedbackPlace | None = None


class Log(Protocol):
    """One dense sequence of batches per lane, from n = 1, and the list of conversations derived from it."""

    def put(
        self,
        lane: Lane,
        batch: Batch,
        *,
        message_id: str = "",
        marks_open: bool = False,
        slots: Slots | None = None,
    ) -> Put:
        """Put `batch` at its n if that is free, and the rows of its feedback in the same transaction.

        The transaction also includes the message's row with `message_id`, the listing's `lane_open = n` with
        `marks_open`, the slots that the turn takes with `slots`, and the changes of its entries to the stage's queue
        (`queue_changes`). If our own batch already exists, the result is `Occupied`, before any other obstacle: an
        answer was lost. After that, a message that was admitted before is `Duplicate`, even if n is also occupied.

        A batch that deletes its conversation puts the tombstone in its transaction, and removes the conversation from
        its listing. A tombstone refuses every other transaction, a first batch, and a batch of an import
        (`is_founding`). A husk also refuses a put at its position.

        The first batch of a fork puts the fork's row at the conversation that counts it, and reserves the number 1: a put
        there is `Occupied` by the empty batch. The batch that deletes the fork removes the row (`fork_change`).

        Raises:
            InputError: `has_forks`, the batch would delete a conversation with forks.
            NotFoundError: `conversation_deleted`, the origin of a fork, too; if a tombstone refused, the context's
                `whose` identifies the owner.
            UnknownOutcome: the answer was lost or the transaction conflicted; the batch may or may not exist.
            DependencyError: nothing was written, for a temporary reason.
        """
        ...

    def get(self, lane: Lane, n: int, *, consistent: bool = True) -> Batch | None:
        """Return batch n."""
        ...

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        """Return the newest batch; a stale answer is older, never wrong."""
        ...

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        """Return every batch after n (up to and including `upto`), in order, from all pages."""
        ...

    def forks(self, lane: Lane) -> list[ForkRow]:
        """Return the forks that a conversation counts, in the order of their names, by a strong read."""
        ...

    def admitted(self, lane: Lane, message_id: str) -> int | None:
        """Return the batch that admitted this message, by a strong read."""
        ...

    def project(self, listing: Listing) -> None:
        """Write the listing row if `applied_n` is newer than the stored one."""
        ...

    def listing(self, lane: Lane) -> Listing | None:
        """Return a conversation's row, by a strong read; None if none was written."""
        ...

    def mark_read(self, lane: Lane, n: int) -> None:
        """Record that the owner has read the conversation up to batch n, unless they have read further."""
        ...

    def conversations(
        self,
        tenant: str,
        project: str,
        user: str,
        *,
        after: ListPosition | None = None,
        most: int | None = None,
    ) -> list[Listing]:
        """Return a user's conversations, newest activity first: at most `most`, after the position `after`."""
        ...


class OpenLanes(Protocol):
    """The marks of the lanes with an open turn, and the slots that they hold."""

    def open_lanes(self, *, before: str) -> list[OpenLane]:
        """Return the lanes marked open at or before the time `before` (ISO-8601), oldest first."""
        ...

    def clear_open(self, lane: Lane, upto: int) -> None:
        """Remove the lane from the open listing and free its slots, unless a batch after `upto` opened it again."""
        ...

    def held_slots(self, lane: Lane) -> tuple[Slot, ...]:
        """Return the slots that the lane's mark holds, by a strong read."""
        ...

    def taken_slots(self, scope: Scope) -> frozenset[int]:
        """Return the numbers of an account's slots that are taken, by a strong read."""
        ...


class Queue(Protocol):
    """The turns of the stage that wait for a slot; a put changes them (`queue_changes`)."""

    def queued_turns(self, most: int) -> list[QueuedTurn]:
        """Return the first turns of the stage's queue, the one that waits longest first, by a strong read."""
        ...

    def count_queued(self, before: QueuedTurn | None = None) -> int:
        """Return the number of queued turns, or the number queued before one turn, by a strong read."""
        ...

    def leave_queue(self, turn: QueuedTurn) -> None:
        """Remove a turn from the queue if its lane no longer waits."""
        ...


class FeedbackIndex(Protocol):
    """The feedback of a project; a put changes it (`feedback_rows`)."""

    def feedback(self, query: FeedbackQuery, most: int) -> list[FeedbackRow]:
        """Return the newest `most` rows of a query, newest first; a row may be late here."""
        ...

    def conversation_feedback(self, lane: Lane) -> list[FeedbackRow]:
        """Return the rows of a conversation, oldest first, by a strong read."""
        ...


class StageLog(Log, OpenLanes, Queue, FeedbackIndex, Protocol):
    """The log of a stage, with the rows that its puts change in the same transaction."""
