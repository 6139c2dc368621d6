"""The batches of a fork are read from its log and from those of its origins."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.errors import DependencyError
from stepline.log.journal import lane_of, read_batch, read_since
from stepline.model import batch as stored
from stepline.model.batch import Batch, State, decode_batch, encode_batch
from stepline.model.entry import Forked, Inbound
from stepline.model.ids import Lane
from stepline.ports.log import Log, Written

AT = "2026-11-21T10:15:00.000Z"


def put(log: Log, lane: Lane, n: int, *, first: Forked | None = None, forked: int = 0) -> Batch:
    said = Inbound(message_id=f"m-{n}", event="note", text=lane.conversation, user="ada", at=AT)
    entries = (first, said) if first else (said,)
    batch = Batch(n=n, by="me", at=AT, entries=entries, state=State(forked=forked), v=2 if forked else 1)
    assert log.put(lane, batch) == Written()
    return batch


@pytest.fixture
def log(backend) -> Log:
    return backend.log


@pytest.fixture
def lanes(lane: Lane) -> tuple[Lane, Lane, Lane]:
    """Return a conversation, its fork, and the fork of that one."""
    name = lane.conversation
    return lane, replace(lane, conversation=f"{name}-f"), replace(lane, conversation=f"{name}-g")


@pytest.fixture
def whole(log, lanes) -> list[Batch]:
    """Return the seven batches of the third conversation: three of the first, two of the second, two of its own."""
    root, fork, leaf = lanes
    made = [put(log, root, n) for n in range(1, 6)][:3]
    first = Forked(origin=root.conversation, n=3, at=AT)
    own = [put(log, fork, 4, first=first, forked=4), *(put(log, fork, n, forked=4) for n in (5, 6))][:2]
    first = Forked(origin=fork.conversation, n=5, at=AT)
    return [*made, *own, put(log, leaf, 6, first=first, forked=6), put(log, leaf, 7, forked=6)]


@pytest.mark.parametrize("consistent", [False, True])
def test_a_fork_of_a_fork_has_the_batches_of_three_logs_between_any_two_numbers(
    log, lanes, whole, consistent
):
    leaf = lanes[2]
    for n in range(8):
        assert read_since(log, leaf, n, consistent=consistent) == whole[n:]
        for upto in range(8):
            assert read_since(log, leaf, n, upto=upto, consistent=consistent) == whole[n:upto]


def test_each_batch_of_a_fork_is_found_in_the_log_that_has_it(log, lanes, whole):
    root, fork, leaf = lanes
    assert [read_batch(log, leaf, n) for n in range(1, 8)] == whole
    assert [read_batch(log, leaf, n) for n in (0, 8)] == [None, None]
    assert [lane_of(log, leaf, n) for n in range(1, 8)] == [root] * 3 + [fork] * 2 + [leaf] * 2


def test_an_origin_that_goes_on_does_not_change_its_fork(log, lanes, whole):
    root, fork, leaf = lanes
    put(log, root, 6)
    put(log, fork, 7, forked=4)
    assert read_since(log, leaf, 0, consistent=True) == whole
    assert [batch.n for batch in read_since(log, root, 0)] == list(range(1, 7))


class Counted:
    """A log that counts its calls."""

    def __init__(self, log: Log) -> None:
        self._log, self.calls = log, list[str]()

    def __getattr__(self, name: str) -> Any:
        self.calls.append(name)
        return getattr(self._log, name)


def test_a_conversation_that_is_no_fork_is_read_with_one_call(log, lanes, whole):
    root = lanes[0]
    counted: Any = Counted(log)
    for n, upto in ((0, None), (0, 3), (2, 4), (5, None), (9, None), (3, 3)):
        read_since(counted, root, n, upto=upto)
    read_batch(counted, root, 4)
    assert counted.calls == ["since"] * 6 + ["get"]


def test_a_fork_with_a_segment_reads_its_own_log_only(log, lanes, whole):
    counted: Any = Counted(log)
    assert read_since(counted, lanes[2], 6) == whole[6:]
    assert counted.calls == ["since"]


def test_a_release_that_cannot_read_forks_stops_with_format_newer(monkeypatch):
    first = Forked(origin="c-1", n=3, at=AT)
    begins = Batch(n=4, by="me", at=AT, entries=(first,), state=State(forked=4), v=2)
    later = Batch(n=5, by="me", at=AT, entries=(), state=State(forked=4), v=2)
    assert [decode_batch(encode_batch(batch)) for batch in (begins, later)] == [begins, later]
    monkeypatch.setattr(stored, "FORMAT", 1)
    for batch in (begins, later):
        with pytest.raises(DependencyError) as refused:
            decode_batch(encode_batch(batch))
        assert refused.value.reason == "format_newer"
