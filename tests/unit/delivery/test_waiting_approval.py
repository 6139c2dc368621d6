"""A conversation that waits for a person, seen from the list and from the feed of its user."""

from __future__ import annotations

import json
from typing import Any

from stepline.ingress.message import receive
from stepline.ingress.rename import rename
from stepline.loop.sweep import sweep_lane
from stepline.model.wire.event import FeedFrame
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation, of
from tests.support.generation import answered, called
from tests.unit.loop.test_parked_turn import PAY, Asking, parked


def listed(conversation: Conversation) -> dict[str, Any]:
    """Return the row of the conversation from the list and from its own endpoint."""
    caller = Caller(conversation.ports)
    (row,) = caller.get("/v1/conversations")["items"]
    assert caller.get(f"/v1/conversations/{LANE.conversation}") == row
    return dict(row)


def status_of(conversation: Conversation) -> tuple[str, str]:
    row = listed(conversation)
    return row["state"], row["waits_for"]


def heard(inbox: list[bytes]) -> list[tuple[str, str]]:
    """Return the states and waits that the feed has sent since the last call."""
    sent = [
        (event.data["state"], event.data.get("waits_for", ""))
        for frame in of(FeedFrame, inbox)
        for event in frame.events
        if event.type == "conv.status"
    ]
    inbox.clear()
    return sent


def watched(conversation: Asking) -> list[bytes]:
    inbox = conversation.connect("w1")
    receive(conversation.ports, "w1", json.dumps({"action": "watch"}))
    inbox.clear()
    return inbox


def test_a_request_for_an_approval_is_sent_to_its_user_and_listed_until_it_is_answered() -> None:
    conversation = Asking(called(PAY), answered("Paid."))
    inbox = watched(conversation)
    conversation.send()
    conversation.run()
    assert heard(inbox) == [("created", ""), ("in_progress", ""), ("in_progress", "approval")]
    asked = listed(conversation)
    assert (asked["state"], asked["waits_for"], asked["unread_n"]) == ("in_progress", "approval", 1)
    conversation.answer()
    assert heard(inbox) == [("in_progress", "")]
    assert status_of(conversation) == ("in_progress", "")
    assert listed(conversation)["active_n"] == asked["active_n"]
    conversation.run()
    assert heard(inbox) == [("idle", "")]
    assert status_of(conversation) == ("idle", "")


def test_a_stop_ends_the_wait_in_list_and_feed() -> None:
    conversation = parked()
    inbox = watched(conversation)
    conversation.send("", id="m2", kind="stop")
    assert heard(inbox) == [("in_progress", "")]
    assert status_of(conversation) == ("in_progress", "")


def test_a_rename_does_not_change_a_waiting_approval() -> None:
    conversation = parked()
    rename(conversation.ports, LANE, "Mine", user=USER)
    assert status_of(conversation) == ("in_progress", "approval")


def test_a_row_that_was_lost_with_its_process_is_written_by_the_sweeper() -> None:
    conversation = parked()
    conversation.log._listings.clear()
    assert sweep_lane(conversation.ports, LANE) == "parked"
    row = conversation.log.listing(LANE)
    assert row is not None
    assert row.waits_for == "approval"
