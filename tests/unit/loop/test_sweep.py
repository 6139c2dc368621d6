from dataclasses import replace
from typing import Any

import pytest

from stepline.errors import DependencyError
from stepline.loop.close import close
from stepline.loop.sweep import replace_owner, sweep, sweep_lane
from stepline.model.entry import Closed, Inbound, Opened, TakenOver
from stepline.model.ids import Lane, execution_name
from tests.support.conversation import LANE, USER, Scene, answered, called, durable, event_types
from tests.support.faulty_log import BusyLog


class SickMachine:
    """Does not answer when asked for one execution."""

    def __init__(self, machine: Any, sick: str) -> None:
        self._machine = machine
        self._sick = sick

    def status(self, name: str) -> Any:
        if name == self._sick:
            raise DependencyError("the machine does not answer")
        return self._machine.status(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


class NoListing:
    """A log whose listing cannot be written."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def project(self, _row: Any) -> None:
        raise DependencyError("the table does not answer")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


def opened(*script: str, **policy: Any) -> Scene:
    scene = Scene(*script, **policy)
    scene.send()
    return scene


def die(scene: Scene) -> None:
    """End the execution of the open turn without a word."""
    scene.machine.end(execution_name(LANE, scene.state.epoch))


def test_a_living_turn_is_left_alone() -> None:
    scene = opened()
    scene.clock.pause(scene.ports.policy.absent_after_s)
    assert sweep(scene.ports) == {"alive": 1}
    assert scene.tail.n == 1


def test_a_young_turn_is_not_even_looked_at() -> None:
    scene = opened()
    die(scene)
    assert sweep(scene.ports) == {}


def test_an_execution_that_was_never_started_is_started_under_its_own_name() -> None:
    scene = opened()
    scene.machine.queue.clear()
    scene.machine._status.clear()
    assert sweep_lane(scene.ports, LANE) == "alive"
    scene.clock.pause(scene.ports.policy.absent_after_s)
    assert sweep(scene.ports) == {"started": 1}
    assert [name for name, _ in scene.machine.queue] == [execution_name(LANE, 1)]
    assert scene.tail.n == 1


def test_a_turn_whose_execution_ended_is_taken_over_where_it_stood() -> None:
    scene = opened(called("react.read", {"paths": ["fi:x.outputs/a.md"]}), answered("done"))
    inbox = scene.listen()
    _, step = scene.take()
    scene.decide(step)
    die(scene)
    assert sweep_lane(scene.ports, LANE) == "taken_over"
    state, (taken,) = scene.state, scene.entries(TakenOver)
    assert (state.epoch, state.claim, state.attempt, state.takeovers) == (3, 3, 0, 1)
    assert (taken.turn, taken.takeovers, state.cursor.phase) == (state.turn, 1, "act")
    name, step = scene.take()
    assert (name, step.epoch, step.route) == (execution_name(LANE, 3), 3, "act")
    assert event_types(inbox)[-1] == "round.restarted"
    scene.drive(step)
    assert scene.entries(Closed)[0].answer == "done"


def test_the_execution_that_was_given_up_finds_that_it_no_longer_owns_the_turn() -> None:
    scene = opened(answered("late"))
    _, old = scene.take()
    die(scene)
    sweep_lane(scene.ports, LANE)
    assert scene.decide(old).route == "stop"
    assert scene.close(old).route == "stop"
    assert scene.model.requests == []


def test_an_execution_beyond_the_turns_deadline_is_stopped_and_taken_over() -> None:
    scene = opened(turn_deadline_s=100.0)
    first = execution_name(LANE, 1)
    scene.clock.pause(99)
    assert sweep_lane(scene.ports, LANE) == "alive"
    scene.clock.pause(1)
    assert sweep_lane(scene.ports, LANE) == "taken_over"
    assert scene.machine.status(first) == "ended"


def test_a_turn_that_was_taken_over_often_enough_ends_with_an_error() -> None:
    scene = opened(takeovers=2)
    inbox = scene.listen()
    swept = []
    for _ in range(3):
        die(scene)
        swept.append(sweep_lane(scene.ports, LANE))
    assert swept == ["taken_over", "taken_over", "closed"]
    (closing,) = scene.entries(Closed)
    assert (closing.outcome, closing.code) == ("error", "execution_lost")
    assert event_types(inbox)[-2:] == ["chat.error", "conv.status"]
    assert scene.log.open_lanes(before="9999") == []


def test_what_waited_for_a_lost_turn_opens_the_next_one() -> None:
    scene = opened(takeovers=0)
    scene.send(id="second")
    die(scene)
    assert sweep_lane(scene.ports, LANE) == "closed"
    assert scene.state.status == "open"
    assert scene.entries(Opened)[1].prompts == (2,)


def test_a_stale_mark_of_an_idle_lane_is_cleared() -> None:
    scene = opened(answered("done"))
    mark = scene.log._open[LANE.key()]
    scene.run()
    scene.log._open[LANE.key()] = mark
    scene.clock.pause(scene.ports.policy.absent_after_s)
    assert sweep(scene.ports) == {"idle": 1}
    assert scene.log.open_lanes(before="9999") == []


@pytest.mark.parametrize("behind", [0, 2])
def test_what_a_close_left_undone_is_done_by_the_sweep_that_meets_its_mark(behind: int) -> None:
    scene = opened(answered("done"))
    scene.decide()
    last = scene.now()
    with pytest.raises(DependencyError):
        close(replace(scene.ports, log=NoListing(scene.log)), last)
    die(scene)
    for number in range(behind):
        scene.send("by the way", id=f"e{number}", kind="alert")
    inbox = scene.listen()
    scene.clock.pause(scene.ports.policy.absent_after_s)
    assert sweep(scene.ports) == {"idle": 1}
    (listed,) = scene.log.conversations(LANE.tenant, LANE.project, USER)
    assert (listed.outcome, listed.turn) == ("completed", last.turn)
    assert scene.log.open_lanes(before="9999") == []
    assert "chat.complete" in event_types(inbox)


def test_an_end_that_is_told_again_has_its_whole_answer_however_long() -> None:
    text = "A huge answer, " * 3_000
    scene = opened(answered(text))
    scene.run()
    inbox = scene.listen()
    sweep_lane(scene.ports, LANE)
    told = [
        event.data["answer"]
        for _, events in durable(inbox)
        for event in events
        if event.type == "chat.complete"
    ]
    assert told == [text]


def test_two_sweepers_at_once_take_a_turn_over_once() -> None:
    log = BusyLog()
    scene = Scene(log=log)
    scene.send()
    die(scene)
    log.rivals = [lambda: sweep_lane(scene.ports, LANE)]
    assert sweep_lane(scene.ports, LANE) == "alive"
    assert len(scene.entries(TakenOver)) == 1


def test_a_turn_that_closes_while_it_is_swept_is_left_closed() -> None:
    log = BusyLog()
    scene = Scene(answered("done"), log=log)
    scene.send()
    scene.decide()
    last = scene.now()
    die(scene)
    log.rivals = [lambda: scene.close(last)]
    assert sweep_lane(scene.ports, LANE) == "alive"
    assert scene.entries(TakenOver) == []


def test_a_message_that_meets_a_dead_lane_revives_it() -> None:
    scene = opened(answered("done"))
    scene.machine.queue.clear()
    die(scene)
    scene.send("anybody there?", id="second")
    assert [len(scene.entries(kind)) for kind in (Inbound, TakenOver)] == [2, 1]
    scene.run()
    assert scene.state.status == "idle"


def test_one_lane_that_cannot_be_swept_does_not_keep_the_others_from_it() -> None:
    scene = opened()
    scene.send(lane=Lane(tenant="acme", project="support", conversation="c-2"))
    for name, _ in list(scene.machine.queue):
        scene.machine.end(name)
    scene.clock.pause(scene.ports.policy.absent_after_s)
    scene.ports = replace(scene.ports, machine=SickMachine(scene.machine, execution_name(LANE, 1)))
    assert sweep(scene.ports) == {"failed": 1, "taken_over": 1}


def test_a_wrong_suspicion_costs_work_and_never_truth() -> None:
    scene = opened(answered("done"), answered("done"))
    _, first = scene.take()
    replace_owner(scene.ports, LANE, scene.tail)
    scene.drive(first)
    scene.run()
    assert [entry.answer for entry in scene.entries(Closed)] == ["done"]
