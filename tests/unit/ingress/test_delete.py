"""The deletion of a conversation: its effect on the turn, the messages and the readers, and the right to it."""

from __future__ import annotations

import pytest

from stepline.adapters.polling_signals import PollingSignals
from stepline.errors import NotFoundError
from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.loop.sweep import sweep_lane
from stepline.model.entry import Closed, Decided, Deleted, Dropped
from stepline.model.ids import utc
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered


@pytest.fixture
def conversation() -> Conversation:
    return Conversation(answered("first"), answered("second"))


def delete(conversation: Conversation) -> None:
    apply_deletion(conversation.ports, LANE, conversation.tail.state.owner)


def refusal(run: object) -> str:
    with pytest.raises(NotFoundError) as raised:
        run()
    return raised.value.reason


def test_only_the_owner_deletes_an_existing_conversation(conversation: Conversation) -> None:
    assert refusal(lambda: apply_deletion(conversation.ports, LANE, "ada")) == "not_found"
    conversation.send()
    assert refusal(lambda: apply_deletion(conversation.ports, LANE, "eve")) == "not_found"
    assert conversation.entries(Deleted) == []


def test_a_turn_that_was_cut_off_ends_without_an_answer_and_its_execution_stops(
    conversation: Conversation,
) -> None:
    conversation.send()
    name, step = conversation.take()
    delete(conversation)
    (ending,) = conversation.entries(Deleted)
    assert ending.turn == step.turn
    for state in (conversation.decide, conversation.act, conversation.close):
        assert state(step).route == "stop"
    assert conversation.entries(Decided) + conversation.entries(Closed) == []
    assert name


def test_steps_stop_when_there_is_nothing_left_to_read(conversation: Conversation) -> None:
    conversation.send()
    _, step = conversation.take()
    delete(conversation)
    bodies = conversation.ports.log.batches[LANE.key()]
    bodies[:] = [b""] * len(bodies)
    for state in (conversation.decide, conversation.act, conversation.close):
        assert state(step).route == "stop"
    assert not redo_deletion(conversation.ports, LANE)


def test_unseen_messages_are_returned_to_their_sender(conversation: Conversation) -> None:
    conversation.send()
    conversation.send("and this", id="m2")
    delete(conversation)
    assert [entry.message_id for entry in conversation.entries(Dropped)] == ["m2"]


def test_a_mark_that_a_dead_process_left_is_removed_by_the_sweeper(conversation: Conversation) -> None:
    conversation.send()
    ports = conversation.ports
    (mark,) = ports.log.open_lanes(before="9999")
    delete(conversation)
    assert ports.log.open_lanes(before="9999") == []
    ports.log._open[LANE.key()] = mark
    before = conversation.tail
    assert sweep_lane(ports, LANE) == "idle"
    assert ports.log.open_lanes(before="9999") == []
    assert conversation.tail == before


def test_a_watch_sees_a_deletion_and_an_erasure_as_it_sees_a_steer(conversation: Conversation) -> None:
    conversation.send()
    after = conversation.tail.n
    delete(conversation)
    log = conversation.ports.log
    signals = PollingSignals(log, 0.001)
    with signals.watch(LANE, after) as watch:
        assert watch.wait(60.0)
        assert watch.steer() == after + 1
    bodies = log.batches[LANE.key()]
    bodies[:] = [b""] * len(bodies)
    with signals.watch(LANE, after) as watch:
        assert watch.wait(60.0)


def test_a_repeated_deletion_is_published_again(conversation: Conversation) -> None:
    conversation.send()
    delete(conversation)
    stone = conversation.ports.erasure.tombstone(LANE) if conversation.ports.erasure else None
    assert stone is not None
    assert stone.deleted_at == conversation.entries(Deleted)[0].at <= utc(conversation.clock.now())
    delete(conversation)
    assert redo_deletion(conversation.ports, LANE)
    assert len(conversation.entries(Deleted)) == 1
