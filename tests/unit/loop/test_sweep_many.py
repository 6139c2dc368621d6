"""Many turns without an owner: the sweep keeps its time and the machine's quotas, with live turns among them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.adapters.parallel import at_once
from stepline.delivery.paced_machine import DESCRIBES, STARTS, Bucket, RequestQuota
from stepline.errors import DependencyError
from stepline.loop.graph import SWEEP_EVERY_S
from stepline.loop.sweep import SWEEP_S, sweep
from stepline.metrics import LANES_LEFT
from stepline.model.entry import TakenOver
from stepline.model.ids import execution_name
from tests.support.conversation import Conversation
from tests.support.stranded_turns import SMALL_REGION, QuotaMachine, lane_of, opened, strand


def test_a_thousand_stranded_turns_are_taken_over_by_one_sweep_within_the_smallest_quota():
    conversation, machine = opened(1_000, SMALL_REGION)
    strand(machine, range(1_000))
    began_s = conversation.clock.monotonic_s()
    assert sweep(conversation.ports) == {"taken_over": 1_000}
    assert conversation.clock.monotonic_s() - began_s <= SWEEP_S
    assert machine.running() == {execution_name(lane_of(number), 2) for number in range(1_000)}
    assert conversation.ports.meter.counts[LANES_LEFT] == 0


def test_a_sweep_leaves_half_of_the_smallest_quota_to_those_who_admit_messages():
    for ours, theirs in ((DESCRIBES, SMALL_REGION["status"]), (STARTS, SMALL_REGION["start"])):
        assert (ours.burst * 2, ours.per_s * 2) == (theirs.burst, theirs.per_s)


def test_live_turns_cost_no_request_and_delay_no_dead_one():
    conversation, machine = opened(500)
    strand(machine, range(490, 500))
    assert sweep(conversation.ports) == {"alive": 490, "taken_over": 10}
    assert (machine.asked["running"], machine.asked["status"]) == (1, 10)


def test_a_taken_over_turn_is_alive_by_the_same_list():
    conversation, machine = opened(3)
    strand(machine, range(3))
    sweep(conversation.ports)
    machine.asked.clear()
    assert sweep(conversation.ports) == {"alive": 3}
    assert machine.asked["status"] == 0


def test_a_listed_turn_beyond_its_deadline_is_stopped_and_taken_over():
    conversation, machine = opened(2, turn_deadline_s=100.0)
    conversation.clock.pause(100)
    assert sweep(conversation.ports) == {"taken_over": 2}
    assert {machine._status[execution_name(lane_of(number), 1)] for number in range(2)} == {"ended"}


class SlowMachine(QuotaMachine):
    """Takes a second for each request."""

    def status(self, name: str) -> Any:
        self._clock.pause(1)
        return super().status(name)


def test_a_sweep_ends_in_time_says_what_is_left_and_the_next_ones_reach_it():
    conversation, machine = opened(600)
    strand(machine, range(600))
    slow = SlowMachine(conversation.clock)
    slow._status, slow.queue = machine._status, machine.queue
    conversation.ports = replace(conversation.ports, machine=slow)
    began_s = conversation.clock.monotonic_s()
    swept = sweep(conversation.ports)
    assert swept == {"taken_over": int(SWEEP_S), "left": 600 - int(SWEEP_S)}
    assert conversation.clock.monotonic_s() - began_s == SWEEP_S
    assert conversation.ports.meter.counts[LANES_LEFT] == swept["left"]
    sweep(conversation.ports)
    assert sweep(conversation.ports) == {"alive": 480, "taken_over": 120}


class Hopeless(QuotaMachine):
    """Answers no request, and records the executions that were requested."""

    def __init__(self, clock: Any) -> None:
        super().__init__(clock)
        self.names: set[str] = set()

    def status(self, name: str) -> Any:
        self.names.add(name)
        raise DependencyError("the machine does not answer")


def test_unrepairable_lanes_do_not_starve_others(monkeypatch):
    monkeypatch.setattr("stepline.loop.sweep.SWEEP_S", 15.0)
    lanes = 4 * DESCRIBES.within(15.0)
    conversation, _ = opened(1)
    (mark,) = conversation.log.open_lanes(before="9999")
    for lane in map(lane_of, range(lanes)):
        conversation.log._open[lane.key()] = msgspec.structs.replace(mark, lane=lane)
        conversation.log.batches[lane.key()] = conversation.log.batches[lane_of(0).key()]
    hopeless = Hopeless(conversation.clock)
    conversation.ports = replace(conversation.ports, machine=hopeless)
    sweeps = 0
    while len(hopeless.names) < lanes:
        sweeps += 1
        assert sweeps <= 5
        swept = sweep(conversation.ports)
        assert swept["left"]
        conversation.clock.pause(SWEEP_EVERY_S - 15.0)


def test_a_bug_in_one_lane_does_not_block_others():
    conversation, machine = opened(3)
    strand(machine, range(3))
    conversation.log.batches[lane_of(1).key()][0] = b"{"
    assert sweep(conversation.ports) == {"failed": 1, "taken_over": 2}
    assert conversation.ports.meter.counts[LANES_LEFT] == 1


def test_lanes_are_swept_at_once_and_each_is_taken_over_once():
    conversation, machine = opened(64)
    strand(machine, range(64))
    assert sweep(conversation.ports, each=at_once) == {"taken_over": 64}
    for number in range(64):
        batches = conversation.log.since(lane_of(number), 1)
        assert [type(entry) for batch in batches for entry in batch.entries] == [TakenOver]


@pytest.mark.parametrize("quota", [RequestQuota(3, 2), RequestQuota(1, 0.5), DESCRIBES])
def test_a_bucket_gives_no_more_than_its_quota_in_any_time_and_all_of_it(quota):
    clock = Conversation().clock
    bucket, began_s = Bucket(quota, clock), clock.monotonic_s()
    for taken in range(1, quota.burst + 50):
        bucket.take()
        passed_s = clock.monotonic_s() - began_s
        assert passed_s == pytest.approx(max(0, taken - quota.burst) / quota.per_s)
    clock.pause(1000 * quota.burst)
    began_s = clock.monotonic_s()
    for _ in range(quota.burst):
        bucket.take()
    assert clock.monotonic_s() == began_s
