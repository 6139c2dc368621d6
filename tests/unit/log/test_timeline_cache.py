"""Segments in the loop: a cold process begins at the newest, a warm one lets go of what it holds, losing one is a delay."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.signal import MemorySignals
from stepline.errors import DependencyError
from stepline.log.journal import Journal
from stepline.log.timeline_cache import MIME, History, segment_key
from stepline.metrics import SEGMENTS_SEALED, SEGMENTS_UNREAD, SEGMENTS_UNSEALED
from stepline.model.batch import Batch, decode_batch
from stepline.model.ids import Lane
from stepline.model.program.task import Handover, Parcel
from stepline.rendering.layout import STANDARD
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Scene, answered, called, coded, tool
from tests.support.faulty_log import StaleLog
from tests.support.task_conversation import TaskScene

LOOK = "test.look"


class CountingLog(MemoryLog):
    """Remembers which stretches were read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[int, int | None]] = []

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        self.reads.append((n, upto))
        return super().since(lane, n, upto=upto, consistent=consistent)


class FailingArtifacts(MemoryArtifacts):
    """Refuses what is put below these prefixes."""

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
    **policy: Any,
) -> Scene:
    """Return a conversation of one turn in the middle of which the model is about to be asked again."""
    scene = Scene(
        *looks(rounds + 1), answered("done"), log=log, seal_batches=seal_batches, max_iterations=99, **policy
    )
    # Nobody steers here, and the looks of a watch are not among the reads that count.
    scene.ports = dataclasses.replace(scene.ports, signals=MemorySignals(MemoryLog()))
    scene.use(tool(LOOK, "pure", run or (lambda context: ToolOutput(blocks=(context.result(LOOK, "seen"),)))))
    scene.send("look around")
    for _ in range(rounds):
        scene.decide()
        scene.act()
    return scene


def cold(scene: Scene) -> Scene:
    """Forget everything, as a new process has."""
    scene.history = History()
    return scene


def load(scene: Scene, history: History | None = None, *, segment: int | None = None) -> Timeline:
    named = scene.state.segment if segment is None else segment
    return (history or History()).load(Journal(scene.ports, LANE, "test"), segment=named)


def segments(scene: Scene) -> list[str]:
    return sorted(key for key in scene.ports.artifacts.objects if key.startswith("seg/"))


def fold(scene: Scene) -> Timeline:
    return Timeline.empty(LANE).extended(scene.batches())


def test_a_long_log_is_sealed_before_the_decision_that_names_the_segment():
    scene = play(6)
    named = [(batch.n, batch.state.segment) for batch in scene.batches()]
    assert next(pair for pair in named if pair[1]) == (6, 5)
    assert scene.state.segment == 9
    assert segments(scene) == [segment_key(LANE, 5), segment_key(LANE, 9)]
    assert set(scene.ports.artifacts.mimes.values()) == {MIME}
    assert scene.ports.meter.counts[SEGMENTS_SEALED] == 2


def test_much_text_is_sealed_although_the_batches_are_few():
    shy = play(2, seal_batches=99, seal_bytes=10**6)
    assert segments(shy) == []
    assert len(segments(play(2, seal_batches=99, seal_bytes=100))) == 2


def test_a_short_conversation_puts_no_object():
    scene = play(2, seal_batches=64)
    assert (scene.state.segment, dict(scene.ports.artifacts.objects)) == (0, {})


def test_a_cold_process_reads_the_segment_and_what_came_after():
    log = CountingLog()
    scene = cold(play(6, log=log))
    log.reads.clear()
    scene.decide()
    assert log.reads == [(9, None)]
    assert scene.model.requests[-1] == cold_request(scene)


def cold_request(scene: Scene) -> Any:
    """Return what a process that never saw a segment asks at the same place."""
    other = play(6, seal_batches=10**6)
    other.decide()
    return other.model.requests[-1]


def test_a_step_of_an_older_release_names_no_segment_and_reads_everything():
    scene = play(6)
    timeline = load(scene, segment=0)
    assert (timeline.base, len(timeline.batches)) == (0, len(scene.batches()))


def test_a_warm_process_lets_go_of_what_a_segment_holds():
    scene = play(40)
    timeline = load(scene, scene.history)
    assert timeline.base == scene.state.segment > 70
    assert len(timeline.batches) <= 8
    assert timeline.whole() == dataclasses.replace(fold(scene), load=timeline.load)


def test_a_tool_finds_what_happened_before_the_segment_and_the_log_is_read_once_for_it():
    log, seen = CountingLog(), []

    def run(context: ToolContext) -> ToolOutput:
        seen.append(len(context.timeline.turn_blocks(context.turn)))
        return ToolOutput(blocks=(context.result(LOOK, "seen"),))

    scene = play(5, log=log, run=run)
    step = scene.decide()
    base = scene.state.segment
    log.reads.clear()
    cold(scene).act(step)
    assert seen == sorted(seen)
    assert seen[-1] > base
    assert log.reads == [(base, None), (0, base)]


@pytest.mark.parametrize("spoil", ["gone", "damaged", "another layout"])
def test_a_segment_that_cannot_be_read_costs_a_reading_of_the_log(spoil: str):
    scene = play(6)
    objects = scene.ports.artifacts.objects
    for key in segments(scene):
        if spoil == "gone":
            del objects[key]
        elif spoil == "damaged":
            objects[key] = objects[key][:-9]
    layout = dataclasses.replace(STANDARD, name="other") if spoil == "another layout" else STANDARD
    scene.history = History(layout=layout)
    timeline = load(scene, scene.history)
    assert timeline.batches == tuple(scene.batches())
    assert scene.ports.meter.counts[SEGMENTS_UNREAD] == 1
    scene.decide()
    assert scene.state.segment == len(scene.batches()) - 1, "nobody reads it twice: the next round seals anew"
    assert load(scene, History(layout=layout)).base == scene.state.segment
    assert scene.ports.meter.counts[SEGMENTS_UNREAD] == 1


def test_a_store_that_is_away_costs_the_segment_and_not_the_turn():
    scene = Scene(called(LOOK), answered("done"), seal_batches=1)
    scene.use(tool(LOOK, "pure", lambda context: ToolOutput(blocks=(context.result(LOOK, "seen"),))))
    scene.ports = dataclasses.replace(scene.ports, artifacts=FailingArtifacts("seg/"))
    scene.send("look around")
    scene.run()
    assert (scene.state.status, scene.state.segment) == ("idle", 0)
    assert scene.ports.meter.counts[SEGMENTS_UNSEALED] == 2


def test_a_weak_read_that_misses_older_batches_is_made_again():
    scene = cold(play(6, log=StaleLog(lag=8)))
    timeline = load(scene)
    assert timeline.since(0, timeline.base) == tuple(scene.batches()[: timeline.base])


def test_the_next_turn_and_its_execution_know_the_segment():
    scene = play(6)
    scene.act(scene.decide())
    scene.close(scene.decide())
    assert scene.state.status == "idle"
    scene.take()
    scene.send("again", id="m2")
    _, step = scene.take()
    assert step.segment == scene.state.segment > 0
    assert load(scene, segment=step.segment).base == step.segment


def test_a_task_is_handed_the_whole_log_by_a_process_that_has_a_part_of_it(tmp_path):
    write = called("react.write", {"path": "in.csv", "content": "x,y"})
    scene = TaskScene(tmp_path, write, coded("print('hello')", "totals.csv"), answered("done"))
    policy = dataclasses.replace(scene.ports.policy, seal_batches=1)
    scene.ports = dataclasses.replace(scene.ports, policy=policy)
    scene.send()
    scene.act(scene.decide())
    step = scene.decide()
    step = cold(scene).act(step)
    assert load(scene).base > 0
    handover = msgspec.json.decode(scene.tasks.secrets[step.launch.secret], type=Handover)
    parcel = msgspec.msgpack.decode(scene.grants.get(handover.parcel), type=Parcel)
    assert [decode_batch(body) for body in parcel.batches] == scene.batches()[: parcel.request.n]
    assert [file.path.rpartition("/")[2] for file in parcel.request.files] == ["in.csv"]
    assert {file.key for file in parcel.request.files} <= set(parcel.reads)
