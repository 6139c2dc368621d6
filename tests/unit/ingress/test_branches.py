"""A branch is a fork in the tree of its root: it has the root's title, and is renamed and deleted with it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.errors import SteplineError
from stepline.ingress.delete import apply_deletion
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.ingress.rename import rename
from stepline.log.fork_tree import own_forks, walk_branches
from stepline.log.journal import Journal
from stepline.model.batch import Batch
from stepline.model.entry import Forked, Owner, Titled
from stepline.model.ids import Lane
from stepline.ports.log import Listing
from stepline.timeline.export import export_timeline
from stepline.timeline.fold import Timeline
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered


def lane_named(name: str) -> Lane:
    return replace(LANE, conversation=name)


def fork(world: Conversation, origin: str, name: str, at: object, **about: Any) -> Batch:
    point = ForkPoint(kind=about.pop("kind", "batch"), at=str(at), before=about.pop("before", False))
    return fork_conversation(
        world.ports, lane_named(origin), point, user=USER, conversation=name, **{"branch": True, **about}
    )


def begins(batch: Batch) -> Forked:
    first = batch.entries[0]
    assert isinstance(first, Forked)
    return first


def row(world: Conversation, name: str) -> Listing:
    found = world.ports.log.listing(lane_named(name))
    assert found is not None
    return found


def tree(world: Conversation, root: str) -> list[str]:
    return [one.conversation for one in walk_branches(world.ports.log, lane_named(root))]


@pytest.fixture
def world() -> Conversation:
    conversation = Conversation(*[answered(f"answer {n}") for n in range(8)])
    for text in ("one", "two", "three"):
        conversation.send(text, id=f"m-{text}")
        conversation.run()
    return conversation


def test_a_branch_names_its_root_and_has_its_title(world: Conversation) -> None:
    first = fork(world, "c-1", "b-1", "m-two", kind="message", before=True)
    world.send("and before?", id="m-a", lane=lane_named("b-1"))
    second = fork(world, "b-1", "b-2", first.n + 1)
    assert (begins(first).branch_of, begins(first).origin) == ("c-1", "c-1")
    assert (begins(second).branch_of, begins(second).origin) == ("c-1", "b-1")
    assert [row(world, name).title for name in ("c-1", "b-1", "b-2")] == ["one"] * 3
    assert [row(world, name).branch_of for name in ("c-1", "b-1", "b-2")] == ["", "c-1", "c-1"]
    world.send("and then?", id="m-b", lane=lane_named("b-1"))
    world.run()
    assert row(world, "b-1").branch_of == "c-1"
    assert tree(world, "c-1") == ["b-1", "b-2"]


def test_a_message_that_is_edited_many_times_makes_branches_of_one_origin(world: Conversation) -> None:
    before = fork(world, "c-1", "b-0", "m-two", kind="message", before=True).n - 1
    for n in range(20):
        world.send(f"edit {n}", id=f"m-{n}", lane=lane_named(f"b-{n}"))
        batch = fork(world, f"b-{n}", f"b-{n + 1}", f"m-{n}", kind="message", before=True)
        assert (begins(batch).origin, begins(batch).n) == ("c-1", before)
    assert sorted(tree(world, "c-1")) == sorted(f"b-{n}" for n in range(21))


def test_the_first_message_is_edited_in_a_branch_without_batches_of_its_origin(world: Conversation) -> None:
    batch = fork(world, "c-1", "b-1", "m-one", kind="message", before=True)
    assert batch.n == 1
    assert batch.entries[1] == Owner(user=USER)
    assert fork(world, "c-1", "b-1", "m-one", kind="message", before=True) == batch
    world.send("another question", id="m-b", lane=lane_named("b-1"))
    world.run()
    batches = Journal(world.ports, lane_named("b-1"), "test").since(0)
    assert [one.n for one in batches] == list(range(1, len(batches) + 1))
    assert batches[-1].state.turns == 1
    with pytest.raises(SteplineError) as refused:
        fork(world, "c-1", "f-1", "m-one", kind="message", before=True, branch=False)
    assert refused.value.reason == "fork_point_not_found"


def test_the_model_names_a_branch_of_an_untitled_conversation(world: Conversation) -> None:
    assert fork(world, "c-1", "b-1", 1).state.titled == 0
    world.send("and then?", id="m-b", lane=lane_named("b-1"))
    assert row(world, "b-1").title == "one"
    rename(world.ports, LANE, "Numbers", user=USER)
    assert fork(world, "c-1", "b-2", 1).state.titled == 2
    assert row(world, "b-2").title == "Numbers"


def test_a_branch_of_a_fork_is_in_the_forks_tree_even_before_its_first_batch(world: Conversation) -> None:
    fork(world, "c-1", "f-1", world.tail.n, branch=False)
    first = begins(fork(world, "f-1", "b-1", 2))
    assert (first.origin, first.branch_of, first.counted_at) == ("c-1", "f-1", "f-1")
    second = begins(fork(world, "b-1", "b-2", 1))
    assert (second.origin, second.branch_of, second.counted_at) == ("c-1", "f-1", "b-1")
    assert tree(world, "f-1") == ["b-1", "b-2"]
    assert tree(world, "c-1") == []
    assert [one.conversation for one in own_forks(world.ports.log, LANE)] == ["f-1"]
    apply_deletion(world.ports, lane_named("f-1"), USER)
    assert sorted(stone.lane.conversation for stone in world.log.tombstones.values()) == ["b-1", "b-2", "f-1"]
    apply_deletion(world.ports, LANE, USER)


def test_a_new_title_is_that_of_the_whole_tree(world: Conversation) -> None:
    fork(world, "c-1", "b-1", 3)
    fork(world, "b-1", "b-2", 4)
    fork(world, "c-1", "f-1", 3, branch=False)
    batch = rename(world.ports, lane_named("b-1"), "Numbers", user=USER)
    assert rename(world.ports, lane_named("b-1"), "Numbers", user=USER) == batch
    assert [row(world, name).title for name in ("c-1", "b-1", "b-2", "f-1")] == [
        *["Numbers"] * 3,
        "one (fork)",
    ]
    titles = [entry for entry in world.entries(Titled) if entry.title == "Numbers"]
    assert len(titles) == 1


def test_branches_are_deleted_with_their_root(world: Conversation) -> None:
    fork(world, "c-1", "b-1", 3)
    fork(world, "b-1", "b-2", 4)
    apply_deletion(world.ports, lane_named("b-2"), USER)
    assert tree(world, "c-1") == ["b-1"]
    fork(world, "b-1", "b-3", 4)
    apply_deletion(world.ports, LANE, USER)
    assert len(world.log.tombstones) == 4


def test_a_fork_of_a_branch_keeps_the_whole_tree(world: Conversation) -> None:
    fork(world, "c-1", "b-1", 3)
    fork(world, "b-1", "b-2", 4)
    fork(world, "b-2", "f-1", 4, branch=False)
    for name in ("c-1", "b-1", "b-2"):
        with pytest.raises(SteplineError) as refused:
            apply_deletion(world.ports, lane_named(name), USER)
        assert refused.value.reason == "has_forks"
    assert world.log.tombstones == {}
    apply_deletion(world.ports, LANE, USER, cascade=True)
    assert len(world.log.tombstones) == 4


def test_an_export_names_the_origin_and_the_root_of_a_branch(world: Conversation) -> None:
    def origin(name: str) -> object:
        batches = Journal(world.ports, lane_named(name), "test").since(0)
        timeline = Timeline.empty(lane_named(name)).extended(batches)
        return export_timeline(timeline, ttl_s=300).payload["forked_from"]

    fork(world, "c-1", "b-1", 3)
    fork(world, "c-1", "b-0", "m-one", kind="message", before=True)
    fork(world, "b-1", "f-1", 4, branch=False)
    assert origin("c-1") is None
    assert origin("b-1") == {"conversation": "c-1", "n": 3, "branch_of": "c-1"}
    assert origin("b-0") == {"conversation": "c-1", "n": 0, "branch_of": "c-1"}
    assert origin("f-1") == {"conversation": "b-1", "n": 4, "branch_of": ""}
