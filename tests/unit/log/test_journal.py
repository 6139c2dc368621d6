from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.errors import BusyError, NotFoundError
from stepline.events.derive import derive
from stepline.log.journal import Draft, Journal
from stepline.model.batch import Batch
from stepline.model.entry import Inbound, Reopened
from stepline.model.ids import Lane
from tests.support.conversation import LANE, Conversation
from tests.support.faulty_log import BusyLog, ContendedLog, LosingLog, StaleLog
from tests.support.log_builder import LogBuilder, logs, patient


def inbound(text: str) -> Inbound:
    return Inbound(message_id="m", event="event", text=text, user="ada", at="")


def note(text: str, tails: list[int] | None = None) -> Callable[[Batch], Draft]:
    """Return a plan that appends one entry, and remembers the tails it was planned against."""

    def plan(tail: Batch) -> Draft:
        if tails is not None:
            tails.append(tail.n)
        return Draft(entries=(inbound(text),), state=replace(tail.state, owner="ada"))

    return plan


def journal(conversation: Conversation) -> Journal:
    return Journal(conversation.ports, LANE, "test")


def texts(conversation: Conversation) -> list[str]:
    return [entry.text for entry in conversation.entries(Inbound)]


def test_a_batch_follows_the_newest_one() -> None:
    conversation = Conversation()
    journal(conversation).commit(note("a"))
    batch = journal(conversation).commit(note("b"))
    assert isinstance(batch, Batch)
    assert (batch.n, batch.step, texts(conversation)) == (2, "test", ["a", "b"])


def test_a_commit_that_lost_a_race_is_planned_again_after_the_winner() -> None:
    log = BusyLog()
    conversation, tails = Conversation(log=log), []
    log.rivals = [lambda: journal(conversation).commit(note("faster"))]
    journal(conversation).commit(note("mine", tails))
    assert tails == [0, 1]
    assert texts(conversation) == ["faster", "mine"]


def test_an_applied_put_whose_answer_was_lost_is_recognised_and_not_repeated() -> None:
    conversation, tails = Conversation(log=LosingLog(True)), []
    batch = journal(conversation).commit(note("once", tails))
    assert isinstance(batch, Batch)
    assert (tails, texts(conversation)) == ([0], ["once"])


def test_a_put_that_never_arrived_is_planned_again() -> None:
    conversation, tails = Conversation(log=LosingLog(False, False)), []
    journal(conversation).commit(note("once", tails))
    assert (tails, texts(conversation)) == ([0, 0, 0], ["once"])


def test_a_put_that_lands_after_its_timeout_is_kept_unchanged() -> None:
    """The call timed out, read, found nothing and planned again; then the first put landed after all."""
    log = BusyLog()
    conversation = Conversation(log=log)
    mine = journal(conversation)

    def lands() -> None:
        log.batches[LANE.key()] = []
        early = Batch(n=1, by=mine.by, at="", entries=(inbound("first"),), state=conversation.state)
        BusyLog.put(log, LANE, early)

    log.rivals = [lands]
    batch = mine.commit(note("second"))
    assert isinstance(batch, Batch)
    assert batch.entries == conversation.tail.entries == (inbound("first"),)


def test_a_duplicate_gets_the_batch_that_admitted_the_first_message() -> None:
    conversation = Conversation()

    def plan(tail: Batch) -> Draft:
        return replace_id(note("a")(tail))

    def replace_id(draft: Draft) -> Draft:
        return Draft(entries=draft.entries, state=draft.state, message_id="m1")

    journal(conversation).commit(plan)
    assert journal(conversation).commit(plan, on_duplicate=lambda n: f"admitted in {n}") == "admitted in 1"


def test_a_conclusion_without_a_put_uses_a_strong_read() -> None:
    log = StaleLog(lag=1)
    conversation, tails = Conversation(log=log), []
    for text in "ab":
        journal(conversation).commit(note(text))

    def plan(tail: Batch) -> str:
        tails.append(tail.n)
        return f"ends at {tail.n}"

    assert journal(conversation).commit(plan) == "ends at 2"
    assert tails == [1, 2]


def test_a_refusal_based_on_a_stale_read_is_checked_again() -> None:
    conversation = Conversation(log=StaleLog(lag=1))
    journal(conversation).commit(note("a"))

    def plan(tail: Batch) -> Draft:
        if not tail.n:
            raise NotFoundError("no such conversation")
        return note("b")(tail)

    assert isinstance(journal(conversation).commit(plan), Batch)


def test_a_refusal_based_on_a_fresh_read_is_final() -> None:
    def plan(tail: Batch) -> Draft:
        raise NotFoundError("no such conversation")

    with pytest.raises(NotFoundError):
        journal(Conversation()).commit(plan)


def test_a_stale_tail_costs_only_a_conflict() -> None:
    conversation, tails = Conversation(log=StaleLog(lag=2)), []
    for text in "abc":
        journal(conversation).commit(note(text, tails))
    assert texts(conversation) == ["a", "b", "c"]


def test_a_contended_commit_fails_after_the_configured_tries_and_pauses() -> None:
    log = ContendedLog()
    conversation, tails = Conversation(log=log, append_tries=4), []
    log.contended = True
    with pytest.raises(BusyError):
        journal(conversation).commit(note("never", tails))
    assert len(tails) == 4
    assert conversation.clock.monotonic_s() > 0


class Counting(MemoryLog):
    """Count the reads of the tail."""

    asked = 0

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        self.asked += 1
        return super().tail(lane)


def test_a_known_tail_saves_the_first_read() -> None:
    log = Counting()
    conversation = Conversation(log=log)
    first = journal(conversation).commit(note("a"))
    assert isinstance(first, Batch)
    asked = log.asked
    journal(conversation).commit(note("b"), tail=first)
    assert (log.asked, texts(conversation)) == (asked, ["a", "b"])


def test_every_read_of_the_journal_restores_spilled_strings() -> None:
    conversation, text = Conversation(), "🦜" * 20_000
    journal(conversation).commit(note(text))
    (raw,) = conversation.batches()
    assert raw.spilled
    (since,) = journal(conversation).since(0)
    got = journal(conversation).get(1)
    assert got == since
    assert since.entries == (inbound(text),)


@settings(parent=patient)
@given(logs())
def test_prev_names_the_newest_batch_before_that_has_client_events(builder: LogBuilder) -> None:
    conversation = Conversation()
    for batch in builder.batches:
        draft = Draft(entries=batch.entries, state=batch.state)
        journal(conversation).commit(lambda _, draft=draft: draft)
    newest = 0
    for batch in conversation.batches():
        assert batch.state.prev == newest
        newest = batch.n if derive(batch) else newest


def test_a_batch_without_client_events_is_passed_over_by_prev() -> None:
    conversation = Conversation()
    plans: list[Any] = [note("a"), lambda t: Draft(entries=(), state=t.state), note("b")]
    for plan in plans:
        journal(conversation).commit(plan)
    assert [batch.state.prev for batch in conversation.batches()] == [0, 1, 1]


def test_a_reopened_turn_is_a_client_event() -> None:
    conversation = Conversation()
    journal(conversation).commit(lambda t: Draft(entries=(Reopened(iteration=0, attempt=1),), state=t.state))
    journal(conversation).commit(note("b"))
    assert conversation.tail.state.prev == 1
