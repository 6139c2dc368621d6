"""Slots: the transaction that opens a turn takes them, and what removes the mark of its lane frees them."""

import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest

from stepline.errors import UnknownOutcome
from stepline.model.batch import Batch, State
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Scope
from stepline.ports.log import Duplicate, Occupied, Slot, Slots, SlotTaken, Written

AT = "2026-11-26T12:00:00.000Z"


@pytest.fixture
def scope() -> Scope:
    return Scope(tenant=f"t-{uuid.uuid4().hex}")


@pytest.fixture
def lane(scope) -> Lane:
    return Lane(tenant=scope.tenant, project="docs", conversation="c-1")


def other(lane: Lane, name: str = "c-2") -> Lane:
    return Lane(tenant=lane.tenant, project=lane.project, conversation=name)


def batch(n: int = 1, by: str = "b") -> Batch:
    return Batch(n=n, by=by, at=AT, entries=(), state=State(status="open"))


def opens(backend, lane, scope, index, *, n=1, held=(), **fields):
    slots = Slots(held=held, taken=(Slot(scope=scope, index=index),))
    return backend.log.put(lane, batch(n), marks_open=True, slots=slots, **fields)


def test_a_turn_takes_its_slot_with_its_mark(backend, lane, scope):
    assert opens(backend, lane, scope, 3) == Written()
    assert backend.log.taken_slots(scope) == {3}
    assert backend.log.held_slots(lane) == (Slot(scope=scope, index=3),)
    assert backend.log.held_slots(other(lane)) == ()


def test_an_occupied_slot_refuses_the_whole_batch(backend, lane, scope):
    opens(backend, lane, scope, 0)
    assert opens(backend, other(lane), scope, 0, message_id="m1") == SlotTaken()
    assert backend.log.tail(other(lane), consistent=True) is None
    assert backend.log.admitted(other(lane), "m1") is None
    assert opens(backend, other(lane), scope, 1, message_id="m1") == Written()


def test_an_existing_batch_or_message_is_reported_before_an_occupied_slot(backend, lane, scope):
    opens(backend, lane, scope, 0, message_id="m1")
    assert isinstance(opens(backend, lane, scope, 0), Occupied)
    assert opens(backend, lane, scope, 0, n=2, message_id="m1") == Duplicate(n=1)


def test_with_its_mark_a_lane_frees_its_slots(backend, lane, scope):
    opens(backend, lane, scope, 0)
    backend.log.clear_open(lane, 1)
    assert backend.log.taken_slots(scope) == set()
    assert backend.log.held_slots(lane) == ()
    backend.log.clear_open(lane, 1)
    assert opens(backend, other(lane), scope, 0) == Written()
    backend.log.clear_open(lane, 1)
    assert backend.log.taken_slots(scope) == {0}


def test_a_mark_that_is_newer_keeps_its_slots(backend, lane, scope):
    opens(backend, lane, scope, 0)
    held = backend.log.held_slots(lane)
    backend.log.put(lane, batch(2), marks_open=True, slots=Slots(held=held))
    backend.log.clear_open(lane, 1)
    assert backend.log.taken_slots(scope) == {0}
    backend.log.clear_open(lane, 2)
    assert backend.log.taken_slots(scope) == set()


def test_a_turn_that_is_not_limited_leaves_the_slots_of_its_lane_to_the_mark(backend, lane, scope):
    opens(backend, lane, scope, 0)
    backend.log.put(lane, batch(2), marks_open=True)
    assert backend.log.held_slots(lane) == (Slot(scope=scope, index=0),)
    backend.log.clear_open(lane, 2)
    assert backend.log.taken_slots(scope) == set()


def test_a_turn_that_counts_on_slots_which_the_mark_no_longer_holds_does_not_open(backend, lane, scope):
    opens(backend, lane, scope, 0)
    held = backend.log.held_slots(lane)
    backend.log.clear_open(lane, 1)
    again = backend.log.put(lane, batch(2), marks_open=True, slots=Slots(held=held))
    assert again == SlotTaken()
    assert opens(backend, lane, scope, 1, n=2) == Written()
    assert opens(backend, lane, scope, 2, n=3) == SlotTaken()


def test_of_many_turns_that_open_at_once_each_slot_has_one(backend, lane, scope):
    def take(number: int):
        while True:
            try:
                return opens(backend, other(lane, f"c-{number}"), scope, number % 4)
            except UnknownOutcome:
                continue

    with ThreadPoolExecutor(max_workers=8) as pool:
        put = list(pool.map(take, range(20)))
    assert put.count(Written()) == 4
    assert put.count(SlotTaken()) == 16
    assert backend.log.taken_slots(scope) == {0, 1, 2, 3}
