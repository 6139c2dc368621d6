"""A fork hides and reads what its origin has by the same paths, and neither changes what the other shows."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.entry import Resulted
from stepline.model.ids import Lane
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER
from tests.support.generation import answered, called
from tests.unit.loop.test_read_back import LOOK, TALL, Library, talked

FORK = replace(LANE, conversation="f")
WORDS = "a thousand lines"
LINE = "\n  5: a line"


def fork(conversation: Library, n: int) -> Timeline:
    """Fork the conversation at a batch; return the fork in a new process."""
    point = ForkPoint(kind="batch", at=str(n))
    fork_conversation(conversation.ports, LANE, point, user=USER, conversation=FORK.conversation)
    return opened(conversation, FORK)


def opened(conversation: Library, lane: Lane) -> Timeline:
    """Return a conversation in a new process."""
    journal = Journal(conversation.ports, lane, "test")
    return History().load(journal, segment=journal.tail(consistent=True).state.segment)


def text_of(timeline: Timeline) -> str:
    return "".join(piece.text for piece in timeline.pieces)


@pytest.mark.parametrize(
    "context",
    [{}, {"max_tokens": 4_000, "keep_turns": 20, "intact_turns": 20, "ttl_s": 0}],
    ids=["pruned", "compacted"],
)
def test_a_fork_reads_every_path_that_its_origin_has_shown(context: dict[str, Any]) -> None:
    conversation = Library(**context)
    talked(conversation)
    here = fork(conversation, conversation.tail.n)
    assert {path: conversation.read(here, path) for path in conversation.seen} == conversation.seen


def hidden(conversation: Library) -> tuple[str, int]:
    """Run a turn that hides a result; return its path, and the batch before it is hidden."""
    conversation.model.add(called(LOOK))
    conversation.send("look")
    conversation.decide()
    conversation.act()
    (looked,) = conversation.entries(Resulted)
    path, n = f"tc:{conversation.state.turn}.{looked.call_id}.result", conversation.tail.n
    conversation.model.add(called("react.hide", {"path": path, "replacement": WORDS}), answered("done"))
    conversation.drive(conversation.now())
    return path, n


@pytest.mark.parametrize("is_hidden", [True, False], ids=["before the point", "after the point"])
def test_a_result_is_hidden_in_a_fork_if_it_was_at_the_point(is_hidden: bool) -> None:
    conversation = Library()
    path, n = hidden(conversation)
    here = fork(conversation, conversation.tail.n if is_hidden else n)
    assert (WORDS in text_of(here), LINE in text_of(here)) == (is_hidden, not is_hidden)
    assert conversation.read(here, path) == TALL
    before = text_of(opened(conversation, LANE))
    conversation.model.add(
        called("react.read", {"paths": [path], "max_text_symbols": 1000}), answered("read")
    )
    conversation.send("read it", id="r", lane=FORK)
    conversation.run()
    assert "[READ PREVIEW]" in text_of(opened(conversation, FORK))
    assert text_of(opened(conversation, LANE)) == before


def test_a_result_of_the_origin_that_a_fork_hides_stays_in_the_origin() -> None:
    conversation = Library()
    path, n = hidden(conversation)
    fork(conversation, n)
    conversation.model.add(
        called("react.hide", {"path": path, "replacement": "hidden here"}), answered("done")
    )
    conversation.send("hide it", id="h", lane=FORK)
    conversation.run()
    here, there = (opened(conversation, lane) for lane in (FORK, LANE))
    assert ("hidden here" in text_of(here), LINE in text_of(here)) == (True, False)
    assert (WORDS in text_of(there), "hidden here" in text_of(there)) == (True, False)
    assert [conversation.read(one, path) for one in (here, there)] == [TALL, TALL]
