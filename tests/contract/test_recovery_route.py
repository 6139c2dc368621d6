"""The way back to what compactions summed up: search the memory, read the path of the hit."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.model.entry import Resulted
from tests.support.conversation import text_of
from tests.support.generation import answered, called
from tests.support.small_context import SmallContext

FACT = "My daughter Mia must never eat peanuts, they make her ill."


@pytest.fixture
def conversation() -> SmallContext:
    """A conversation whose first turn has a fact, and which has been compacted three times since."""
    made = SmallContext()
    made.ports = dataclasses.replace(made.ports, memory=EmbeddedMemoryIndex(made.ports))
    made.turn(FACT, answer="I will keep that in mind.")
    for _ in range(12):
        if made.reductions().count("Compacted completed") >= 3:
            return made
        made.talk("Tell me more about otters.")
    raise AssertionError(made.reductions())


def ask(conversation: SmallContext, tool_id: str, params: dict[str, Any]) -> list[Any]:
    """Have a turn that calls a tool, and return the blocks of the result."""
    conversation.model.add(called(tool_id, params), answered("Done."))
    conversation.send("Go on.", id=f"m{conversation.tail.n}")
    conversation.run()
    (*_, end) = conversation.entries(Resulted)
    assert end.status == "ok", end.error
    return list(end.blocks)


def test_after_three_compactions_a_fact_of_the_first_turn_is_found_by_words_that_do_not_occur_in_it(
    conversation,
):
    query = "Which food is dangerous for the child?"
    assert not set(query.lower().strip("?").split()) & set(FACT.lower().replace(",", "").strip(".").split())
    first = conversation.timeline().turns[0]
    (status,) = ask(conversation, "react.memsearch", {"query": query, "targets": ["user"]})
    assert FACT not in text_of(conversation.asked()[-2])  # the request that led to the search
    hit = json.loads(status.text)["hits"][0]
    assert hit["turn_id"] == first
    (snippet,) = hit["snippets"]
    assert snippet["path"] == f"ar:{first}.user.prompt"
    view = ask(conversation, "react.read", {"paths": [snippet["path"]]})[-1]
    assert view.text == FACT
