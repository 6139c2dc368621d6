from dataclasses import replace
from typing import Any

import pytest

from stepline.errors import DependencyError
from stepline.loop.close import close
from stepline.loop.sweep import replace_owner, sweep, sweep_lane
from stepline.model.entry import Closed, Inbound, Opened, TakenOver
from stepline.model.ids import Lane, execution_name
from tests.support.conversation import LANE, USER, Conversation, durable, event_types
from tests.support.faulty_log import BusyLog
from tests.support.generation import answered, called


class SickMachine:
    """Does not answer for one execution."""

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


def opened(*script: str, **policy: Any) -> Conversation:
    conversation = Conversation(*script, **policy)
    conversation.send()
    return conversation


def die(conversation: Conversation) -> None:
    """End the execution of the open turn silently."""
    conversation.machine.end(execution_name(LANE, conversation.state.epoch))


def test_a_living_turn_is_left_alone() -> None:
    conversation = opened()
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    assert sweep(conversation.ports) == {"alive": 1}
    assert conversation.tail.n == 1


def test_a_young_turn_is_not_even_looked_at() -> None:
    conversation = opened()
    die(conversation)
    assert sweep(conversation.ports) == {}


def test_a_never_started_execution_is_started_under_its_name() -> None:
    conversation = opened()
    conversation.machine.queue.clear()
    conversation.machine._status.clear()
    assert sweep_lane(conversation.ports, LANE) == "alive"
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    assert sweep(conversation.ports) == {"started": 1}
    assert [name for name, _ in conversation.machine.queue] == [execution_name(LANE, 1)]
    assert conversation.tail.n == 1


def test_a_turn_whose_execution_ended_is_taken_over_at_its_step() -> None:
    conversation = opened(called("react.read", {"paths": ["fi:x.outputs/a.md"]}), answered("done"))
    inbox = conversation.listen()
    _, step = conversation.take()
    conversation.decide(step)
    die(conversation)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    state, (taken,) = conversation.state, conversation.entries(TakenOver)
    assert (state.epoch, state.claim, state.attempt, state.takeovers) == (3, 3, 0, 1)
    assert (taken.turn, taken.takeovers, state.cursor.phase) == (state.turn, 1, "act")
    name, step = conversation.take()
    assert (name, step.epoch, step.route) == (execution_name(LANE, 3), 3, "act")
    assert event_types(inbox)[-1] == "round.restarted"
    conversation.drive(step)
    assert conversation.entries(Closed)[0].answer == "done"


def test_the_execution_that_was_given_up_finds_that_it_no_longer_owns_the_turn() -> None:
    conversation = opened(answered("late"))
    _, old = conversation.take()
    die(conversation)
    sweep_lane(conversation.ports, LANE)
    assert conversation.decide(old).route == "stop"
    assert conversation.close(old).route == "stop"
    assert conversation.model.requests == []


def test_an_execution_beyond_the_turns_deadline_is_stopped_and_taken_over() -> None:
    conversation = opened(turn_deadline_s=100.0)
    first = execution_name(LANE, 1)
    conversation.clock.pause(99)
    assert sweep_lane(conversation.ports, LANE) == "alive"
    conversation.clock.pause(1)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    assert conversation.machine.status(first) == "ended"


def test_a_turn_that_was_taken_over_often_enough_ends_with_an_error() -> None:
    conversation = opened(takeovers=2)
    inbox = conversation.listen()
    swept = []
    for _ in range(3):
        die(conversation)
        swept.append(sweep_lane(conversation.ports, LANE))
    assert swept == ["taken_over", "taken_over", "closed"]
    (closing,) = conversation.entries(Closed)
    assert (closing.outcome, closing.code) == ("error", "execution_lost")
    assert event_types(inbox)[-2:] == ["chat.error", "conv.status"]
    assert conversation.log.open_lanes(before="9999") == []


def test_messages_waiting_for_a_lost_turn_open_the_next_one() -> None:
    conversation = opened(takeovers=0)
    conversation.send(id="second")
    die(conversation)
    assert sweep_lane(conversation.ports, LANE) == "closed"
    assert conversation.state.status == "open"
    assert conversation.entries(Opened)[1].prompts == (2,)


def test_a_stale_mark_of_an_idle_lane_is_cleared() -> None:
    conversation = opened(answered("done"))
    mark = conversation.log._open[LANE.key()]
    conversation.run()
    conversation.log._open[LANE.key()] = mark
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    assert sweep(conversation.ports) == {"idle": 1}
    assert conversation.log.open_lanes(before="9999") == []


@pytest.mark.parametrize("later", [0, 2])
def test_a_sweep_completes_the_effects_of_an_interrupted_close(later: int) -> None:
    conversation = opened(answered("done"))
    conversation.decide()
    last = conversation.now()
    with pytest.raises(DependencyError):
        close(replace(conversation.ports, log=NoListing(conversation.log)), last)
    conversation.machine.end(execution_name(LANE, last.epoch))
    for number in range(later):
        conversation.send("by the way", id=f"e{number}", kind="alert")
    inbox = conversation.listen()
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    assert sweep(conversation.ports) == {"idle": 1}
    (listed,) = conversation.log.conversations(LANE.tenant, LANE.project, USER)
    assert (listed.outcome, listed.turn) == ("completed", last.turn)
    assert conversation.log.open_lanes(before="9999") == []
    assert "chat.complete" in event_types(inbox)


def test_a_republished_end_has_its_whole_answer() -> None:
    text = "A huge answer, " * 3_000
    conversation = opened(answered(text))
    conversation.run()
    inbox = conversation.listen()
    sweep_lane(conversation.ports, LANE)
    answers = [
        event.data["answer"]
        for _, events in durable(inbox)
        for event in events
        if event.type == "chat.complete"
    ]
    assert answers == [text]


def test_two_sweepers_at_once_take_a_turn_over_once() -> None:
    log = BusyLog()
    conversation = Conversation(log=log)
    conversation.send()
    die(conversation)
    log.rivals = [lambda: sweep_lane(conversation.ports, LANE)]
    assert sweep_lane(conversation.ports, LANE) == "alive"
    assert len(conversation.entries(TakenOver)) == 1


def test_a_turn_that_closes_while_it_is_swept_is_left_closed() -> None:
    log = BusyLog()
    conversation = Conversation(answered("done"), log=log)
    conversation.send()
    conversation.decide()
    last = conversation.now()
    die(conversation)
    log.rivals = [lambda: conversation.close(last)]
    assert sweep_lane(conversation.ports, LANE) == "alive"
    assert conversation.entries(TakenOver) == []


def test_a_message_that_meets_a_dead_lane_revives_it() -> None:
    conversation = opened(answered("done"))
    conversation.machine.queue.clear()
    die(conversation)
    conversation.send("anybody there?", id="second")
    assert [len(conversation.entries(kind)) for kind in (Inbound, TakenOver)] == [2, 1]
    conversation.run()
    assert conversation.state.status == "idle"


def test_a_message_is_admitted_if_the_execution_cannot_be_checked() -> None:
    conversation = opened()
    conversation.ports = replace(
        conversation.ports, machine=SickMachine(conversation.machine, execution_name(LANE, 1))
    )
    conversation.send("and this?", id="second")
    assert [entry.message_id for entry in conversation.entries(Inbound)] == ["m1", "second"]


def test_an_execution_known_to_have_ended_is_not_looked_up() -> None:
    conversation = opened()
    die(conversation)
    sick = SickMachine(conversation.machine, execution_name(LANE, 1))
    swept = sweep_lane(replace(conversation.ports, machine=sick), LANE, ended=execution_name(LANE, 1))
    assert swept == "taken_over"


def test_a_late_event_of_an_earlier_execution_does_not_end_the_current_one() -> None:
    conversation = opened()
    die(conversation)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    assert sweep_lane(conversation.ports, LANE, ended=execution_name(LANE, 1)) == "alive"


def test_a_lane_that_cannot_be_swept_does_not_block_others() -> None:
    conversation = opened()
    conversation.send(lane=Lane(tenant="acme", project="support", conversation="c-2"))
    for name, _ in list(conversation.machine.queue):
        conversation.machine.end(name)
    conversation.clock.pause(conversation.ports.policy.absent_after_s)
    conversation.ports = replace(
        conversation.ports, machine=SickMachine(conversation.machine, execution_name(LANE, 1))
    )
    assert sweep(conversation.ports) == {"failed": 1, "taken_over": 1}


def test_a_wrong_suspicion_costs_work_but_not_correctness() -> None:
    conversation = opened(answered("done"), answered("done"))
    _, first = conversation.take()
    replace_owner(conversation.ports, LANE, conversation.tail)
    conversation.drive(first)
    conversation.run()
    assert [entry.answer for entry in conversation.entries(Closed)] == ["done"]
