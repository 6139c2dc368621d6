"""A conversation is deleted, and erased wherever a process dies on the way: nothing but the tombstone is left."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace as replace_fields
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.errors import NotFoundError
from stepline.ingress.admit import Arrival, admit
from stepline.ingress.delete import apply_deletion, redo_deletion
from stepline.log.bindings import Ports
from stepline.log.erase_conversation import HUSK_S, apply_tombstones, erase, erase_pending
from stepline.log.journal import Draft, Journal
from stepline.model.batch import EMPTY, IMPORT, Batch, State, Tombstone
from stepline.model.entry import Deleted, Dropped, Entry, Importing, Owner, Reopened
from stepline.model.ids import Lane, person, utc
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.log import Occupied, Written
from stepline.ports.memory_index import MemoryQuery
from stepline.ports.tenancy.erasure import Erasure
from tests.contract.kept_things import OWNER, everything, fill_conversation, ports_of
from tests.support.draw import share

LONG_AGO = "2020-01-01T00:00:00.000Z"
LIVES_MOST = 200
LIVES_SHARES = 10


@pytest.fixture
def versioned(backend: Any) -> Any:
    """Return the backend; a bucket keeps versions from here on."""
    if hasattr(backend, "table"):
        backend.artifacts.client.put_bucket_versioning(
            Bucket=backend.name, VersioningConfiguration={"Status": "Enabled"}
        )
    return backend


@pytest.fixture
def ports(versioned: Any) -> Ports:
    return ports_of(versioned)


def erasure_of(ports: Ports) -> Erasure:
    assert ports.erasure is not None
    return ports.erasure


def stone(ports: Ports, lane: Lane) -> Tombstone:
    found = erasure_of(ports).tombstone(lane)
    assert found is not None
    return found


def erase_whole(ports: Ports, lane: Lane) -> None:
    """Make the passes of both days."""
    assert not erase(ports, erasure_of(ports), stone(ports, lane))
    ports.clock.pause(HUSK_S)
    assert erase(ports, erasure_of(ports), stone(ports, lane))


def new_places(backend: Any, before: dict[str, Any]) -> list[str]:
    return sorted(everything(backend).keys() - before.keys())


def is_tombstone(place: str) -> bool:
    return place.startswith(("tomb", "CONV#")) and ("TOMB" in place or place.startswith("tomb"))


def refused(run: Any) -> str:
    with pytest.raises(NotFoundError) as raised:
        run()
    return raised.value.reason


def say(ports: Ports, lane: Lane, message_id: str, user: str = OWNER) -> None:
    admit(ports, lane, Arrival(message_id=message_id, user=user, text="hello again"))


def neighbours(lane: Lane) -> list[Lane]:
    """Return lanes whose names run into this one's."""
    return [
        replace(lane, conversation=f"{lane.conversation}0"),
        replace(lane, tenant=f"{lane.tenant}0"),
        replace(lane, project=f"{lane.project}0"),
    ]


def test_an_erasure_leaves_the_tombstone_and_no_neighbour_loses_anything(
    versioned: Any, ports: Ports, lane: Lane
) -> None:
    for other in neighbours(lane):
        fill_conversation(versioned, ports, other)
    before = everything(versioned)
    fill_conversation(versioned, ports, lane)
    apply_deletion(ports, lane, OWNER)
    erase_whole(ports, lane)
    left = new_places(versioned, before)
    assert len(left) == 2
    assert all(map(is_tombstone, left)), left
    after = everything(versioned)
    assert {place: after.get(place) for place in before} == before


def test_a_tombstone_has_names_and_times_alone(ports: Ports, versioned: Any, lane: Lane) -> None:
    fill_conversation(versioned, ports, lane)
    batch = apply_deletion(ports, lane, OWNER)
    assert stone(ports, lane).owner == OWNER
    erase_whole(ports, lane)
    kept = stone(ports, lane)
    whose = person(lane.tenant, lane.project, OWNER)
    assert kept == Tombstone(
        lane=lane, deleted_at=batch.at, n=batch.n, whose=whose, done_at=utc(ports.clock.now())
    )
    outside = [one for one in erasure_of(ports).kept() if one.lane == lane]
    assert outside == [replace(kept, done_at="")]


def test_a_deletion_ends_the_turn_hands_messages_back_and_is_one_batch(
    ports: Ports, versioned: Any, lane: Lane
) -> None:
    fill_conversation(versioned, ports, lane)
    say(ports, lane, "m-3")
    batch = apply_deletion(ports, lane, OWNER)
    dropped, ending = batch.entries
    assert isinstance(dropped, Dropped)
    assert dropped.message_id == "m-3"
    assert isinstance(ending, Deleted)
    assert ending.turn == "turn_2"
    assert (batch.state.status, batch.state.deleted, batch.state.stored_bytes) == ("idle", batch.n, 0)
    assert [mark for mark in ports.log.open_lanes(before="9999") if mark.lane == lane] == []
    assert ports.log.listing(lane) is None
    rows = ports.log.conversations(lane.tenant, lane.project, OWNER)
    assert lane not in [row.lane for row in rows]
    assert apply_deletion(ports, lane, OWNER) == batch
    assert redo_deletion(ports, lane)


def test_no_batch_is_put_after_a_deletion(ports: Ports, versioned: Any, lane: Lane) -> None:
    fill_conversation(versioned, ports, lane)
    journal = Journal(ports, lane, "decide/3")
    apply_deletion(ports, lane, OWNER)
    entry = Reopened(iteration=0, attempt=1)
    assert refused(lambda: journal.commit(lambda tail: Draft(entries=(entry,), state=tail.state))) == (
        "conversation_deleted"
    )
    assert refused(lambda: say(ports, lane, "m-9")) == "conversation_deleted"


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_batch_of_an_import_is_refused_for_ever_at_any_time(
    ports: Ports, versioned: Any, lane: Lane, n: int, passes: int
) -> None:
    """Its time is that of a document, so an erasure leaves no husk in the places of older ones."""
    for number in (1, 2, 3):
        assert ports.log.put(lane, imported(number)) == Written()
    apply_deletion(ports, lane, OWNER)
    for _ in range(passes):
        erase(ports, erasure_of(ports), stone(ports, lane))
        ports.clock.pause(HUSK_S)
    late = replace(imported(n), by="a pass that was suspended")
    assert refused(lambda: ports.log.put(lane, late)) == "conversation_deleted"


def imported(n: int) -> Batch:
    """Return batch n of an import that never ends."""
    begun = Importing(digest="a" * 64, at=LONG_AGO)
    entries: tuple[Entry, ...] = (Owner(user=OWNER), begun) if n == 1 else ()
    state = State(owner=OWNER, importing=1)
    return Batch(n=n, by="import", at=LONG_AGO, step=IMPORT, entries=entries, state=state)


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("message_id", ["m-1", "m-2", "m-new"])
def test_a_resend_and_a_founding_are_refused_for_ever(
    ports: Ports, versioned: Any, lane: Lane, message_id: str, passes: int
) -> None:
    fill_conversation(versioned, ports, lane)
    apply_deletion(ports, lane, OWNER)
    for _ in range(passes):
        erase(ports, erasure_of(ports), stone(ports, lane))
        ports.clock.pause(HUSK_S)
    assert bool(stone(ports, lane).done_at) == (passes == 2)
    assert refused(lambda: say(ports, lane, message_id)) == "conversation_deleted"
    assert refused(lambda: apply_deletion(ports, lane, "eve")) == "not_found"


@pytest.mark.parametrize("erased", [False, True])
def test_the_put_of_a_worker_that_woke_is_refused_as_long_as_it_may_sleep(
    ports: Ports, versioned: Any, lane: Lane, *, erased: bool
) -> None:
    """It read a tail before the deletion, and puts after it."""
    fill_conversation(versioned, ports, lane)
    tails = [ports.log.get(lane, n) or EMPTY for n in (2, 3, 4)]
    apply_deletion(ports, lane, OWNER)
    if erased:
        erase(ports, erasure_of(ports), stone(ports, lane))
    for tail in tails:
        late = Batch(n=tail.n + 1, by="zombie", at=tail.at, entries=(), state=tail.state)
        if erased:
            assert refused(lambda late=late: ports.log.put(lane, late)) == "conversation_deleted"
        else:
            assert isinstance(ports.log.put(lane, late), Occupied)
    assert not erased or refused(lambda: ports.log.tail(lane)) == "conversation_deleted"
    assert not erased or refused(lambda: ports.log.since(lane, 1)) == "conversation_deleted"


def test_a_journal_reads_a_tail_again_that_is_older_than_an_hour(
    ports: Ports, versioned: Any, lane: Lane
) -> None:
    fill_conversation(versioned, ports, lane)
    journal = Journal(ports, lane, "decide/3")
    old = journal.tail(consistent=True)
    apply_deletion(ports, lane, OWNER)
    erase_whole(ports, lane)
    seen: list[int] = []

    def plan(tail: Batch) -> Draft | str:
        seen.append(tail.n)
        return Draft(entries=(), state=tail.state) if tail.n else "gone"

    assert journal.commit(plan, tail=old) == "gone"
    assert seen == [0]


def test_a_later_pass_finds_objects_of_a_late_worker(ports: Ports, versioned: Any, lane: Lane) -> None:
    before = everything(versioned)
    fill_conversation(versioned, ports, lane)
    apply_deletion(ports, lane, OWNER)
    erase(ports, erasure_of(ports), stone(ports, lane))
    ports.clock.pause(HUSK_S)
    ports.artifacts.put(f"seg/{lane.prefix()}/late", b"late", mime="text/plain")
    assert not erase(ports, erasure_of(ports), stone(ports, lane))
    due = stone(ports, lane).due
    assert lane not in [one.lane for one in erasure_of(ports).pending(before=utc(ports.clock.now()))]
    assert lane in [one.lane for one in erasure_of(ports).pending(before=due)]
    assert erase(ports, erasure_of(ports), stone(ports, lane))
    assert all(map(is_tombstone, new_places(versioned, before)))


class Killed(BaseException):
    """The end of a process; nothing may catch it."""


class Mortal:
    """An erasure whose process dies after a number of requests."""

    def __init__(self, erasure: Any, lives: float) -> None:
        self._erasure, self.lives, self.calls = erasure, lives, 0

    def _step(self) -> None:
        self.calls += 1
        if self.calls > self.lives:
            raise Killed

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._erasure, name)

        def call(*args: Any, **fields: Any) -> Any:
            if name in ("erase_rows", "erase_husks", "delete_prefix", "delete_rows"):
                return self._each(method(*args, **fields))
            self._step()
            return method(*args, **fields)

        return call

    def _each(self, counts: Iterator[int]) -> Iterator[int]:
        for count in counts:
            yield count
            self._step()


def run_to_its_end(ports: Ports, lane: Lane, *, lives: float) -> tuple[int, bool]:
    """Delete and erase; the process dies once. Return the requests of a whole run, and whether it died."""
    mortal: Any = Mortal(erasure_of(ports), lives)
    died = False
    for _ in range(3):
        try:
            erase(ports, mortal, stone(ports, lane))
        except Killed:
            died, mortal.lives = True, float("inf")
            erase(ports, mortal, stone(ports, lane))
        if stone(ports, lane).done_at:
            break
        ports.clock.pause(HUSK_S)
    return mortal.calls, died


def test_an_erasure_that_dies_at_any_request_is_finished_by_the_next(
    versioned: Any, ports: Ports, lane: Lane
) -> None:
    before = everything(versioned)
    for lives in lives_of(versioned):
        other = replace(lane, conversation=f"c-{uuid.uuid4().hex}")
        fill_conversation(versioned, ports, other)
        apply_deletion(ports, other, OWNER)
        _, died = run_to_its_end(ports, other, lives=lives)
        assert stone(ports, other).done_at
        left = new_places(versioned, before)
        assert len(left) == 2, (lives, left)
        assert all(map(is_tombstone, left)), (lives, left)
        before = everything(versioned)
        if not died:
            break
    assert not died
    assert lives > 20


def lives_of(backend: Any) -> list[int]:
    """Return the numbers of requests after which a process dies: with moto, a landing tries a part of them."""
    return share(range(LIVES_MOST), LIVES_SHARES) if hasattr(backend, "table") else list(range(LIVES_MOST))


def test_a_restored_table_is_erased_again(versioned: Any, ports: Ports, lane: Lane) -> None:
    before = everything(versioned)
    fill_conversation(versioned, ports, lane)
    erasure_of(ports).keep(
        Tombstone(lane=lane, deleted_at=utc(ports.clock.now()), n=5, whose="w", owner=OWNER, due="x")
    )
    assert apply_tombstones(ports, erasure_of(ports)) >= 1
    assert stone(ports, lane).owner == OWNER
    assert refused(lambda: say(ports, lane, "m-9")) == "conversation_deleted"
    erase_whole(ports, lane)
    assert all(map(is_tombstone, new_places(versioned, before)))
    again = apply_tombstones(ports, erasure_of(ports))
    assert stone(ports, lane).done_at
    assert again == 0


def test_a_conversation_that_cannot_be_erased_now_keeps_no_other_from_it(
    versioned: Any, ports: Ports, lane: Lane
) -> None:
    lanes = [replace(lane, conversation=f"c-{uuid.uuid4().hex}") for _ in range(2)]
    for one in lanes:
        fill_conversation(versioned, ports, one)
        apply_deletion(ports, one, OWNER)
    failing: Any = Failing(erasure_of(ports), lanes[0])
    counts = erase_pending(ports, failing)
    assert counts["failed"] == 1
    assert stone(ports, lanes[1]).due > stone(ports, lanes[0]).due
    assert erase_pending(ports, erasure_of(ports), until_s=0.0)["left"] >= 1


class Failing:
    """An erasure that cannot store one of the tombstones."""

    def __init__(self, erasure: Any, lane: Lane) -> None:
        self._erasure, self._lane = erasure, lane

    def keep(self, tombstone: Tombstone) -> None:
        if tombstone.lane == self._lane:
            raise NotFoundError("not now")
        self._erasure.keep(tombstone)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._erasure, name)


def test_the_listing_is_not_written_again_by_a_late_effect(ports: Ports, versioned: Any, lane: Lane) -> None:
    fill_conversation(versioned, ports, lane)
    late = ports.log.listing(lane)
    apply_deletion(ports, lane, OWNER)
    assert late is not None
    ports.log.project(replace(late, applied_n=4))
    erase(ports, erasure_of(ports), stone(ports, lane))
    ports.log.project(replace(late, applied_n=4))
    assert ports.log.listing(lane) is None
    assert lane not in [row.lane for row in ports.log.conversations(lane.tenant, lane.project, OWNER)]


def test_memory_is_written_without_it_and_no_older_version_is_kept(
    versioned: Any, ports: Ports, lane: Lane
) -> None:
    scope = MemoryScope(tenant=lane.tenant, project=lane.project, user=OWNER)
    ports = replace_fields(ports, memory=EmbeddedMemoryIndex(ports))
    assert ports.memory is not None
    fill_conversation(versioned, ports, lane)
    for n, text in enumerate(("the zebra is secret", "an otter swims", "zebras again"), 1):
        ports.memory.add(scope, [memory_row(lane.conversation if n != 2 else "other", text, n)])
    apply_deletion(ports, lane, OWNER)
    before = stone(ports, lane)
    erase(ports, erasure_of(ports), before)
    kept = ports.memory.forget(scope, lane.conversation)
    assert (kept.rows, len(kept.keys)) == (0, 2)
    objects = [place.split()[-1] for place in everything(versioned) if kept.prefix in place]
    if hasattr(versioned, "table"):
        objects = [place.split()[0] for place in everything(versioned) if kept.prefix in place]
    assert sorted(objects) == sorted(kept.keys)
    found = ports.memory.search(MemoryQuery(scope=scope, text="zebra otter secret")).hits
    assert [hit.row.conversation for hit in found] == ["other"]


def memory_row(conversation: str, text: str, n: int) -> MemoryRow:
    path = f"ar:turn_{n}.assistant.completion"
    at = "2026-11-21T10:15:00.000Z"
    return MemoryRow(
        conversation=conversation, turn=f"turn_{n}", kind="answer", path=path, at=at, n=n, text=text
    )
