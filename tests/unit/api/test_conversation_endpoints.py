"""The endpoints of conversations over a conversation of the loop."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.delivery import event_page
from stepline.delivery.effect import project
from stepline.delivery.resume import resume
from stepline.loop.close import close
from stepline.model.entry import Titled
from stepline.model.ids import Lane
from stepline.ports.log import Listing
from tests.support.api_caller import Caller
from tests.support.conversation import FAR, LANE, USER, Conversation, event_types
from tests.support.generation import answered

URL = f"/v1/conversations/{LANE.conversation}"
AT = "2026-11-21T10:15:00.000Z"


def talked(turns: int = 1) -> tuple[Conversation, Caller]:
    """Return a conversation with this number of turns, and its user's caller."""
    conversation = Conversation(*(answered(f"Answer {i}.") for i in range(turns)))
    for i in range(turns):
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()
    return conversation, Caller(conversation.ports)


def listed(conversation: Conversation, *titles: str, owner: str = USER) -> None:
    """Add rows to a user's list, each newer than the one before."""
    for i, title in enumerate(titles):
        lane = replace(LANE, conversation=f"listed-{i:03d}")
        row = Listing(
            lane=lane, owner=owner, title=title, last_at=f"2030-01-01T00:00:{i:02d}.000Z", applied_n=1
        )
        conversation.ports.log.project(row)


def titles(caller: Caller, **query: str) -> tuple[list[str], str]:
    page = caller.get("/v1/conversations", **query)
    return [row["title"] for row in page["items"]], page["next"]


def test_a_row_of_the_list_shows_the_state_of_the_conversation() -> None:
    conversation, caller = talked(2)
    (row,) = caller.get("/v1/conversations")["items"]
    batches = conversation.batches()
    assert row == {
        "conversation": LANE.conversation,
        "title": "question 0",
        "state": "idle",
        "waits_for": "",
        "started_at": batches[0].at,
        "last_activity_at": batches[-1].at,
        "turns": 2,
        "unread_n": 1,
        "n": batches[-1].n,
        "active_n": batches[-1].n,
        "branch_of": "",
    }
    assert caller.get(URL) == row


def test_a_conversation_with_an_open_turn_is_in_progress_and_one_that_failed_has_an_error() -> None:
    conversation, caller = talked()
    conversation.send("again", id="m9")
    assert caller.get("/v1/conversations")["items"] == [caller.get(URL)]
    assert caller.get(URL)["state"] == "in_progress"
    close(conversation.ports, conversation.now(error={"Error": "States.Timeout", "Cause": ""}))
    assert caller.get(URL)["state"] == "error"


def test_a_row_that_was_not_written_yet_is_made_from_the_log() -> None:
    conversation, caller = talked()
    row = caller.get(URL)
    conversation.log._listings.clear()
    assert caller.get(URL) == row


def test_pages_of_the_list_are_adjacent_while_new_rows_arrive() -> None:
    conversation = Conversation()
    caller = Caller(conversation.ports)
    listed(conversation, *"abcde")
    first, cursor = titles(caller, limit="2")
    listed(conversation, "a")
    conversation.ports.log.project(
        Listing(lane=replace(LANE, conversation="new"), owner=USER, title="new", last_at="2031", applied_n=1)
    )
    second, cursor = titles(caller, limit="2", after=cursor)
    third, end = titles(caller, limit="2", after=cursor)
    assert (first, second, third, end) == (["e", "d"], ["c", "b"], ["a"], "")


def test_a_page_that_ends_with_the_list_has_no_next_one() -> None:
    conversation = Conversation()
    listed(conversation, *"ab")
    assert titles(Caller(conversation.ports), limit="2") == (["b", "a"], "")


def test_a_search_finds_titles_with_all_words_in_any_case() -> None:
    conversation = Conversation()
    caller = Caller(conversation.ports)
    listed(conversation, "Red Apples", "green apples", "Red pears")
    assert titles(caller, q="apples RED") == (["Red Apples"], "")
    first, cursor = titles(caller, q="apples", limit="1")
    assert (first, titles(caller, q="apples", limit="1", after=cursor)[0]) == (
        ["green apples"],
        ["Red Apples"],
    )


def test_a_search_ends_after_its_rows_and_its_cursor_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    from stepline.log.lists import listed_conversations

    monkeypatch.setattr(listed_conversations, "ROWS_AT_ONCE", 2)
    monkeypatch.setattr(listed_conversations, "ROWS_MAX", 4)
    conversation = Conversation()
    caller = Caller(conversation.ports)
    listed(conversation, "apple", *["pear"] * 5)
    found, cursor = titles(caller, q="apple", limit="1")
    assert found == []
    assert titles(caller, q="apple", limit="1", after=cursor) == (["apple"], "")


def test_a_cursor_belongs_to_one_user() -> None:
    conversation = Conversation()
    listed(conversation, *"ab")
    _, cursor = titles(Caller(conversation.ports), limit="1")
    for after in (cursor[:-2], "e30", "é", "x", f"{cursor}AAAA"):
        assert Caller(conversation.ports).ask("GET", "/v1/conversations", after=after).code == "bad_cursor"
    eve = Caller(conversation.ports, user="eve")
    assert eve.ask("GET", "/v1/conversations", after=cursor).code == "bad_cursor"


def test_a_conversation_is_hidden_from_other_users() -> None:
    conversation, _ = talked()
    eve = Caller(conversation.ports, user="eve")
    assert eve.get("/v1/conversations") == {"items": [], "next": ""}
    assert eve.ask("GET", URL).code == "not_found"


def replayed(conversation: Conversation) -> list[Any]:
    """Return the frames of events that `resume` sends from the beginning."""
    inbox = conversation.connect("k1")
    resume(conversation.ports, LANE, user=USER, connection="k1", until_s=FAR, after=0, have={}, claim=0)
    return [frame for frame in map(json.loads, inbox) if frame["frame"] == "events"]


def test_pages_of_events_put_together_are_what_resume_sends() -> None:
    conversation, caller = talked(3)
    found: list[Any] = []
    before, pages = "0", 0
    while True:
        page = caller.get(f"{URL}/events", before=before, turns="1")
        found = [*page["events"], *found]
        before, pages = str(page["first_n"]), pages + 1
        if not page["more"]:
            break
    assert (found, pages) == (replayed(conversation), 3)


def test_a_page_begins_where_a_turn_opened() -> None:
    conversation, caller = talked(3)
    opened = [turn.opened for turn in conversation.timeline().history]
    page = caller.get(f"{URL}/events", turns="2")
    assert (page["first_n"], page["more"], page["events"][0]["n"]) == (opened[1], True, opened[1])
    assert caller.get(f"{URL}/events", before="1") == {
        "events": [],
        "first_n": 0,
        "more": False,
        "turns_before": 0,
        "fork": None,
    }


def test_a_page_says_how_many_turns_opened_before_it() -> None:
    _, caller = talked(3)
    page = caller.get(f"{URL}/events", turns="2")
    assert page["turns_before"] == 1
    assert caller.get(f"{URL}/events", before=str(page["first_n"]))["turns_before"] == 0


def test_a_page_has_as_many_whole_turns_as_its_bytes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, caller = talked(3)
    opened = [turn.opened for turn in conversation.timeline().history]
    whole = json.dumps(caller.get(f"{URL}/events", turns="1"))
    monkeypatch.setattr(event_page, "PAGE_MAX_BYTES", int(len(whole) * 1.5))
    page = caller.get(f"{URL}/events", turns="3")
    assert (page["first_n"], page["more"]) == (opened[2], True)


def starts_a_turn(frame: Any) -> bool:
    return any(event["type"] == "chat.start" for event in frame["events"])


def test_a_turn_larger_than_a_page_is_cut_between_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation, caller = talked(2)
    whole = replayed(conversation)
    monkeypatch.setattr(event_page, "PAGE_MAX_BYTES", 1)
    found: list[Any] = []
    before = "0"
    while before != "1":
        page = caller.get(f"{URL}/events", before=before)
        found, before = [*page["events"], *found], str(page["first_n"])
        assert len({frame["n"] for frame in page["events"]}) <= 1
        opened = [frame["n"] for frame in whole if starts_a_turn(frame)]
        assert page["turns_before"] == sum(n < page["first_n"] for n in opened)
    assert found == whole


def test_a_title_is_recorded_published_and_listed() -> None:
    conversation, caller = talked()
    inbox = conversation.listen()
    last_at = caller.get(URL)["last_activity_at"]
    conversation.clock.pause(60)
    assert caller.ask("PATCH", URL, {"title": "  My \n own title "}).status == 204
    row = caller.get(URL)
    assert (row["title"], row["state"], row["last_activity_at"]) == ("My own title", "idle", last_at)
    assert event_types(inbox) == ["chat.conversation.title"]
    assert conversation.timeline().title == "My own title"


class WatchedLog(MemoryLog):
    """Records the rows written to it; while it `loses`, it lists nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[str] = []
        self.loses = False

    def put(self, *given: Any, **named: Any) -> Any:
        self.writes.append("put")
        return super().put(*given, **named)

    def project(self, listing: Listing) -> None:
        self.writes.append("project")
        if not self.loses:
            super().project(listing)


def watched() -> tuple[Conversation, WatchedLog, Caller]:
    log = WatchedLog()
    conversation = Conversation(answered("Hi."), log=log)
    conversation.send()
    conversation.run()
    return conversation, log, Caller(conversation.ports)


def test_a_repeated_title_writes_and_publishes_nothing() -> None:
    conversation, log, caller = watched()
    caller.ask("PATCH", URL, {"title": "Mine"})
    inbox = conversation.listen()
    log.writes.clear()
    assert caller.ask("PATCH", URL, {"title": " Mine"}).status == 204
    assert (log.writes, event_types(inbox)) == ([], [])
    caller.ask("PATCH", URL, {"title": "Other"})
    assert log.writes == ["put", "project"]
    assert len(conversation.entries(Titled)) == 2


def test_a_repeated_title_is_listed_if_the_first_one_was_not() -> None:
    _, log, caller = watched()
    log.loses = True
    caller.ask("PATCH", URL, {"title": "Mine"})
    assert caller.get(URL)["title"] != "Mine"
    log.loses = False
    caller.ask("PATCH", URL, {"title": "Mine"})
    assert caller.get(URL)["title"] == "Mine"


def test_an_error_stays_visible_when_the_conversation_is_named() -> None:
    conversation, caller = talked()
    conversation.send("again", id="m9")
    close(conversation.ports, conversation.now(error={"Error": "States.Timeout", "Cause": ""}))
    caller.ask("PATCH", URL, {"title": "Mine"})
    assert caller.get(URL)["state"] == "error"


@pytest.mark.parametrize(
    ("title", "code"),
    [(" \n", "bad_title"), ("\u200b\u3164", "bad_title"), ("x" * 81, "limit_exceeded"), ("", "bad_message")],
)
def test_a_title_is_one_short_line(title: str, code: str) -> None:
    _, caller = talked()
    assert caller.ask("PATCH", URL, {"title": title}).code == code


def test_the_read_position_never_moves_back() -> None:
    conversation, caller = talked()
    newest = conversation.tail.n
    for n, unread in ((2, 3), (1, 3), (newest + 1_000, 0)):
        assert caller.ask("PUT", f"{URL}/read", {"n": n}).status == 204
        assert caller.get(URL)["unread_n"] == unread
    conversation.model.add(answered("More."))
    conversation.send("again", id="m9")
    conversation.run()
    assert caller.get(URL)["unread_n"] == newest + 1
    caller.ask("PATCH", URL, {"title": "Mine"})
    assert caller.get(URL)["unread_n"] == newest + 1


def test_a_users_own_title_is_not_unread() -> None:
    conversation, caller = talked()
    caller.ask("PUT", f"{URL}/read", {"n": conversation.tail.n})
    caller.ask("PATCH", URL, {"title": "Mine"})
    assert caller.get(URL)["unread_n"] == 0


def test_a_late_effect_does_not_revert_a_title() -> None:
    conversation, caller = talked()
    closing = conversation.tail
    caller.ask("PATCH", URL, {"title": "Mine"})
    project(conversation.ports, LANE, closing)
    assert caller.get(URL)["title"] == "Mine"


def test_reading_another_conversation_does_not_mark_this_one() -> None:
    conversation, caller = talked()
    other = Lane(tenant=LANE.tenant, project=LANE.project, conversation="c-2")
    conversation.ports.log.mark_read(other, 100)
    assert caller.get(URL)["unread_n"] == 1
