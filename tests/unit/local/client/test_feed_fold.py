"""The list of conversations as a fold: pages and frames, in any order."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepline.local.client.feed import FeedRow, FeedRows, fold_feed, take_page
from stepline.model.wire.event import ClientEvent, FeedFrame

C = "c1"


def item(n: int, **fields: Any) -> dict[str, Any]:
    """Return a row of the list that was read after batch `n`."""
    return {"conversation": C, "title": "", "state": "idle", "n": n, "active_n": n, "unread_n": 0, **fields}


def status(n: int, *states: str, completion: str = "", waits_for: str = "") -> FeedFrame:
    waits = {"waits_for": waits_for} if waits_for else {}
    data = [{"state": state, "completion": completion, **waits} for state in states]
    events = tuple(ClientEvent(type="conv.status", route="conv_status", ts="", data=one) for one in data)
    return FeedFrame(conversation=C, n=n, events=events)


def titled(n: int, title: str) -> FeedFrame:
    event = ClientEvent(type="chat.conversation.title", route="chat_step", ts="", data={"title": title})
    return FeedFrame(conversation=C, n=n, events=(event,))


def read(n: int) -> FeedFrame:
    return FeedFrame(conversation=C, read_n=n)


def fold(*steps: FeedFrame | dict[str, Any]) -> FeedRow:
    rows: FeedRows = {}
    for step in steps:
        rows = fold_feed(rows, step) if isinstance(step, FeedFrame) else take_page(rows, [step])
    return rows[C]


def test_a_new_conversation_comes_into_the_list_without_reading_it() -> None:
    row = fold(status(1, "created", "in_progress"), titled(1, "Hello"))
    assert (row.title, row.state, row.unread_n) == ("Hello", "in_progress", 1)


def test_a_turn_that_begins_is_nothing_to_read_and_its_end_is() -> None:
    begun = [item(5, title="Hello"), status(6, "in_progress")]
    assert (fold(*begun).state, fold(*begun).unread_n) == ("in_progress", 0)
    ended = fold(*begun, status(9, "idle", completion="success"))
    assert (ended.state, ended.unread_n) == ("idle", 6)


def test_a_request_for_an_approval_is_something_to_read_and_its_answer_is_not() -> None:
    asked = [item(5), status(6, "in_progress"), status(8, "in_progress", waits_for="approval")]
    assert (fold(*asked).waits_for, fold(*asked).state, fold(*asked).unread_n) == (
        "approval",
        "in_progress",
        6,
    )
    answered = fold(*asked, read(8), status(9, "in_progress"))
    assert (answered.waits_for, answered.unread_n) == ("", 0)


def test_a_row_of_the_list_says_what_a_conversation_waits_for() -> None:
    asked = item(8, state="in_progress", waits_for="approval")
    assert fold(asked).waits_for == "approval"
    assert fold(asked, status(9, "in_progress")).waits_for == ""
    assert fold(status(9, "in_progress"), asked).waits_for == ""


def test_what_another_device_has_read_is_read() -> None:
    assert fold(item(9, unread_n=4), read(9)).unread_n == 0
    assert fold(item(9, unread_n=4), read(6)).unread_n == 7
    assert fold(item(9), read(3)).unread_n == 0


def test_a_page_that_was_read_before_a_frame_takes_nothing_back() -> None:
    row = fold(
        status(9, "error", completion="error"), titled(8, "New"), item(5, title="Old", state="in_progress")
    )
    assert (row.title, row.state, row.unread_n) == ("New", "error", 6)


def test_a_frame_from_before_the_page_changes_nothing() -> None:
    page = item(9, title="New", unread_n=9)
    assert fold(page, titled(3, "Old"), status(6, "in_progress")) == fold(page)


def test_a_page_that_is_read_again_mends_a_state_that_was_read_too_early() -> None:
    early, late = item(9, state="in_progress"), item(9, state="idle")
    assert fold(early, late).state == "idle"
    assert fold(status(9, "idle", completion="success"), early).state == "idle"


STEPS = [
    status(1, "created", "in_progress"),
    titled(1, "First"),
    status(5, "idle", completion="success"),
    titled(6, "Second"),
    status(7, "in_progress"),
    status(8, "in_progress", waits_for="approval"),
    status(9, "in_progress", completion="queued_next"),
    status(12, "error", completion="error"),
    read(5),
    read(9),
    item(5, title="First", unread_n=1),
    item(6, title="Second", active_n=5),
    item(12, title="Second", state="error", unread_n=10),
]


@given(st.permutations([*STEPS, *STEPS]))
def test_frames_and_pages_give_the_same_list_in_any_order(steps: list[Any]) -> None:
    row = fold(*steps)
    assert (row.title, row.state, row.active_n, row.unread_n) == ("Second", "error", 12, 10)


@given(st.permutations([*STEPS, status(13, "deleted")]))
def test_a_conversation_that_is_deleted_stays_so_whatever_is_heard_late(steps: list[Any]) -> None:
    row = fold(*steps)
    assert (row.state, row.title, row.unread_n) == ("deleted", "", 0)
