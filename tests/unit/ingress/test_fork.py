"""A fork continues a conversation from a batch of the past: what it has, and where it may begin."""

from __future__ import annotations

from dataclasses import replace as replaced
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.ingress.delete import apply_deletion
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.log.journal import Journal
from stepline.log.timeline_cache import segment_key
from stepline.model.batch import Batch, ForkRow
from stepline.model.entry import ApprovalAnswered, Closed, Dropped, Forked, Titled
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

FORK = replace(LANE, conversation="c-2")


def fork(world: Conversation, kind: Any, at: object, **fields: Any) -> Batch:
    about = {"user": USER, "conversation": "c-2", **fields}
    point = ForkPoint(kind=kind, at=str(at), before=about.pop("before", False))
    return fork_conversation(world.ports, about.pop("lane", LANE), point, **about)


def folded(conversation: Conversation, lane: Any = FORK) -> Timeline:
    return Timeline.empty(lane).extended(Journal(conversation.ports, lane, "test").since(0))


def entry(batch: Batch, kind: type) -> Any:
    return next(one for one in batch.entries if isinstance(one, kind))


def refusal(world: Conversation, kind: str, at: object, **fields: Any) -> str:
    with pytest.raises(SteplineError) as refused:
        fork(world, kind, at, **fields)
    return refused.value.reason


@pytest.fixture
def two_turns() -> Conversation:
    conversation = Conversation(answered("first"), answered("second"), answered("third"))
    for text in ("one", "two"):
        conversation.send(text, id=f"m-{text}")
        conversation.run()
    return conversation


def test_a_fork_begins_with_the_batches_of_its_origin_and_goes_on_alone(two_turns: Conversation) -> None:
    first = two_turns.timeline().history[0]
    batch = fork(two_turns, "turn", first.id)
    assert batch.n == first.closed + 1
    assert entry(batch, Forked) == Forked(origin="c-1", n=first.closed, at=batch.at)
    before = two_turns.batches()
    two_turns.send("other", id="m-other", lane=FORK)
    two_turns.run()
    assert two_turns.batches() == before
    timeline = folded(two_turns)
    assert [turn.home for turn in timeline.history] == ["c-1", ""]
    assert [turn.outcome for turn in timeline.history] == ["completed"] * 2
    assert "two" not in "".join(piece.text for piece in timeline.pieces)


def test_the_same_request_finds_the_same_fork_and_a_taken_name_is_refused(two_turns: Conversation) -> None:
    first = fork(two_turns, "message", "m-two", before=True)
    assert fork(two_turns, "message", "m-two", before=True) == first
    assert refusal(two_turns, "message", "m-two") == "conversation_exists"
    assert refusal(two_turns, "batch", 1, conversation="c-1") == "conversation_exists"
    assert two_turns.ports.log.forks(LANE) == [ForkRow(conversation="c-2", origin="c-1", n=3)]


def test_a_fork_has_a_title_and_a_row_and_has_spent_nothing(two_turns: Conversation) -> None:
    state = fork(two_turns, "batch", 3).state
    row = two_turns.ports.log.listing(FORK)
    assert row is not None
    assert (row.title, row.owner) == ("one (fork)", USER)
    assert (state.spent_nanos, state.input_tokens, state.stored_bytes, state.owner) == (0, 0, 0, USER)
    batch = fork(two_turns, "batch", 3, conversation="c-3", title="Another way")
    assert entry(batch, Titled).title == "Another way"


@pytest.mark.parametrize(
    ("kind", "at", "before", "code"),
    [
        ("batch", 99, False, "fork_beyond_end"),
        ("batch", 1, True, "fork_point_not_found"),
        ("batch", "x", False, "fork_point_not_found"),
        ("turn", "turn_of_another", False, "fork_point_not_found"),
        ("round", 1, False, "fork_point_not_found"),
        ("message", "m-none", True, "fork_point_not_found"),
    ],
)
def test_a_point_that_the_conversation_lacks_is_refused(
    two_turns: Conversation, kind: str, at: object, before: bool, code: str
) -> None:
    assert refusal(two_turns, kind, at, before=before) == code
    assert two_turns.ports.log.tail(FORK) is None
    assert two_turns.ports.log.forks(LANE) == []


def test_the_conversation_of_another_user_and_a_deleted_one_are_not_forked(two_turns: Conversation) -> None:
    assert refusal(two_turns, "batch", 2, user="eve") == "not_found"
    apply_deletion(two_turns.ports, LANE, USER)
    assert refusal(two_turns, "batch", 2) == "conversation_deleted"


def test_a_round_is_forked_at_the_newest_batch_that_it_had_seen(two_turns: Conversation) -> None:
    decided = two_turns.timeline().history[1].opened + 1
    assert fork(two_turns, "round", decided, before=True).n == decided
    assert fork(two_turns, "round", decided, conversation="c-3").n == len(two_turns.batches()) + 1


def test_an_open_turn_ends_as_forked_and_its_messages_are_handed_back() -> None:
    conversation = Conversation(called("react.read", {"paths": ["fi:x"]}), answered("done"))
    conversation.send()
    conversation.decide()
    conversation.send("wait", id="m2")
    batch = fork(conversation, "batch", conversation.tail.n)
    assert (entry(batch, Closed).reason, batch.state.status) == ("forked", "idle")
    assert entry(batch, Dropped).message_id == "m2"
    assert conversation.state.status == "open"
    conversation.run()
    assert conversation.entries(Closed)[-1].answer == "done"
    assert folded(conversation).history[0].reason == "forked"


def test_a_turn_whose_answer_was_decided_keeps_it() -> None:
    conversation = Conversation(answered("the answer"))
    conversation.send()
    conversation.decide()
    assert entry(fork(conversation, "batch", conversation.tail.n), Closed).answer == "the answer"


def test_a_parked_approval_is_withdrawn_in_the_fork_only() -> None:
    conversation = Conversation(called("react.write", {"path": "a.md", "content": "x"}), answered("ok"))
    conversation.agent = replaced(conversation.agent, approvals=lambda _: "always")
    conversation.send()
    conversation.decide()
    conversation.act()
    assert conversation.state.parked
    batch = fork(conversation, "batch", conversation.tail.n)
    assert entry(batch, ApprovalAnswered).verdict == "withdrawn"
    assert batch.state.parked == 0
    assert conversation.state.parked


def test_an_origin_is_deleted_with_its_forks_or_not_at_all(two_turns: Conversation) -> None:
    fork(two_turns, "batch", 3)
    fork(two_turns, "batch", 4, lane=FORK, conversation="c-3")
    with pytest.raises(SteplineError) as refused:
        apply_deletion(two_turns.ports, LANE, USER)
    assert refused.value.reason == "has_forks"
    assert two_turns.state.deleted == 0
    apply_deletion(two_turns.ports, LANE, USER, cascade=True)
    assert len(two_turns.log.tombstones) == 3


def test_a_fork_at_a_batch_of_its_origin_is_a_fork_of_the_origin(two_turns: Conversation) -> None:
    fork(two_turns, "batch", 4)
    batch = fork(two_turns, "batch", 2, lane=FORK, conversation="c-3")
    assert entry(batch, Forked).origin == "c-1"


def test_a_fork_goes_through_at_most_sixteen_conversations(two_turns: Conversation) -> None:
    lane, n = LANE, 3
    for depth in range(16):
        made = fork(two_turns, "batch", n, lane=lane, conversation=f"f-{depth}")
        lane, n = replace(LANE, conversation=f"f-{depth}"), made.n
    assert len(Journal(two_turns.ports, lane, "test").since(0)) == 3 + 16
    assert refusal(two_turns, "batch", n, lane=lane, conversation="f-16") == "fork_too_deep"


def test_a_fork_opens_a_copy_of_its_origins_segment() -> None:
    conversation = Conversation(*[answered(f"answer {n}") for n in range(3)], seal_batches=2)
    for n in range(3):
        conversation.send(f"message {n}", id=f"m{n}")
        conversation.run()
    tail = conversation.tail
    assert tail.state.segment
    batch = fork(conversation, "batch", tail.n)
    assert batch.state.segment == tail.state.segment
    copied = conversation.ports.artifacts.get(segment_key(FORK, batch.state.segment))
    assert copied == conversation.ports.artifacts.get(segment_key(LANE, batch.state.segment))
