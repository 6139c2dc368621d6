"""The stage's queue: a turn beyond the bound waits for a slot of the stage, and begins when one is free.

A turn that has an execution holds one of the stage's slots; like the slots of accounts, it is taken and released with
the mark of its lane. A process that frees a slot begins the first waiting turn, and so does a process that has just
queued one: a slot may have become free in between. Without a bound nothing is read or written here.
Source: docs/concepts/log.md#queued-turns.
"""

from __future__ import annotations

import logging
import math
import secrets
from dataclasses import replace as with_fields
from typing import Final, Literal, TypeAlias

from stepline.delivery.effect import project, publish, redo
from stepline.errors import NotFoundError, SteplineError
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED
from stepline.log.journal import Draft, Journal
from stepline.log.transition import begun
from stepline.metering.ledger import Ledger
from stepline.metrics import QUEUE_WAIT_MS, TURNS_STARTED
from stepline.model.batch import Batch, QueuedTurn, State
from stepline.model.entry import Begun
from stepline.model.ids import Lane, utc
from stepline.ports.log import STAGE_GROUP, Slot, Slots, stage_scope

logger = logging.getLogger(__name__)

QUEUE_SCAN_MAX: Final = 40
"""The most turns read from the head of the queue: some of them may not be able to begin now."""

EXTRA: Final = "extra"
"""The group of slots beyond the bound, for turns that begin only to end."""

Tried: TypeAlias = Literal["begun", "gone", "full", "failed"]


def free_mark(ports: Ports, lane: Lane, upto: int) -> None:
    """Remove a lane's open mark unless it is newer than batch `upto`, and begin a turn that waits for its slot."""
    ports.log.clear_open(lane, upto)
    begin_queued(ports)


def follow_parking(ports: Ports, lane: Lane, tail: Batch) -> None:
    """List a parked turn as waiting, and remove its open mark, perhaps again: the sweeper has nothing to do for it."""
    parked_at = tail.state.parked
    if not parked_at:
        return
    if tail.n == parked_at:
        project(ports, lane, tail)
    free_mark(ports, lane, parked_at)


def begin_queued(ports: Ports) -> None:
    """Begin queued turns, the longest waiting first, as long as the stage has a free slot.

    A turn that cannot begin now does not block the ones after it. Raises nothing: the process that frees the next slot
    tries again, and so does the sweeper.
    """
    if not ports.policy.open_turns:
        return
    try:
        goes_on = True
        while goes_on:
            rows = ports.log.queued_turns(QUEUE_SCAN_MAX)
            tried = _try_in_turn(ports, _spread(rows, ports.policy.open_turns))
            goes_on = "full" not in tried and len(rows) == QUEUE_SCAN_MAX and set(tried) != {"failed"}
    except SteplineError as error:
        logger.warning("queue not read", extra={"code": error.reason})


def _spread(rows: list[QueuedTurn], bound: int) -> list[QueuedTurn]:
    """Return the rows from a random one of the first on: the more turns end at once, the more rows they choose from."""
    start = secrets.randbelow(min(len(rows), groups_of(bound))) if rows else 0
    return rows[start:] + rows[:start]


def _try_in_turn(ports: Ports, rows: list[QueuedTurn]) -> list[Tried]:
    """Begin turns up to the first that finds the stage full."""
    tried: list[Tried] = []
    for row in rows:
        tried.append(try_to_begin(ports, row))
        if tried[-1] == "full":
            break
    return tried


def try_to_begin(ports: Ports, turn: QueuedTurn) -> Tried:
    """Begin a queued turn if the stage has a free slot, or has no bound any more.

    `gone`: it no longer waits, and is removed from the queue. `failed`: it cannot begin now, for any reason.
    """
    try:
        batch = _commit(ports, turn)
        if isinstance(batch, Batch):
            _follow(ports, turn, batch)
            return "begun"
        if batch == "gone":
            ports.log.leave_queue(turn)
    except SteplineError as error:
        named = {"conversation": turn.lane.conversation, "code": error.reason}
        logger.warning("queued turn not begun", extra=named)
        return "failed"
    return batch


def _commit(ports: Ports, turn: QueuedTurn) -> Batch | Literal["gone", "full"]:
    # Model calls of this process, if there are any, belong to another conversation.
    journal = Journal(with_fields(ports, ledger=Ledger()), turn.lane, "begin")

    def plan(tail: Batch) -> Draft | Literal["gone", "full"]:
        if tail.state.queued != turn.n:
            return "gone"
        bounded = ports.policy.open_turns > 0
        slot = free_stage_slot(ports) if bounded else None
        if bounded and slot is None:
            return "full"
        slots = Slots(held=ports.log.held_slots(turn.lane), taken=(slot,)) if slot else None
        entry = begun_entry(ports, tail.state, turn.at)
        return Draft(entries=(entry,), state=begun(tail.state, tail.n + 1), marks_open=True, slots=slots)

    try:
        return journal.commit(plan)
    except NotFoundError as error:
        if error.reason != DELETED:
            raise
        return "gone"


def begun_entry(ports: Ports, state: State, queued_at: str) -> Begun:
    """Return the record that the turn of a state no longer waits."""
    return Begun(n=state.queued, turn=state.turn, at=utc(ports.clock.now()), queued_at=queued_at)


def _follow(ports: Ports, turn: QueuedTurn, batch: Batch) -> None:
    """Carry out the effects of the batch by which a turn began."""
    started = redo(ports, turn.lane, batch)
    publish(ports, turn.lane, batch)
    ports.meter.count(TURNS_STARTED, started and batch.state.opened == turn.n)
    for entry in batch.entries:
        if isinstance(entry, Begun):
            ports.meter.count(QUEUE_WAIT_MS, entry.waited_ms)


def free_stage_slot(ports: Ports) -> Slot | None:
    """Return a free slot of the stage, from a random group; None if all are taken."""
    bound = ports.policy.open_turns
    groups = secrets.SystemRandom().sample(range(groups_of(bound)), groups_of(bound))
    for group in groups:
        scope = stage_scope(str(group))
        there = ports.log.taken_slots(scope)
        size = min(STAGE_GROUP, bound - group * STAGE_GROUP)
        if free := [index for index in range(size) if index not in there]:
            return Slot(scope=scope, index=secrets.choice(free))
    return None


def extra_stage_slot() -> Slot:
    """Return a slot beyond the bound, for a turn that begins only to end at once."""
    return Slot(scope=stage_scope(EXTRA), index=secrets.randbelow(10**9))


def groups_of(bound: int) -> int:
    """Return the number of groups of the stage's slots."""
    return math.ceil(bound / STAGE_GROUP)


def queued_turn(ports: Ports, lane: Lane, state: State) -> QueuedTurn | None:
    """Return the queue entry of a state's turn; None if it is not queued."""
    batch = ports.log.get(lane, state.queued, consistent=True) if state.queued else None
    return QueuedTurn(lane=lane, n=batch.n, at=batch.at) if batch else None


def queue_position(ports: Ports, lane: Lane, state: State) -> int:
    """Return the current queue position of a turn, 1 if it is the next; 0 if it does not wait."""
    turn = queued_turn(ports, lane, state)
    return ports.log.count_queued(before=turn) + 1 if turn else 0
