"""The stage's queue: its rows come and go in the transactions of the batches that queue a turn and let it begin."""

import uuid
from collections.abc import Iterator

import pytest

from stepline.model.batch import Batch, QueuedTurn, State
from stepline.model.entry import Begun, Deleted, Entry, Queued
from stepline.model.ids import Lane
from stepline.ports.log import (
    Duplicate,
    Occupied,
    Slot,
    Slots,
    SlotTaken,
    Written,
    is_stage_slot,
    stage_scope,
)

FIRST, SECOND, THIRD = (f"2026-11-26T12:00:0{at}.000Z" for at in range(3))


def lanes() -> Iterator[Lane]:
    while True:
        yield Lane(tenant="acme", project="docs", conversation=f"c-{uuid.uuid4().hex}")


@pytest.fixture
def log(backend):
    yield backend.log
    for turn in backend.log.queued_turns(100):
        backend.log.leave_queue(turn)


@pytest.fixture
def lane() -> Lane:
    return next(lanes())


def batch(*entries: Entry, n: int = 1, at: str = FIRST, by: str = "b", queued: int = 0) -> Batch:
    return Batch(n=n, by=by, at=at, entries=entries, state=State(status="open", queued=queued))


def queues(log, lane, at=FIRST, *, n=1, **fields):
    entry = Queued(turn="turn_1", at=at, place=1)
    return log.put(lane, batch(entry, n=n, at=at, queued=n), marks_open=True, **fields)


def begins(log, lane, at=FIRST, *, n=2, slot=0, **fields):
    entry = Begun(n=n - 1, turn="turn_1", at=THIRD, queued_at=at)
    slots = Slots(taken=(Slot(scope=stage_scope(f"g-{lane.conversation}"), index=slot),))
    return log.put(lane, batch(entry, n=n, at=THIRD), marks_open=True, slots=slots, **fields)


def test_the_turn_that_waits_longest_is_the_first_of_the_line(log):
    first, second, third = (lane for lane, _ in zip(lanes(), range(3), strict=False))
    for lane, at in ((second, SECOND), (first, FIRST), (third, THIRD)):
        assert queues(log, lane, at) == Written()
    waiting = log.queued_turns(10)
    assert [turn.lane for turn in waiting] == [first, second, third]
    assert [turn.lane for turn in log.queued_turns(2)] == [first, second]
    assert log.count_queued() == 3
    assert [log.count_queued(before=turn) for turn in waiting] == [0, 1, 2]


def test_a_turn_leaves_the_line_in_the_transaction_by_which_it_begins(log, lane):
    queues(log, lane)
    assert log.queued_turns(10) == [QueuedTurn(lane=lane, n=1, at=FIRST)]
    assert begins(log, lane) == Written()
    assert log.queued_turns(10) == []
    (held,) = log.held_slots(lane)
    assert is_stage_slot(held)


def test_a_turn_whose_slot_is_occupied_stays_queued(log, lane):
    queues(log, lane)
    scope = stage_scope(f"g-{lane.conversation}")
    log.put(next(lanes()), batch(), marks_open=True, slots=Slots(taken=(Slot(scope=scope, index=0),)))
    assert begins(log, lane) == SlotTaken()
    assert log.count_queued() == 1
    assert begins(log, lane, slot=1) == Written()


def test_a_failed_put_enqueues_no_turn(log, lane):
    log.put(lane, batch(by="other"), message_id="m1")
    assert isinstance(queues(log, lane), Occupied)
    assert queues(log, lane, n=2, message_id="m1") == Duplicate(n=1)
    assert log.count_queued() == 0


def test_a_deletion_takes_its_turn_out_of_the_line(log, lane):
    queues(log, lane)
    end = batch(Deleted(at=SECOND, turn="turn_1", n=1, queued_at=FIRST), n=2, at=SECOND)
    assert log.put(lane, end) == Written()
    assert log.count_queued() == 0


def test_a_stale_row_can_be_removed_from_the_queue(log, lane):
    queues(log, lane)
    (turn,) = log.queued_turns(1)
    log.leave_queue(turn)
    log.leave_queue(turn)
    assert log.count_queued() == 0


def test_the_slots_of_the_stage_are_no_accounts(log, lane):
    group = stage_scope(f"g-{lane.conversation}")
    log.put(lane, batch(), marks_open=True, slots=Slots(taken=(Slot(scope=group, index=5),)))
    assert log.taken_slots(group) == {5}
    log.clear_open(lane, 1)
    assert log.taken_slots(group) == set()
