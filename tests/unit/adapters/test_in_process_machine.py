"""The machine of this process: executions started here run, and all others have ended."""

import threading

from stepline.adapters import in_process_machine as in_process
from stepline.adapters.in_process_machine import InProcessMachine
from stepline.model.ids import Lane
from stepline.model.step import Step

LANE = Lane(tenant="acme", project="docs", conversation="c1")
OTHER = Lane(tenant="acme", project="docs", conversation="c2")


def step(lane=LANE, epoch=3):
    return Step(
        tenant=lane.tenant, project=lane.project, conversation=lane.conversation, turn="turn_1", epoch=epoch
    )


def test_an_execution_is_pending_until_its_lane_takes_it_and_runs_until_it_ends():
    machine = InProcessMachine()
    assert machine.start("a-3", step())
    assert machine.take(OTHER) is None
    assert machine.take(LANE) == ("a-3", step())
    assert machine.take(LANE) is None
    assert machine.status("a-3") == "running"
    machine.end("a-3")
    assert machine.status("a-3") == "ended"


def test_executions_of_a_lane_are_processed_in_order():
    machine = InProcessMachine()
    for epoch in (1, 2):
        machine.start(f"a-{epoch}", step(epoch=epoch))
    machine.start("b-1", step(OTHER, 1))
    assert [machine.take(LANE)[0], machine.take(LANE)[0], machine.take(OTHER)[0]] == ["a-1", "a-2", "b-1"]


def test_a_name_is_started_once():
    machine = InProcessMachine()
    assert machine.start("a-3", step())
    assert not machine.start("a-3", step())
    machine.stop("a-3")
    assert not machine.start("a-3", step())
    assert machine.take(LANE) is None


def test_an_execution_that_this_process_never_started_has_ended():
    machine = InProcessMachine()
    machine.end("never")
    assert machine.status("never") == "ended"
    assert machine.ended("never").done()


def test_a_waiter_is_notified_of_the_end():
    machine = InProcessMachine()
    machine.start("a-3", step())
    ended = machine.ended("a-3")
    assert not ended.done()
    machine.end("a-3")
    assert ended.result(timeout=0) is None


def test_the_oldest_names_are_forgotten(monkeypatch):
    monkeypatch.setattr(in_process, "REMEMBERED", 2)
    machine = InProcessMachine()
    for n in range(3):
        machine.start(f"a-{n}", step())
        machine.end(f"a-{n}")
    assert [machine.start(f"a-{n}", step()) for n in (1, 2, 0)] == [False, False, True]


def test_a_lane_has_one_lock():
    machine = InProcessMachine()
    held = threading.Event()
    with machine.door(LANE):
        waiting = threading.Thread(target=lambda: (machine.door(LANE).acquire(), held.set()))
        waiting.start()
        assert not held.is_set()
    waiting.join(30)
    assert held.is_set()
