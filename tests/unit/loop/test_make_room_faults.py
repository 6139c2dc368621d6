"""A process that dies while it makes room: the next one continues from the log."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import Fail
from stepline.errors import ModelTimeout, UnknownOutcome
from stepline.events.derive import derive
from stepline.log.timeline_cache import History
from stepline.model.batch import Batch
from stepline.model.entry import Compacted, Compacting, Decided, Reopened
from stepline.model.ids import Lane
from stepline.ports.log import Put
from stepline.timeline.compacted import UNTOUCHED
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import decode_segment, encode_segment
from tests.support.conversation import LANE, closings, text_of
from tests.support.draw import share
from tests.support.small_context import SmallContext, prose, tokens

PUTS = share(range(1, 24), 3)
"""The puts at which this run dies: each run covers a third of them."""


class Died(BaseException):
    """The process is gone; nothing of ours catches that."""


class MortalLog(MemoryLog):
    """The process dies at its `at`-th put from now: before it (`applied` is false), or right after it."""

    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__()
        self.error = error or Died()
        self.at, self.applied = 0, False

    def put(self, lane: Lane, batch: Batch, **fields: Any) -> Put:
        self.at -= 1
        if self.at == 0 and not self.applied:
            raise self.error
        put = super().put(lane, batch, **fields)
        if self.at == 0:
            raise self.error
        return put


def live(conversation: SmallContext) -> int:
    """Drive the open turn to its end, each death followed by another try of the same step; return the deaths."""
    _, step = conversation.take()
    deaths = attempt = 0
    while step.route not in ("stop", "done"):
        try:
            step, attempt = conversation.states[step.route](replace(step, attempt=attempt)), 0
        except Died:
            deaths, attempt = deaths + 1, attempt + 1
            conversation.history = History()
    return deaths


def compactions(conversation: SmallContext) -> list[tuple[str, str]]:
    """Return the compaction events sent to clients: each one's id and status, in order."""
    events = [event for batch in conversation.batches() for event in derive(batch)]
    return [
        (event.data["compaction_id"], event.status) for event in events if event.type == "chat.compaction"
    ]


def conversation_before_room(log: MemoryLog) -> SmallContext:
    conversation = SmallContext(8_000, log=log)
    conversation.turn("What do otters eat?", prose(6_000), answer=prose(4_000))
    conversation.plan(*["x"] * 9, notes=prose(2_000))
    conversation.plan()  # for an attempt that must ask again because its decision is not in the log
    conversation.send("And what else?", id="next")
    return conversation


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", PUTS)
def test_a_take_over_at_any_put_ends_the_compaction_once(at: int, applied: bool) -> None:
    log = MortalLog()
    conversation = conversation_before_room(log)
    log.at, log.applied = at, applied
    deaths = live(conversation)
    assert deaths == (log.at <= 0)
    events = compactions(conversation)
    begun = [name for name, status in events if status == "started"]
    assert len(set(begun)) == len(begun) == len(conversation.entries(Compacting)) > 0
    for name in begun:
        assert [status for other, status in events if other == name] == ["started", "completed"]
    assert closings(conversation)[-1].outcome == "completed"
    assert max(tokens(request) for request in conversation.voices.requests) <= 8_000
    assert not conversation.timeline().compaction.pending


@pytest.mark.parametrize("applied", [False, True], ids=["before", "after"])
def test_a_lost_answer_to_any_put_changes_nothing(applied: bool) -> None:
    plain = conversation_before_room(MemoryLog())
    live(plain)
    for at in PUTS:
        log = MortalLog(UnknownOutcome("the answer was lost"))
        conversation = conversation_before_room(log)
        log.at, log.applied = at, applied
        live(conversation)
        assert conversation.reductions() == plain.reductions()
        assert read(conversation) == read(plain)


def read(conversation: SmallContext) -> list[tuple[str, str, int]]:
    """Return the model's text without the parts that differ in every conversation."""
    return [(piece.kind, piece.hint, piece.size) for piece in conversation.timeline().pieces]


def test_a_reduction_reads_alike_in_every_process() -> None:
    conversation = conversation_before_room(MemoryLog())
    live(conversation)
    cold = Timeline.empty(LANE).extended(conversation.batches())
    assert [piece.text for piece in cold.pieces] == [piece.text for piece in conversation.timeline().pieces]
    assert cold.compaction == conversation.timeline().compaction


def test_an_event_during_a_summary_remains_visible() -> None:
    conversation = conversation_before_room(MemoryLog())
    conversation.voices.meanwhile = [lambda: conversation.send(f"Hurry! {prose(9_000)}", id="late")]
    live(conversation)
    after = next(
        i for i, request in enumerate(conversation.voices.requests) if request.role.startswith("context.")
    )
    request = next(one for one in conversation.voices.requests[after:] if one.role.startswith("solver."))
    shown = text_of(request)
    assert "[MID-TURN COMPACTION" in shown
    assert "Hurry!" in shown
    assert tokens(request) <= 8_000


def test_a_compaction_that_is_not_needed_any_more_is_ended_without_a_model() -> None:
    conversation = conversation_before_room(MemoryLog())
    _, step = conversation.take()
    conversation.voices.script = [Fail(error=ModelTimeout("busy"))]
    while not conversation.entries(Compacting):
        try:
            step = conversation.states[step.route](step)
        except ModelTimeout:
            break
    asked = len(conversation.asked("context."))
    policy = conversation.ports.policy
    wider = dataclasses.replace(policy, context=replace(policy.context, max_tokens=80_000))
    conversation.ports = dataclasses.replace(conversation.ports, policy=wider)
    step = conversation.decide(replace(step, attempt=1))
    assert len(conversation.asked("context.")) == asked
    (ended,) = conversation.entries(Compacted)
    assert (ended.status, ended.reason) == ("skipped", "not_needed")
    assert [status for _, status in compactions(conversation)] == ["started", "skipped"]
    assert conversation.entries(Reopened)
    assert conversation.entries(Decided)


def test_a_turn_that_fails_during_a_summary_ends_the_compaction() -> None:
    conversation = conversation_before_room(MemoryLog())
    conversation.voices.script = [Fail(error=ModelTimeout("busy"))]
    conversation.run()
    assert closings(conversation)[-1].code == "model_timeout"
    (begun,), (ended,) = conversation.entries(Compacting), conversation.entries(Compacted)
    assert (ended.id, ended.status, ended.reason) == (begun.id, "error", "turn_ended")
    assert [status for _, status in compactions(conversation)] == ["started", "error"]
    assert not conversation.timeline().compaction.pending
    assert "chat.error" in {event.type for event in derive(conversation.tail)}


def test_the_state_of_a_compaction_survives_in_a_segment() -> None:
    conversation = conversation_before_room(MemoryLog())
    live(conversation)
    for kind in (Compacting, Compacted):
        n = next(
            batch.n
            for batch in conversation.batches()
            if any(isinstance(entry, kind) for entry in batch.entries)
        )
        timeline = Timeline.empty(LANE).extended(conversation.batches()[:n])
        again = decode_segment(encode_segment(timeline), LANE, timeline.form)
        assert again is not None
        assert again.compaction == timeline.compaction != UNTOUCHED
