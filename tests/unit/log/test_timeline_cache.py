"""Segments in the loop: a cold process begins at the newest, a warm one drops the batches it holds, and a lost one is only a delay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.signal import MemorySignals
from stepline.errors import DependencyError
from stepline.log import timeline_cache
from stepline.log.journal import Journal
from stepline.log.timeline_cache import MIME, History, segment_key
from stepline.metrics import SEGMENTS_SEALED, SEGMENTS_UNREAD, SEGMENTS_UNSEALED
from stepline.model.batch import decode_batch
from stepline.model.program.handover import Handover, Parcel
from stepline.rendering.text_form import STANDARD
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Conversation, tool
from tests.support.faulty_log import CountingLog, StaleLog
from tests.support.generation import answered, called, coded
from tests.support.task_conversation import TaskConversation

LOOK = "test.look"


class FailingArtifacts(MemoryArtifacts):
    """Refuse every put below these prefixes."""

    def __init__(self, *prefixes: str) -> None:
        super().__init__()
        self.prefixes = prefixes

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        if key.startswith(self.prefixes):
            raise DependencyError("the store is away")
        return super().put(key, body, mime=mime)


def looks(rounds: int) -> list[str]:
    return [called(LOOK, notes=f"look {number}") for number in range(rounds)]


def play(
    rounds: int,
    *,
    log: MemoryLog | None = None,
    seal_batches: int = 4,
    run: Callable[[ToolContext], ToolOutput] | None = None,
    stored: Mapping[str, bytes] | None = None,
    **policy: Any,
) -> Conversation:
    """Return a conversation in the middle of its only turn, before the next call of the model."""
    conversation = Conversation(
        *looks(rounds + 1), answered("done"), log=log, seal_batches=seal_batches, max_iterations=99, **policy
    )
    # No user steers here, and the reads of a watch must not be counted.
    conversation.ports = dataclasses.replace(conversation.ports, signals=MemorySignals(MemoryLog()))
    conversation.use(
        tool(LOOK, "pure", run or (lambda context: ToolOutput(blocks=(context.result(LOOK, "seen"),))))
    )
    for key, body in (stored or {}).items():
        conversation.ports.artifacts.put(key, body, mime=MIME)
    conversation.send("look around")
    for _ in range(rounds):
        conversation.decide()
        conversation.act()
    return conversation


def cold(conversation: Conversation) -> Conversation:
    """Forget everything, as in a new process."""
    conversation.history = History()
    return conversation


def load(
    conversation: Conversation, history: History | None = None, *, segment: int | None = None
) -> Timeline:
    named = conversation.state.segment if segment is None else segment
    return (history or History()).load(Journal(conversation.ports, LANE, "test"), segment=named)


def segments(conversation: Conversation) -> list[str]:
    return sorted(key for key in conversation.ports.artifacts.objects if key.startswith("seg/"))


def test_a_long_log_is_sealed_before_the_decision_that_names_the_segment():
    conversation = play(6)
    named = [(batch.n, batch.state.segment) for batch in conversation.batches()]
    assert next(pair for pair in named if pair[1]) == (6, 5)
    assert conversation.state.segment == 9
    assert segments(conversation) == [segment_key(LANE, 5), segment_key(LANE, 9)]
    assert {conversation.ports.artifacts.mimes[key] for key in segments(conversation)} == {MIME}
    assert conversation.ports.meter.counts[SEGMENTS_SEALED] == 2


def test_much_text_is_sealed_although_the_batches_are_few():
    shy = play(2, seal_batches=99, seal_bytes=10**6)
    assert segments(shy) == []
    assert len(segments(play(2, seal_batches=99, seal_bytes=100))) == 2


def test_a_short_conversation_puts_no_segment():
    conversation = play(2, seal_batches=64)
    assert (conversation.state.segment, segments(conversation)) == (0, [])


def test_a_segment_of_batches_lost_by_a_restored_log_is_replaced():
    def other(context: ToolContext) -> ToolOutput:
        return ToolOutput(blocks=(context.result(LOOK, "lost"),))

    lost = play(6, run=other)
    conversation = play(6, stored={key: lost.ports.artifacts.get(key) for key in segments(lost)})
    assert segments(conversation) == segments(lost) == [segment_key(LANE, 5), segment_key(LANE, 9)]
    assert load(conversation).whole() == conversation.timeline().whole()


def test_a_cold_process_reads_the_segment_and_the_later_batches():
    log = CountingLog()
    conversation = cold(play(6, log=log))
    log.reads.clear()
    conversation.decide()
    assert log.reads == [(9, None)]
    assert conversation.model.requests[-1] == cold_request(conversation)


def cold_request(conversation: Conversation) -> Any:
    """Return the request of a process that never saw a segment, in the same round."""
    other = play(6, seal_batches=10**6)
    other.decide()
    return other.model.requests[-1]


def test_a_step_of_an_older_release_names_no_segment_and_reads_everything():
    conversation = play(6)
    timeline = load(conversation, segment=0)
    assert (timeline.base, len(timeline.batches)) == (0, len(conversation.batches()))


def test_a_warm_process_drops_batches_that_a_segment_holds():
    conversation = play(40)
    timeline = load(conversation, conversation.history)
    assert timeline.base == conversation.state.segment > 70
    assert len(timeline.batches) <= 8
    assert timeline.whole() == dataclasses.replace(conversation.timeline(), load=timeline.load)


def test_a_warm_process_forgets_the_least_recently_used_conversation(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(timeline_cache, "REMEMBERED", 2)
    log, history = CountingLog(), History()
    conversation = Conversation(log=log)
    journals = {}
    for name in "abc":
        lane = msgspec.structs.replace(LANE, conversation=name)
        conversation.send("hello", lane=lane)
        journals[name] = Journal(conversation.ports, lane, "test")
    for name in "abac":
        history.load(journals[name])
    log.reads.clear()
    for name in "acb":
        history.load(journals[name])
    assert log.reads == [(1, None), (1, None), (0, None)]


def test_a_tool_reads_the_log_before_the_segment_once():
    log, seen = CountingLog(), []

    def run(context: ToolContext) -> ToolOutput:
        seen.append(len(context.timeline.turn_blocks(context.turn)))
        return ToolOutput(blocks=(context.result(LOOK, "seen"),))

    conversation = play(5, log=log, run=run)
    step = conversation.decide()
    base = conversation.state.segment
    log.reads.clear()
    cold(conversation).act(step)
    assert seen == sorted(seen)
    assert seen[-1] > base
    assert log.reads == [(base, None), (0, base)]


@pytest.mark.parametrize("spoil", ["gone", "damaged", "another form"])
def test_a_segment_that_cannot_be_read_costs_a_reading_of_the_log(spoil: str):
    conversation = play(6)
    objects = conversation.ports.artifacts.objects
    for key in segments(conversation):
        if spoil == "gone":
            del objects[key]
        elif spoil == "damaged":
            objects[key] = objects[key][:-9]
    form = msgspec.structs.replace(STANDARD, name="other") if spoil == "another form" else STANDARD
    conversation.history = History(form=form)
    timeline = load(conversation, conversation.history)
    assert timeline.batches == tuple(conversation.batches())
    assert conversation.ports.meter.counts[SEGMENTS_UNREAD] == 1
    conversation.decide()
    assert conversation.state.segment == len(conversation.batches()) - 1, (
        "it is not read twice: the next round seals again"
    )
    assert load(conversation, History(form=form)).base == conversation.state.segment
    assert conversation.ports.meter.counts[SEGMENTS_UNREAD] == 1


def test_an_unavailable_store_costs_the_segment_but_not_the_turn():
    conversation = Conversation(called(LOOK), answered("done"), seal_batches=1)
    conversation.use(tool(LOOK, "pure", lambda context: ToolOutput(blocks=(context.result(LOOK, "seen"),))))
    conversation.ports = dataclasses.replace(conversation.ports, artifacts=FailingArtifacts("seg/"))
    conversation.send("look around")
    conversation.run()
    assert (conversation.state.status, conversation.state.segment) == ("idle", 0)
    assert conversation.ports.meter.counts[SEGMENTS_UNSEALED] == 2


def test_a_weak_read_that_misses_older_batches_is_repeated():
    conversation = cold(play(6, log=StaleLog(lag=8)))
    timeline = load(conversation)
    assert timeline.since(0, timeline.base) == tuple(conversation.batches()[: timeline.base])


def test_the_next_turn_and_its_execution_know_the_segment():
    conversation = play(6)
    conversation.act(conversation.decide())
    conversation.close(conversation.decide())
    assert conversation.state.status == "idle"
    conversation.take()
    conversation.send("again", id="m2")
    _, step = conversation.take()
    assert step.segment == conversation.state.segment > 0
    assert load(conversation, segment=step.segment).base == step.segment


def test_a_process_with_a_part_of_the_log_gives_a_task_the_whole_log(tmp_path):
    write = called("react.write", {"path": "in.csv", "content": "x,y"})
    conversation = TaskConversation(tmp_path, write, coded("print('hello')", "totals.csv"), answered("done"))
    policy = dataclasses.replace(conversation.ports.policy, seal_batches=1)
    conversation.ports = dataclasses.replace(conversation.ports, policy=policy)
    conversation.send()
    conversation.act(conversation.decide())
    step = conversation.decide()
    step = cold(conversation).act(step)
    assert load(conversation).base > 0
    handover = msgspec.json.decode(conversation.tasks.secrets[step.launch.secret], type=Handover)
    parcel = msgspec.msgpack.decode(conversation.grants.get(handover.parcel), type=Parcel)
    assert [decode_batch(body) for body in parcel.batches] == conversation.batches()[: parcel.request.n]
    assert [file.path.rpartition("/")[2] for file in parcel.request.files] == ["in.csv"]
    assert {file.key for file in parcel.request.files} <= set(parcel.reads)
