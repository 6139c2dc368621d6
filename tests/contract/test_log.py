from concurrent.futures import ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from stepline.model.batch import Batch, State, encode_batch
from stepline.model.entry import Inbound
from stepline.model.ids import Lane
from stepline.ports.log import Duplicate, Listing, Log, Occupied, OpenLane, Written

AT = "2026-11-21T10:15:00.000Z"
LATER = "2026-11-21T10:16:00.000Z"


@pytest.fixture
def log(backend) -> Log:
    return backend.log


def make_batch(n: int, *, by: str = "me", text: str = "hello", at: str = AT) -> Batch:
    said = Inbound(message_id=f"m-{n}", event="prompt", text=text, user="ada", at=at)
    return Batch(n=n, by=by, at=at, entries=(said,), state=State(status="open", owner="ada", epoch=n))


def fill(log: Log, lane: Lane, count: int, *, text: str = "hello") -> list[Batch]:
    batches = [make_batch(n, text=text) for n in range(1, count + 1)]
    assert [log.put(lane, batch) for batch in batches] == [Written()] * count
    return batches


def marks(log: Log, lane: Lane, *, before: str = LATER) -> list[OpenLane]:
    return [mark for mark in log.open_lanes(before=before) if mark.lane == lane]


def test_a_stored_batch_reads_back_unchanged(log, lane):
    batch = make_batch(1, text="grüß dich \x00 \U0001f980")
    assert log.put(lane, batch) == Written()
    assert log.get(lane, 1) == batch
    assert log.get(lane, 1, consistent=False) == batch


def test_an_empty_lane_has_no_batches(log, lane):
    assert log.get(lane, 1) is None
    assert log.tail(lane) is None
    assert log.since(lane, 0) == []
    assert log.admitted(lane, "m-1") is None


def test_a_put_at_an_occupied_n_names_its_writer_and_changes_nothing(log, lane):
    first = make_batch(1, by="them")
    log.put(lane, first)
    assert log.put(lane, make_batch(1, by="me")) == Occupied(batch=first)
    assert log.get(lane, 1) == first


def test_lanes_do_not_see_each_other(log, lane):
    fill(log, lane, 2)
    for other in (
        Lane(tenant="other", project=lane.project, conversation=lane.conversation),
        Lane(tenant=lane.tenant, project="other", conversation=lane.conversation),
        Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0"),
    ):
        assert log.since(other, 0) == []
        assert log.tail(other) is None


def test_the_tail_is_the_newest_batch_beyond_nine_too(log, lane):
    batches = fill(log, lane, 11)
    assert log.tail(lane) == batches[-1]
    assert log.tail(lane, consistent=True) == batches[-1]


def test_since_returns_the_batches_after_n_up_to_a_bound_in_order(log, lane):
    batches = fill(log, lane, 12)
    assert log.since(lane, 0) == batches
    assert log.since(lane, 9, consistent=True) == batches[9:]
    assert log.since(lane, 3, upto=10) == batches[3:10]
    assert log.since(lane, 3, upto=99) == batches[3:]
    assert log.since(lane, 5, upto=6) == [batches[5]]
    assert log.since(lane, 5, upto=5) == []
    assert log.since(lane, 6, upto=2) == []
    assert log.since(lane, 12) == []


def test_since_follows_as_many_pages_as_it_takes(log, lane):
    batches = fill(log, lane, 42, text="x" * 30_000)
    assert sum(len(encode_batch(batch)) for batch in batches) > 1024 * 1024  # one page holds 1 MB
    assert log.since(lane, 0) == batches
    assert log.since(lane, 1, upto=41, consistent=True) == batches[1:41]


def test_exactly_one_writer_of_an_n_wins_and_all_learn_its_name(log, lane):
    def write(writer: int) -> object:
        return log.put(lane, make_batch(1, by=f"w{writer}"))

    with ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(write, range(16)))
    winner = log.get(lane, 1)
    assert winner is not None
    assert answers[int(winner.by[1:])] == Written()
    assert sorted(map(repr, answers)) == sorted(map(repr, [Written()] + [Occupied(batch=winner)] * 15))


def test_writers_that_continue_at_the_next_free_n_leave_no_gap(log, lane):
    def write(writer: int) -> int:
        n = 1
        while not isinstance(log.put(lane, make_batch(n, by=f"w{writer}"), message_id=f"m{writer}"), Written):
            n += 1
        return n

    with ThreadPoolExecutor(max_workers=6) as pool:
        placed = list(pool.map(write, range(12)))
    assert sorted(placed) == list(range(1, 13))
    assert [log.admitted(lane, f"m{writer}") for writer in range(12)] == placed


def test_a_message_is_admitted_once_and_a_resend_learns_where(log, lane):
    fill(log, lane, 1)
    assert log.put(lane, make_batch(2), message_id="m") == Written()
    assert log.admitted(lane, "m") == 2
    assert log.put(lane, make_batch(3, by="again"), message_id="m") == Duplicate(n=2)
    assert log.get(lane, 3) is None


def test_a_resend_to_an_occupied_n_is_first_a_duplicate(log, lane):
    log.put(lane, make_batch(1), message_id="m")
    assert log.put(lane, make_batch(1, by="again"), message_id="m") == Duplicate(n=1)


def test_a_new_message_at_an_occupied_n_is_not_admitted(log, lane):
    first = make_batch(1, by="them")
    log.put(lane, first)
    assert log.put(lane, make_batch(1), message_id="m") == Occupied(batch=first)
    assert log.admitted(lane, "m") is None


def test_our_own_batch_counts_as_ours_even_if_its_message_is_stored(log, lane):
    batch = make_batch(1)
    log.put(lane, batch, message_id="m", marks_open=True)
    assert log.put(lane, batch, message_id="m", marks_open=True) == Occupied(batch=batch)


def test_the_same_message_id_in_two_lanes_is_two_messages(log, lane):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    assert log.put(lane, make_batch(1), message_id="m") == Written()
    assert log.put(other, make_batch(1), message_id="m") == Written()


@pytest.mark.parametrize("message_id", ["", "m"])
def test_an_opened_lane_is_listed_with_the_batch_that_opened_it(log, lane, message_id):
    log.put(lane, make_batch(1), message_id=message_id, marks_open=True)
    assert marks(log, lane) == [OpenLane(lane=lane, n=1, since=AT)]


def test_a_refused_put_marks_nothing(log, lane):
    log.put(lane, make_batch(1, by="them"), message_id="m")
    log.put(lane, make_batch(1), marks_open=True)
    log.put(lane, make_batch(2), message_id="m", marks_open=True)
    assert marks(log, lane) == []


def test_a_lane_that_opens_again_moves_its_mark(log, lane):
    log.put(lane, make_batch(1), marks_open=True)
    log.put(lane, make_batch(2, at=LATER), marks_open=True)
    assert marks(log, lane) == [OpenLane(lane=lane, n=2, since=LATER)]


def test_open_lanes_are_bounded_by_time_and_oldest_first(log, lane):
    ats = {"b": LATER, "a": AT, "c": "2026-11-21T10:17:00.000Z"}
    lanes = {name: Lane(tenant="acme", project="docs", conversation=lane.conversation + name) for name in ats}
    for name, at in ats.items():
        log.put(lanes[name], make_batch(1, at=at), marks_open=True)
    found = [mark.lane for mark in log.open_lanes(before=LATER) if mark.lane in lanes.values()]
    assert found == [lanes["a"], lanes["b"]]


def test_a_closed_lane_is_no_longer_listed(log, lane):
    log.put(lane, make_batch(1), marks_open=True)
    log.clear_open(lane, 5)
    assert marks(log, lane) == []


def test_a_late_close_does_not_clear_a_newer_mark(log, lane):
    log.put(lane, make_batch(1), marks_open=True)
    log.put(lane, make_batch(2), marks_open=True)
    log.clear_open(lane, 1)
    assert [mark.n for mark in marks(log, lane)] == [2]


def test_clearing_a_lane_that_is_not_open_does_nothing(log, lane):
    log.clear_open(lane, 7)
    log.put(lane, make_batch(1), marks_open=True)
    log.clear_open(lane, 1)
    log.clear_open(lane, 1)
    assert marks(log, lane) == []


def make_listing(lane: Lane, applied_n: int, *, last_at: str = AT, title: str = "") -> Listing:
    return Listing(
        lane=lane, owner=lane.conversation, title=title, last_at=last_at, applied_n=applied_n, output_tokens=5
    )


def test_a_late_writer_of_the_listing_loses(log, lane):
    newer = make_listing(lane, 9, last_at=LATER, title="newer")
    log.project(make_listing(lane, 4))
    log.project(newer)
    log.project(make_listing(lane, 5, title="late"))
    log.project(make_listing(lane, 9, title="same"))
    assert log.conversations(lane.tenant, lane.project, lane.conversation) == [newer]


def test_conversations_are_the_users_own_newest_first(log, lane):
    user = lane.conversation

    def listing(name: str, last_at: str, owner: str = user, tenant: str = "acme") -> Listing:
        other = Lane(tenant=tenant, project="docs", conversation=f"{user}{name}")
        return Listing(lane=other, owner=owner, title=name, last_at=last_at, applied_n=1)

    log.project(listing("old", AT))
    log.project(listing("new", LATER))
    log.project(listing("foreign", LATER, owner="somebody-else"))
    log.project(listing("elsewhere", LATER, tenant="other"))
    assert [found.title for found in log.conversations("acme", "docs", user)] == ["new", "old"]


def test_a_row_may_be_listed_before_its_first_batch_and_never_replaces_one(log, lane):
    log.project(make_listing(lane, 0, title="to come"))
    assert log.listing(lane).title == "to come"
    log.project(make_listing(lane, 1, title="here"))
    log.project(make_listing(lane, 0, title="to come"))
    assert log.listing(lane).title == "here"


def test_the_listing_and_the_open_mark_do_not_disturb_each_other(log, lane):
    listing = make_listing(lane, 2)
    log.put(lane, make_batch(1), marks_open=True)
    assert log.conversations(lane.tenant, lane.project, lane.conversation) == []
    log.project(listing)
    assert [mark.n for mark in marks(log, lane)] == [1]
    assert log.listing(lane) == replace(listing, open=True)
    log.clear_open(lane, 2)
    assert log.conversations(lane.tenant, lane.project, lane.conversation) == [listing]


def make_row(lane: Lane, name: str, last_at: str) -> Listing:
    other = Lane(tenant="acme", project="docs", conversation=f"{lane.conversation}{name}")
    return Listing(lane=other, owner=lane.conversation, title=name, last_at=last_at, applied_n=1)


def test_a_page_of_conversations_begins_after_its_cursor(log, lane):
    rows = [make_row(lane, str(i), f"2026-11-21T10:15:0{i}.000Z") for i in range(5)]
    for row in rows:
        log.project(row)
    rows.reverse()
    first = log.conversations("acme", "docs", lane.conversation, most=2)
    assert first == rows[:2]
    assert log.conversations("acme", "docs", lane.conversation, after=first[-1].place, most=2) == rows[2:4]
    assert log.conversations("acme", "docs", lane.conversation, after=rows[3].place) == rows[4:]
    assert log.conversations("acme", "docs", lane.conversation, after=rows[4].place, most=2) == []


def test_rows_of_one_time_are_each_on_one_page(log, lane):
    rows = [make_row(lane, str(i), AT) for i in range(4)]
    for row in rows:
        log.project(row)
    found, place = [], None
    while page := log.conversations("acme", "docs", lane.conversation, after=place, most=1):
        found += page
        place = page[-1].place
    assert sorted(row.title for row in found) == ["0", "1", "2", "3"]


def test_a_cursor_whose_row_is_gone_is_valid(log, lane):
    old, new = make_row(lane, "old", AT), make_row(lane, "new", LATER)
    log.project(old)
    log.project(new)
    between = ("2026-11-21T10:15:30.000Z", lane.conversation)
    assert log.conversations("acme", "docs", lane.conversation, after=between) == [old]


def test_a_conversations_row_is_found_by_its_lane(log, lane):
    listing = make_listing(lane, 2)
    assert log.listing(lane) is None
    log.put(lane, make_batch(1), marks_open=True)
    assert log.listing(lane) is None
    log.project(listing)
    assert log.listing(lane) == replace(listing, open=True)


def test_the_read_mark_never_decreases_and_survives_a_projection(log, lane):
    log.mark_read(lane, 3)
    assert log.conversations(lane.tenant, lane.project, lane.conversation) == []
    log.project(make_listing(lane, 4))
    log.mark_read(lane, 2)
    assert log.listing(lane).read_n == 3
    log.mark_read(lane, 5)
    log.project(make_listing(lane, 6))
    (row,) = log.conversations(lane.tenant, lane.project, lane.conversation)
    assert (row.read_n, row.applied_n) == (5, 6)
