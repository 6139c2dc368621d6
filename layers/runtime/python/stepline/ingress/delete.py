"""Deletion: the batch that ends a conversation permanently, with its open turn, and the effects of this batch.

The batch and the tombstone are one transaction. Nothing is put after it, and all content may be erased
(`stepline.log.erase_conversation`). Source: docs/concepts/erasure.md.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from msgspec.structs import replace

from stepline.delivery.effect import publish
from stepline.delivery.settle_account import settle_account
from stepline.delivery.stage_queue import begin_queued, queued_turn
from stepline.errors import BusyError, InputError, NotFoundError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED
from stepline.log.fork_tree import walk_forks
from stepline.log.journal import Draft, Journal, fork_of
from stepline.log.owned_tail import refuse_absent
from stepline.log.transition import deleted
from stepline.loop.close import hand_back_all
from stepline.loop.programs.interrupt import end_program, running_program
from stepline.model.batch import Batch
from stepline.model.entry import Deleted, Entry
from stepline.model.ids import Lane, utc

logger = logging.getLogger(__name__)


def apply_deletion(ports: Ports, lane: Lane, user: str, *, cascade: bool = False) -> Batch:
    """End the conversation permanently, and begin a turn that waits for its slot. Raises as `end_conversation` does."""
    batch = end_conversation(ports, lane, user, cascade=cascade)
    begin_queued(ports)
    return batch


def end_conversation(ports: Ports, lane: Lane, user: str, *, cascade: bool = False) -> Batch:
    """End the conversation permanently; return the batch that did, by this call or an earlier one.

    Its branches end before it, with `cascade` all its forks, and theirs before them.

    Raises:
        InputError: `has_forks`: it has forks that are no branches, or a branch has, and they are not to be deleted.
        NotFoundError: `not_found`, it is absent or another user's; `conversation_deleted`, it is erased already.
        BusyError: the lane is contended; the client sends again.
    """
    journal = Journal(ports, lane, "delete")

    def plan(tail: Batch) -> Draft | Batch:
        if not tail.n:
            raise refuse_absent(ports, lane, user)
        if tail.state.owner != user:
            raise NotFoundError("no such conversation")
        return tail if tail.state.deleted else _draft(journal, tail)

    try:
        batch = _commit(journal, plan, user, cascade=cascade)
    except NotFoundError as error:
        raise (refuse_absent(ports, lane, user) if error.reason == DELETED else error) from error
    follow_deletion(ports, lane, batch)
    return batch


def _commit(journal: Journal, plan: Callable[[Batch], Draft | Batch], user: str, *, cascade: bool) -> Batch:
    """Put the end. Forks are ended first, also those that were made in the meantime."""
    ports, lane = journal.ports, journal.lane
    for _ in range(ports.policy.append_tries):
        try:
            return journal.commit(plan)
        except InputError as error:
            if error.reason != "has_forks":
                raise
            forks = list(walk_forks(ports.log, lane))
            if not (cascade or all(fork.branch_of for fork in forks)):
                raise
        for fork in reversed(forks):
            try:
                end_conversation(ports, replace(lane, conversation=fork.conversation), user, cascade=cascade)
            except NotFoundError as error:  # another process has ended it
                if error.reason != DELETED:
                    raise
    raise BusyError("the conversation is forked again and again", tries=ports.policy.append_tries)


def _draft(journal: Journal, tail: Batch) -> Draft:
    """Plan the end: messages that no turn has heeded are returned to their senders."""
    state, at = tail.state, utc(journal.ports.clock.now())
    entries: list[Entry] = []
    if state.status == "open":
        journal.take_over(state.claim)  # the running attempt is refused from now on
        suffix = journal.since(state.rendered, upto=tail.n, consistent=True)
        entries += hand_back_all(suffix, state)
    first = fork_of(journal.ports.log, journal.lane) if state.forked else None
    counts = first.counter if first else ""
    end = Deleted(at=at, turn=state.turn, call_id=running_program(state), origin=counts)
    waits = queued_turn(journal.ports, journal.lane, state)
    entries.append(replace(end, n=waits.n, queued_at=waits.at) if waits else end)
    return Draft(entries=tuple(entries), state=deleted(state, tail.n + 1))


def follow_deletion(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Carry out the effects of a deletion, perhaps again: end steps, notify clients, and free the turn's slots."""
    ports.signals.notify(lane, batch.n)
    publish(ports, lane, batch)
    settle_account(ports, lane, batch)
    ports.log.clear_open(lane, batch.n)


def redo_deletion(ports: Ports, lane: Lane) -> bool:
    """Carry out all effects of a deletion once more, and end a running program; return False if its batch is erased.

    Raises only errors that can be retried: a program that cannot be ended ends on its own.
    """
    try:
        batch = ports.log.tail(lane, consistent=True)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
        return False
    ending = next((e for e in batch.entries if isinstance(e, Deleted)), None) if batch else None
    if batch is None or ending is None:
        return False
    follow_deletion(ports, lane, batch)
    if ending.call_id:
        try:
            end_program(ports, lane, ending.turn, ending.call_id)
        except SteplineError as error:
            logger.exception("program not ended", extra={"call_id": ending.call_id, "code": error.reason})
    return True
