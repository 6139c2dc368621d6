"""The rows of forks: one transaction puts a fork and counts it at its origin, which exists as long as its forks do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from stepline.errors import InputError, NotFoundError
from stepline.model.batch import EMPTY, Batch, ForkRow, State
from stepline.model.entry import Deleted, Forked, Inbound, Owner
from stepline.model.ids import Lane
from stepline.ports.log import Log, Occupied, Written

AT = "2026-11-21T10:15:00.000Z"


@pytest.fixture
def log(backend) -> Log:
    return backend.log


@pytest.fixture
def fork(lane: Lane) -> Lane:
    return replace(lane, conversation=f"{lane.conversation}-f")


def names(rows: list[ForkRow]) -> list[str]:
    return [row.conversation for row in rows]


def said(n: int, *, by: str = "me") -> Batch:
    event = Inbound(message_id=f"m-{n}", event="note", text="hello", user="ada", at=AT)
    entries = (Owner(user="ada"), event) if n == 1 else (event,)
    return Batch(n=n, by=by, at=AT, entries=entries, state=State(owner="ada"))


def begins(lane: Lane, n: int, *, by: str = "me") -> Batch:
    first = Forked(origin=lane.conversation, n=n, at=AT)
    return Batch(n=n + 1, by=by, at=AT, entries=(first,), state=State(owner="ada", forked=n + 1), v=2)


def ends(n: int, *, origin: str = "") -> Batch:
    return Batch(
        n=n, by="me", at=AT, entries=(Deleted(at=AT, origin=origin),), state=State(owner="ada", deleted=n)
    )


@pytest.fixture
def forked(log, lane, fork) -> Batch:
    """Return the first batch of the fork of a conversation with three batches."""
    for n in (1, 2, 3):
        assert log.put(lane, said(n)) == Written()
    batch = begins(lane, 2)
    assert log.put(fork, batch) == Written()
    return batch


def test_a_fork_is_counted_at_its_origin_until_it_is_deleted(log, lane, fork, forked):
    assert names(log.forks(lane)) == [fork.conversation]
    assert log.put(fork, ends(4, origin=lane.conversation)) == Written()
    assert log.forks(lane) == []


def test_an_origin_is_not_deleted_while_it_has_a_fork(log, lane, fork, forked):
    with pytest.raises(InputError) as refused:
        log.put(lane, ends(4))
    assert refused.value.reason == "has_forks"
    assert log.tail(lane, consistent=True).n == 3
    log.put(fork, ends(4, origin=lane.conversation))
    assert log.put(lane, ends(4)) == Written()


def test_one_of_two_forks_that_is_deleted_leaves_the_other(log, lane, fork, forked):
    other = replace(lane, conversation=f"{lane.conversation}-g")
    assert log.put(other, begins(lane, 3)) == Written()
    log.put(fork, ends(4, origin=lane.conversation))
    assert names(log.forks(lane)) == [other.conversation]
    with pytest.raises(InputError):
        log.put(lane, ends(4))


def test_a_deleted_origin_is_not_forked(log, lane, fork):
    log.put(lane, said(1))
    log.put(lane, ends(2))
    with pytest.raises(NotFoundError) as refused:
        log.put(fork, begins(lane, 1))
    assert refused.value.reason == "conversation_deleted"
    assert log.tail(fork) is None
    assert log.forks(lane) == []


def test_a_deleted_fork_is_not_made_again(log, lane, fork, forked):
    log.put(fork, ends(4, origin=lane.conversation))
    with pytest.raises(NotFoundError) as refused:
        log.put(fork, begins(lane, 3, by="them"))
    assert refused.value.reason == "conversation_deleted"
    assert log.forks(lane) == []


def test_a_process_that_does_not_see_a_new_fork_cannot_begin_a_conversation_there(log, fork, forked):
    assert log.put(fork, said(1), message_id="m-1") == Occupied(batch=EMPTY)
    assert log.put(fork, said(1)) == Occupied(batch=EMPTY)
    assert log.get(fork, 1) is None
    assert log.since(fork, 0) == [forked]
    assert log.tail(fork, consistent=True) == forked


def test_a_conversation_that_exists_does_not_become_a_fork(log, lane, fork):
    log.put(lane, said(1))
    log.put(lane, said(2))
    log.put(fork, said(1))
    assert log.put(fork, begins(lane, 2)) == Occupied(batch=EMPTY)
    assert log.since(fork, 0) == [said(1)]
    assert log.forks(lane) == []


def test_a_fork_that_is_put_twice_is_counted_once(log, lane, fork, forked):
    assert log.put(fork, forked) == Occupied(batch=forked)
    assert log.put(fork, begins(lane, 2, by="them")) == Occupied(batch=forked)
    assert names(log.forks(lane)) == [fork.conversation]


def test_a_branch_may_have_no_batch_of_its_origin(backend, log, lane, fork):
    log.put(lane, said(1))
    batch = begins(lane, 0)
    assert log.put(fork, batch) == Written()
    assert log.put(fork, batch) == Occupied(batch=batch)
    assert log.put(fork, said(1)) == Occupied(batch=batch)
    assert log.since(fork, 0) == [batch]
    log.put(fork, ends(2, origin=lane.conversation))
    assert names(log.forks(lane)) == []
    assert sum(backend.erasure.erase_rows(fork, husks_from="~")) == 2


def test_a_branch_is_counted_by_the_root_that_its_entry_names(log, lane, fork, forked):
    branch = replace(lane, conversation=f"{lane.conversation}-b")
    first = Forked(
        origin=lane.conversation, n=1, at=AT, branch_of=fork.conversation, counted_at=fork.conversation
    )
    batch = replace(begins(lane, 1), entries=(first,))
    assert log.put(branch, batch) == Written()
    row = ForkRow(
        conversation=branch.conversation, origin=lane.conversation, n=1, branch_of=fork.conversation
    )
    assert log.forks(fork) == [row]
    assert names(log.forks(lane)) == [fork.conversation]
    with pytest.raises(InputError):
        log.put(fork, ends(4, origin=lane.conversation))
    assert log.put(branch, ends(3, origin=fork.conversation)) == Written()
    assert log.put(fork, ends(4, origin=lane.conversation)) == Written()


def test_an_erasure_leaves_only_the_tombstone_of_a_fork(backend, log, lane, fork, forked):
    log.put(fork, ends(4, origin=lane.conversation))
    assert sum(backend.erasure.erase_rows(fork, husks_from="~"))
    assert sum(backend.erasure.erase_rows(fork, husks_from="~")) == 0
    for _ in backend.erasure.erase_husks(fork):
        pass
    assert log.since(fork, 0) == []
    assert sum(backend.erasure.erase_rows(fork, husks_from="~")) == 0
    assert [batch.n for batch in log.since(lane, 0)] == [1, 2, 3]
