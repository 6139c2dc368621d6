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
from tests.support.conversation import LANE, Scene
from tests.support.faulty_log import BusyLog, ContendedLog, LosingLog, StaleLog
from tests.support.log_builder import Story, patient, stories


def inbound(text: str) -> Inbound:
    return Inbound(message_id="m", event="event", text=text, user="ada", at="")


def note(text: str, tails: list[int] | None = None) -> Callable[[Batch], Draft]:
    """Return a plan that appends one entry, and remembers the tails it was planned against."""

    def plan(tail: Batch) -> Draft:
        if tails is not None:
            tails.append(tail.n)
        return Draft(entries=(inbound(text),), state=replace(tail.state, owner="ada"))

    return plan


def journal(scene: Scene) -> Journal:
    return Journal(scene.ports, LANE, "test")


def texts(scene: Scene) -> list[str]:
    return [entry.text for entry in scene.entries(Inbound)]


def test_a_batch_follows_the_newest_one() -> None:
    scene = Scene()
    journal(scene).commit(note("a"))
    batch = journal(scene).commit(note("b"))
    assert isinstance(batch, Batch)
    assert (batch.n, batch.step, texts(scene)) == (2, "test", ["a", "b"])


def test_a_conflict_plans_the_same_intention_again_behind_whoever_was_faster() -> None:
    log = BusyLog()
    scene, tails = Scene(log=log), []
    log.rivals = [lambda: journal(scene).commit(note("faster"))]
    journal(scene).commit(note("mine", tails))
    assert tails == [0, 1]
    assert texts(scene) == ["faster", "mine"]


def test_an_applied_put_whose_answer_was_lost_is_recognised_and_not_repeated() -> None:
    scene, tails = Scene(log=LosingLog(True)), []
    batch = journal(scene).commit(note("once", tails))
    assert isinstance(batch, Batch)
    assert (tails, texts(scene)) == ([0], ["once"])


def test_a_put_that_never_arrived_is_planned_again() -> None:
    scene, tails = Scene(log=LosingLog(False, False)), []
    journal(scene).commit(note("once", tails))
    assert (tails, texts(scene)) == ([0, 0, 0], ["once"])


def test_a_put_that_arrived_later_than_its_answer_stands_as_it_was_put() -> None:
    """The call gave up, looked, found nothing, planned anew; then the first put landed after all."""
    log = BusyLog()
    scene = Scene(log=log)
    mine = journal(scene)

    def lands() -> None:
        log.batches[LANE.key()] = []
        early = Batch(n=1, by=mine.by, at="", entries=(inbound("first"),), state=scene.state)
        BusyLog.put(log, LANE, early)

    log.rivals = [lands]
    batch = mine.commit(note("second"))
    assert isinstance(batch, Batch)
    assert batch.entries == scene.tail.entries == (inbound("first"),)


def test_a_duplicate_is_answered_with_what_was_admitted_first() -> None:
    scene = Scene()

    def plan(tail: Batch) -> Draft:
        return replace_id(note("a")(tail))

    def replace_id(draft: Draft) -> Draft:
        return Draft(entries=draft.entries, state=draft.state, message_id="m1")

    journal(scene).commit(plan)
    assert journal(scene).commit(plan, on_duplicate=lambda n: f"admitted in {n}") == "admitted in 1"


def test_a_conclusion_without_a_put_rests_on_a_strong_read() -> None:
    log = StaleLog(lag=1)
    scene, tails = Scene(log=log), []
    for text in "ab":
        journal(scene).commit(note(text))

    def plan(tail: Batch) -> str:
        tails.append(tail.n)
        return f"ends at {tail.n}"

    assert journal(scene).commit(plan) == "ends at 2"
    assert tails == [1, 2]


def test_a_refusal_on_a_stale_read_is_looked_at_again() -> None:
    scene = Scene(log=StaleLog(lag=1))
    journal(scene).commit(note("a"))

    def plan(tail: Batch) -> Draft:
        if not tail.n:
            raise NotFoundError("no such conversation")
        return note("b")(tail)

    assert isinstance(journal(scene).commit(plan), Batch)


def test_a_refusal_on_a_fresh_read_is_the_answer() -> None:
    def plan(tail: Batch) -> Draft:
        raise NotFoundError("no such conversation")

    with pytest.raises(NotFoundError):
        journal(Scene()).commit(plan)


def test_a_stale_tail_costs_a_conflict_and_nothing_else() -> None:
    scene, tails = Scene(log=StaleLog(lag=2)), []
    for text in "abc":
        journal(scene).commit(note(text, tails))
    assert texts(scene) == ["a", "b", "c"]


def test_a_contended_lane_is_given_up_after_the_agreed_tries_with_pauses_in_between() -> None:
    log = ContendedLog()
    scene, tails = Scene(log=log, append_tries=4), []
    log.contended = True
    with pytest.raises(BusyError):
        journal(scene).commit(note("never", tails))
    assert len(tails) == 4
    assert scene.clock.monotonic_s() > 0


class Counting(MemoryLog):
    """Counts how often somebody asked for the tail."""

    asked = 0

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        self.asked += 1
        return super().tail(lane)


def test_a_known_tail_saves_the_first_read() -> None:
    log = Counting()
    scene = Scene(log=log)
    first = journal(scene).commit(note("a"))
    assert isinstance(first, Batch)
    asked = log.asked
    journal(scene).commit(note("b"), tail=first)
    assert (log.asked, texts(scene)) == (asked, ["a", "b"])


def test_large_strings_are_whole_for_whoever_reads() -> None:
    scene, text = Scene(), "🦜" * 20_000
    journal(scene).commit(note(text))
    (raw,) = scene.batches()
    assert raw.spilled
    (since,) = journal(scene).since(0)
    got = journal(scene).get(1)
    assert got == since
    assert since.entries == (inbound(text),)


@settings(parent=patient)
@given(stories())
def test_prev_names_the_newest_batch_before_that_has_client_events(story: Story) -> None:
    scene = Scene()
    for batch in story.batches:
        told = Draft(entries=batch.entries, state=batch.state)
        journal(scene).commit(lambda _, told=told: told)
    newest = 0
    for batch in scene.batches():
        assert batch.state.prev == newest
        newest = batch.n if derive(batch) else newest


def test_a_batch_without_client_events_is_passed_over_by_prev() -> None:
    scene = Scene()
    plans: list[Any] = [note("a"), lambda t: Draft(entries=(), state=t.state), note("b")]
    for plan in plans:
        journal(scene).commit(plan)
    assert [batch.state.prev for batch in scene.batches()] == [0, 1, 1]


def test_reopening_is_an_event_of_its_own_for_clients() -> None:
    scene = Scene()
    journal(scene).commit(lambda t: Draft(entries=(Reopened(iteration=0, attempt=1),), state=t.state))
    journal(scene).commit(note("b"))
    assert scene.tail.state.prev == 1
