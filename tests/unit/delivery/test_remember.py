"""The rows of an ended turn are added to an index that reads no logs; a failing index fails no turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.delivery import effect
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.loop.close import follow_closing
from stepline.loop.sweep import sweep
from stepline.metrics import MEMORY_UNWRITTEN
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryHit, MemoryQuery
from tests.support.conversation import LANE, USER, Conversation, closings
from tests.support.generation import answered

SCOPE = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)


class Unreachable(MemoryMemoryIndex):
    """An index that cannot be written for a while."""

    error: SteplineError | None = DependencyError("no answer", code="service_unavailable")

    def add(self, scope: MemoryScope, rows: Sequence[MemoryRow]) -> None:
        if self.error is not None:
            raise self.error
        super().add(scope, rows)


def a_turn(index: MemoryMemoryIndex) -> Conversation:
    conversation = Conversation(answered("Otters sleep on their backs."))
    conversation.ports = replace(conversation.ports, memory=index)
    conversation.send("Where do they rest?")
    conversation.run()
    return conversation


def found(index: MemoryMemoryIndex, text: str) -> tuple[MemoryHit, ...]:
    return index.search(MemoryQuery(scope=SCOPE, text=text)).hits


def test_a_turn_that_has_ended_is_found_in_an_index_that_reads_no_logs():
    index = MemoryMemoryIndex()
    conversation = a_turn(index)
    (hit,) = found(index, "otters")
    assert hit.row.path == f"ar:{closings(conversation)[0].turn}.assistant.completion"
    assert [hit.row.n] == [batch.n for batch in conversation.batches() if batch.step == "close"]


def test_a_repeated_end_of_a_turn_adds_no_row_twice():
    index = MemoryMemoryIndex()
    conversation = a_turn(index)
    follow_closing(conversation.ports, LANE, conversation.tail)
    assert len(found(index, "otters")) == 1


def test_an_index_that_reads_logs_gets_no_rows_and_finds_the_turn():
    conversation = Conversation()
    index = Unreachable(conversation.ports)
    conversation = a_turn(index)
    assert conversation.ports.meter.counts[MEMORY_UNWRITTEN] == 0
    assert conversation.app.ports.memory is not None
    query = MemoryQuery(scope=SCOPE, text="otters")
    assert len(conversation.app.ports.memory.search(query).hits) == 1


def test_a_turn_that_an_index_refused_is_added_again_by_the_sweeper():
    index = Unreachable()
    conversation = Conversation(answered("Otters sleep on their backs."))
    conversation.ports = replace(conversation.ports, memory=index)
    conversation.send("Where do they rest?")
    with pytest.raises(DependencyError):
        conversation.run()
    assert [closing.outcome for closing in closings(conversation)] == ["completed"]
    assert conversation.state.status == "idle"
    index.error = None
    conversation.clock.pause(3600)
    assert sweep(conversation.ports) == {"idle": 1}
    assert len(found(index, "otters")) == 1
    assert sweep(conversation.ports) == {}


def test_rows_that_an_index_refuses_are_counted_and_fail_no_turn():
    index = Unreachable()
    index.error = InputError("no row", code="bad_row")
    conversation = a_turn(index)
    assert [closing.outcome for closing in closings(conversation)] == ["completed"]
    assert conversation.ports.meter.counts[MEMORY_UNWRITTEN] == 1


def test_the_rows_of_a_very_long_turn_are_bounded(monkeypatch):
    monkeypatch.setattr(effect, "ROWS_MAX", 3)
    index = MemoryMemoryIndex()
    slept = "sleeps on its back beneath the old willow that leans over the slow river."
    conversation = Conversation(answered("\n\n".join(f"Otter {n} {slept}" for n in range(9))))
    conversation.ports = replace(conversation.ports, memory=index)
    conversation.send("Where do they rest?")
    conversation.run()
    assert len(found(index, "otter rest")) == 3
    assert conversation.ports.meter.counts[MEMORY_UNWRITTEN] == 1
