"""The rows of memory from the log of a long conversation: how much of it one read holds."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.log import memory_source
from stepline.log.memory_source import LogRows
from stepline.model.memory_row import MemoryScope
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

SCOPE = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)
TURNS = 12


@pytest.fixture
def conversation() -> Conversation:
    made = Conversation(*(answered(f"Otter {number}.") for number in range(TURNS)), seal_batches=1)
    for number in range(TURNS):
        made.send("And now?", id=f"m{number}")
        made.run()
    return made


def test_a_read_of_few_rows_reads_a_part_of_a_long_log_and_the_next_ones_the_rest(conversation, monkeypatch):
    monkeypatch.setattr(memory_source, "AHEAD", 8)
    read_at_once: list[int] = []
    since = conversation.ports.log.since

    def counted(*args: Any, **kwargs: Any) -> Any:
        found = since(*args, **kwargs)
        read_at_once.append(len(found))
        return found

    monkeypatch.setattr(conversation.ports.log, "since", counted)
    after, whole, said = 0, False, list[str]()
    while not whole:
        rows, after, whole = LogRows(conversation.ports).read(SCOPE, LANE.conversation, after=after, most=4)
        said += [row.text for row in rows if row.kind == "answer"]
    assert said == [f"Otter {number}." for number in range(TURNS)]
    assert max(read_at_once) <= 8 < conversation.tail.n
