"""Model calls in the log: each is recorded once, even if the put of its batch fails."""

from collections.abc import Callable
from dataclasses import replace as changed
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.errors import DependencyError
from stepline.log.journal import Draft, Journal
from stepline.metering.ledger import Ledger
from stepline.model.batch import Batch
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.model.usage import CALLS_MAX, ModelCall, Usage, call_ids
from stepline.ports.log import Put
from tests.support.conversation import LANE, Conversation
from tests.support.faulty_log import BusyLog, LosingLog


def made(name: str, nanos: int = 5) -> ModelCall:
    used = Usage(input_tokens=10, cache_read_tokens=20, output_tokens=3)
    return ModelCall(role="r", model="m", usage=used, nanos=nanos, priced=True, id=name)


def note(text: str) -> Callable[[Batch], Draft]:
    entry = Inbound(message_id="m", event="event", text=text, user="ada", at="")
    return lambda tail: Draft(entries=(entry,), state=replace(tail.state, owner="ada"))


def process(conversation: Conversation) -> Journal:
    """Return the journal of another process, with its own ledger."""
    return Journal(changed(conversation.ports, ledger=Ledger()), LANE, "test")


def ids(conversation: Conversation) -> list[list[str]]:
    return [[call.id for call in batch.calls] for batch in conversation.batches()]


def test_a_batch_has_the_calls_since_the_previous_one_and_the_state_their_sum() -> None:
    conversation = Conversation()
    journal = process(conversation)
    ledger = journal.ports.ledger
    ledger.called(made("a"))
    ledger.called(made("b"))
    journal.commit(note("one"))
    ledger.called(made("c", nanos=7))
    journal.commit(note("two"))
    journal.commit(note("three"))
    assert ids(conversation) == [["a", "b"], ["c"], []]
    state = conversation.state
    assert (state.spent_nanos, state.input_tokens, state.output_tokens) == (17, 90, 9)


def test_calls_are_recorded_by_the_next_put_after_a_conflict() -> None:
    log = BusyLog()
    conversation = Conversation(log=log)
    log.rivals = [lambda: process(conversation).commit(note("faster"))]
    mine = process(conversation)
    mine.ports.ledger.called(made("a"))
    mine.commit(note("mine"))
    assert ids(conversation) == [[], ["a"]]
    assert conversation.state.spent_nanos == 5


@pytest.mark.parametrize("applied", [(True,), (False,), (False, False, True)])
def test_calls_of_a_put_without_an_answer_count_once(applied: tuple[bool, ...]) -> None:
    conversation = Conversation(log=LosingLog(*applied))
    mine = process(conversation)
    mine.ports.ledger.called(made("a"))
    mine.commit(note("mine"))
    assert ids(conversation) == [["a"]]
    assert mine.ports.ledger.calls == ()


def test_a_call_made_after_a_stored_draft_is_recorded_by_the_next_batch() -> None:
    """The first put lands after its timeout; calls made in the meantime are not in it."""
    log = BusyLog()
    conversation = Conversation(log=log)
    mine = process(conversation)

    def lands() -> None:
        log.batches[LANE.key()] = []
        early = Batch(n=1, by=mine.by, at="", entries=(), state=conversation.state, calls=(made("a"),))
        BusyLog.put(log, LANE, early)

    log.rivals = [lands]
    mine.ports.ledger.called(made("a"))
    mine.ports.ledger.called(made("b"))
    mine.commit(note("mine"))
    mine.commit(note("next"))
    assert ids(conversation) == [["a"], ["b"]]


class SilentLog(BusyLog):
    """Apply a put without an answer, and fail the next read."""

    silent = False

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        answer = super().put(lane, batch, **fields)
        if self.silent:
            raise DependencyError("no answer")
        return answer


def test_a_put_that_failed_but_was_stored_is_not_counted_again() -> None:
    log = SilentLog()
    conversation = Conversation(log=log)
    mine = process(conversation)
    mine.ports.ledger.called(made("a"))
    log.silent = True
    with pytest.raises(DependencyError):
        mine.commit(note("once"))
    log.silent = False
    mine.ports.ledger.called(made("b"))
    mine.commit(note("again"))
    assert ids(conversation) == [["a"], ["b"]]
    assert conversation.state.spent_nanos == 10


def test_a_call_known_to_two_processes_is_recorded_by_the_first() -> None:
    conversation = Conversation()
    process(conversation).commit(note("before"))
    suspended, successor = process(conversation), process(conversation)
    suspended.ports.ledger.called(made("a"))
    before = conversation.tail
    successor.adopt([made("a")], since=1)
    successor.commit(note("taken over"))
    suspended.ports.ledger.called(made("b"))
    suspended.commit(note("late"), tail=before)
    assert ids(conversation) == [[], ["a"], ["b"]]


def test_a_successor_skips_calls_that_its_predecessor_recorded() -> None:
    conversation = Conversation()
    process(conversation).commit(note("before"))
    slow, successor = process(conversation), process(conversation)
    slow.ports.ledger.called(made("a"))
    slow.commit(note("not dead"))
    successor.adopt([made("a"), made("b")], since=1)
    assert [call.id for call in successor.unrecorded(conversation.tail)] == ["b"]
    successor.commit(note("taken over"))
    assert ids(conversation) == [[], ["a"], ["b"]]


def test_many_calls_fit_into_a_batch_and_are_still_known() -> None:
    conversation = Conversation()
    mine = process(conversation)
    calls = [made(f"{number:08x}") for number in range(3 * CALLS_MAX)]
    for call in calls:
        mine.ports.ledger.called(call)
    mine.commit(note("one"))
    (row,) = conversation.tail.calls
    assert (row.count, row.nanos, row.usage.output_tokens) == (len(calls), 5 * len(calls), 3 * len(calls))
    assert call_ids([row]) == {call.id for call in calls}
    assert conversation.state.spent_nanos == 5 * len(calls)


@pytest.mark.parametrize("first", ["maker", "successor"])
def test_a_call_and_its_note_are_recorded_once_by_the_first_put(first: str) -> None:
    conversation = Conversation()
    process(conversation).commit(note("before"))
    before = conversation.tail
    maker, successor = process(conversation), process(conversation)
    maker.ports.ledger.called(made("a"))
    conversation.ports.deltas.note(LANE, 1, made("a"))
    successor.take_over_all(before, 1, ())
    order = [maker, successor] if first == "maker" else [successor, maker]
    for one in order:
        one.commit(note("put"), tail=before)
    assert ids(conversation) == [[], ["a"], []]
    assert conversation.state.spent_nanos == 5


def test_a_takeover_adopts_all_unrecorded_calls_of_the_turn() -> None:
    conversation = Conversation()
    maker = process(conversation)
    maker.ports.ledger.called(made("b"))
    maker.commit(note("one"))
    for claim, name in ((0, "a"), (1, "b"), (1, "c"), (2, "d"), (3, "e")):
        conversation.ports.deltas.note(LANE, claim, made(name))
    successor = process(conversation)
    for _ in range(2):  # each conflict makes a plan again
        successor.take_over_all(conversation.tail, 1, conversation.batches(), but=[2])
    successor.commit(note("two"))
    assert ids(conversation) == [["b"], ["c", "e"]]
