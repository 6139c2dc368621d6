"""A stage with a bound on concurrent turns: further ones are queued, get their position, and begin in order."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.delivery.resume import pong, resume
from stepline.delivery.stage_queue import begin_queued
from stepline.errors import DependencyError, LimitError
from stepline.ingress import admit, enqueue
from stepline.ingress.delete import apply_deletion
from stepline.loop.sweep import sweep, sweep_lane
from stepline.metrics import QUEUE_WAIT_MS, TURNS_QUEUED, TURNS_STARTED, TURNS_WAITING
from stepline.model.batch import State
from stepline.model.entry import Begun, Closed, Queued
from stepline.model.ids import Lane, execution_name
from stepline.model.tenancy.limits import Limits, scopes_of
from stepline.model.wire.event import PongFrame, SyncFrame
from stepline.ports.log import stage_scope
from tests.support.conversation import FAR, LANE, USER, Conversation, event_types, of
from tests.support.generation import answered

OTHERS = tuple(Lane(tenant=LANE.tenant, project=LANE.project, conversation=f"o-{at}") for at in range(4))


class Stage(Conversation):
    """A stage with room for one turn, which another conversation takes, unless `free`."""

    def __init__(self, *, free: bool = False, open_turns: int = 1, **policy: Any) -> None:
        super().__init__(*[answered(f"Answer {at}.") for at in range(9)], open_turns=open_turns, **policy)
        if not free:
            self.send("before", lane=OTHERS[0])

    def state_of(self, lane: Lane) -> State:
        return self.batches(lane)[-1].state

    def run_one(self) -> None:
        """Drive the oldest execution to its end."""
        name, step = self.take()
        self.drive(step)
        self.machine.end(name)

    def taken(self) -> frozenset[int]:
        return self.log.taken_slots(stage_scope("0"))

    def count(self, metric: str) -> float:
        return self.ports.meter.counts[metric]  # type: ignore[attr-defined]  # the memory twin's own


def test_a_turn_beyond_the_bound_is_opened_and_waits() -> None:
    stage = Stage()
    admitted = stage.send()
    assert admitted.fate == "opened"
    assert stage.kinds()[-1] == ["Owner", "Inbound", "Opened", "Queued"]
    assert (stage.state.status, stage.state.queued, stage.state.route()) == ("open", 1, "stop")
    assert [name for name, _ in stage.machine.queue] == [execution_name(OTHERS[0], 1)]
    assert stage.log.count_queued() == 1
    assert stage.count(TURNS_QUEUED) == 1


def test_without_a_bound_no_row_is_read_and_no_turn_waits() -> None:
    stage = Stage(open_turns=0)
    touched: list[str] = []
    for method in ("held_slots", "taken_slots", "count_queued", "queued_turns"):
        setattr(stage.log, method, lambda *_, method=method, **__: touched.append(method))
    stage.send()
    stage.run()
    assert stage.kinds()[-1][-1] == "Closed"
    assert touched == []


def test_the_next_queued_turn_begins_when_a_turn_ends() -> None:
    stage = Stage()
    stage.send()
    stage.clock.pause(5)
    stage.run_one()
    assert stage.kinds()[-1] == ["Begun"]
    state, (begun,) = stage.state, stage.entries(Begun)
    assert (state.epoch, state.claim, state.queued, state.opened) == (2, 2, 0, 1)
    assert begun.waited_ms == 5000
    assert [name for name, _ in stage.machine.queue] == [execution_name(LANE, 2)]
    assert stage.log.count_queued() == 0
    stage.run()
    assert [entry.outcome for entry in stage.entries(Closed)] == ["completed"]
    assert stage.taken() == frozenset()
    assert (stage.count(TURNS_STARTED), stage.count(QUEUE_WAIT_MS)) == (2, 5000)


def test_queued_turns_begin_in_order_of_arrival() -> None:
    stage = Stage()
    for lane in OTHERS[1:]:
        stage.clock.pause(1)
        stage.send(lane=lane)
    order = []
    while stage.machine.queue:
        order.append(stage.machine.queue[0][1].conversation)
        stage.run_one()
    assert order == [lane.conversation for lane in OTHERS]


def test_no_turn_overtakes_queued_turns() -> None:
    stage = Stage()
    stage.send(lane=OTHERS[1])
    stage.clock.pause(1)
    stage.ports.log.clear_open(OTHERS[0], 1)  # its slot is free, and no turn has begun yet
    stage.send()
    assert stage.state.queued
    assert not stage.state_of(OTHERS[1]).queued


def test_a_slot_freed_after_the_check_is_not_lost() -> None:
    stage = Stage()
    publish = admit.begin_queued

    def then_free(ports: Any) -> None:
        stage.log.clear_open(OTHERS[0], 1)
        publish(ports)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(admit, "begin_queued", then_free)
        stage.send()
    assert stage.kinds()[-1] == ["Begun"]


def test_a_client_sees_its_turn_wait_and_begin() -> None:
    stage = Stage()
    inbox = stage.listen()
    stage.send(connection="k1")
    assert event_types(inbox)[-3:] == ["conv.status", "chat.start", "turn.queued"]
    stage.run_one()
    assert event_types(inbox)[-1] == "turn.begun"


def test_each_answer_to_a_ping_or_resume_has_the_queue_position() -> None:
    stage = Stage()
    stage.send(lane=OTHERS[1])
    stage.clock.pause(1)
    stage.send()
    (queued,) = stage.entries(Queued)
    assert queued.place == 2
    inbox = stage.listen()

    def positions() -> list[int]:
        inbox.clear()
        pong(stage.ports, LANE, user=USER, connection="k1")
        asked = {"after": 0, "have": {}, "claim": 0}
        resume(stage.ports, LANE, user=USER, connection="k1", until_s=FAR, **asked)
        return [frame.place for frame in (*of(PongFrame, inbox), *of(SyncFrame, inbox))]

    assert positions() == [2, 2]
    stage.run_one()
    assert positions() == [1, 1]
    stage.run_one()
    assert positions() == [0, 0]


def test_a_message_waits_with_the_turn_and_is_read_in_its_first_round() -> None:
    stage = Stage()
    stage.send()
    stage.send("and this", id="m2")
    stage.send("shorter", kind="steer", id="s1")
    assert stage.kinds()[1:] == [["Inbound"], ["Inbound"]]
    assert stage.state.queued == 1
    stage.run()
    assert [entry.outcome for entry in stage.entries(Closed)] == ["completed"]


def test_a_stop_begins_the_turn_beyond_the_bound_and_ends_it() -> None:
    stage = Stage()
    stage.send()
    stage.send(kind="stop", text="", id="s1")
    assert stage.kinds()[-1] == ["Inbound", "Begun"]
    assert stage.log.count_queued() == 0
    assert stage.taken() == {0}  # that of the other one: the stop has a slot beyond the bound
    stage.machine.queue.reverse()
    stage.run_one()
    assert [(entry.outcome, entry.reason) for entry in stage.entries(Closed)] == [("completed", "stop")]
    assert stage.log.held_slots(LANE) == ()
    assert stage.state_of(OTHERS[0]).status == "open"


def test_a_turn_that_follows_in_its_lane_keeps_the_slot() -> None:
    stage = Stage(free=True)
    stage.send()
    step = stage.decide()
    stage.send("another", id="m2", lane=OTHERS[1])
    stage.send("one more", id="m3")
    stage.close(stage.now(error={"Error": "x"}))
    assert stage.state.status == "open"
    assert not stage.state.queued
    assert stage.state_of(OTHERS[1]).queued
    assert step.route == "close"


def test_a_deletion_removes_a_waiting_turn_from_the_queue() -> None:
    stage = Stage()
    stage.send()
    apply_deletion(stage.ports, LANE, USER)
    assert stage.log.count_queued() == 0
    stage.run()
    assert stage.batches()[-1].state.deleted


def test_a_deletion_frees_the_slot_for_the_next_queued_turn() -> None:
    stage = Stage()
    stage.send()
    apply_deletion(stage.ports, OTHERS[0], USER)
    assert stage.kinds()[-1] == ["Begun"]


def test_a_row_whose_turn_no_longer_waits_leaves_the_queue() -> None:
    stage = Stage()
    stage.send()
    (row,) = stage.log.queued_turns(1)
    stage.run()
    stage.log._queue[row.place] = row
    begin_queued(stage.ports)
    assert stage.log.count_queued() == 0
    assert len(stage.entries(Begun)) == 1


def test_a_turn_that_cannot_begin_does_not_block_the_next_one(monkeypatch) -> None:
    stage = Stage()
    stage.send(lane=OTHERS[1])
    stage.clock.pause(1)
    stage.send()
    tail = stage.log.tail

    def lost(lane: Lane, **fields: Any) -> Any:
        if lane == OTHERS[1]:
            raise DependencyError("the table does not answer")
        return tail(lane, **fields)

    stage.log.tail = lost
    stage.run_one()
    assert not stage.state.queued
    assert stage.state_of(OTHERS[1]).queued


def test_the_sweeper_leaves_a_waiting_turn_alone() -> None:
    stage = Stage()
    stage.send()
    stage.clock.pause(3600)
    assert sweep_lane(stage.ports, LANE) == "queued"
    assert stage.state.queued
    assert stage.state.takeovers == 0


def test_the_sweeper_of_a_lane_begins_no_turn_before_longer_waiting_ones() -> None:
    stage = Stage()
    stage.send(lane=OTHERS[1])
    stage.clock.pause(1)
    stage.send()
    stage.log.clear_open(OTHERS[0], 1)
    assert sweep_lane(stage.ports, LANE) == "queued"
    assert stage.state.queued


def test_the_sweeper_begins_forgotten_turns_and_counts_waiting_ones() -> None:
    stage = Stage()
    stage.send(lane=OTHERS[1])
    stage.send()
    stage.log.clear_open(OTHERS[0], 1)  # and the process that did so has died
    sweep(stage.ports)
    assert len([name for name, _ in stage.machine.queue]) == 2
    assert stage.count(TURNS_WAITING) == 1


def test_the_sweeper_begins_turns_that_wait_for_a_bound_that_is_no_more() -> None:
    stage = Stage()
    stage.send()
    unbounded = Conversation(log=stage.log)
    unbounded.clock.pause(100)
    assert sweep_lane(unbounded.ports, LANE) == "started"
    assert unbounded.log.count_queued() == 0
    assert unbounded.machine.queue[0][0] == execution_name(LANE, 2)


def test_a_full_queue_refuses_a_message_with_a_retry_time(monkeypatch) -> None:
    monkeypatch.setattr(enqueue, "QUEUE_MAX", 1)
    stage = Stage()
    stage.send(lane=OTHERS[1])
    with pytest.raises(LimitError) as refused:
        stage.send()
    assert refused.value.reason == "queue_full"
    assert refused.value.context["retry_after_s"] == enqueue.QUEUE_FULL_S
    assert stage.batches() == []


def test_a_resent_message_is_a_duplicate_even_if_the_queue_is_full(monkeypatch) -> None:
    stage = Stage()
    first = stage.send()
    monkeypatch.setattr(enqueue, "QUEUE_MAX", 1)
    again = stage.send()
    assert again.duplicate
    assert again.batch == first.batch


def test_the_slots_of_accounts_are_held_while_a_turn_waits() -> None:
    stage = Stage()
    scope = scopes_of(LANE.tenant, LANE.project, USER)[0]
    stage.ports.accounts.set_limits(scope, Limits(turns_at_once=2), version=0, by="boss", at="")
    stage.send()
    assert [slot.scope for slot in stage.log.held_slots(LANE)] == [scope]
    stage.run_one()
    assert {slot.scope for slot in stage.log.held_slots(LANE)} == {scope, stage_scope("0")}
    stage.run()
    assert stage.log.held_slots(LANE) == ()
    assert stage.log.taken_slots(scope) == frozenset()


def test_the_time_in_the_queue_does_not_count_for_the_turn() -> None:
    stage = Stage()
    stage.send()
    stage.clock.pause(600)
    stage.run()
    (closing,) = stage.entries(Closed)
    assert closing.elapsed_ms < 60_000
