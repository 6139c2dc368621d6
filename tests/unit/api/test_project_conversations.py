"""The older spelling of conversations, over a conversation of the loop."""

from __future__ import annotations

import pytest

from stepline.api import project_conversations
from stepline.ingress.feedback import submit_feedback
from stepline.log.timeline_cache import History
from stepline.model.entry import Feedback
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

PROJECT = f"/conversations/{LANE.tenant}/{LANE.project}"
URL = f"{PROJECT}/{LANE.conversation}"


def talked(turns: int = 1) -> tuple[Conversation, Caller]:
    conversation = Conversation(*(answered(f"Answer {i}.") for i in range(turns)))
    for i in range(turns):
        conversation.send(f"question {i}", id=f"m{i}")
        conversation.run()
    return conversation, Caller(conversation.ports)


def test_the_list_shows_times_and_titles() -> None:
    conversation, caller = talked()
    batches = conversation.batches()
    row = {
        "conversation_id": LANE.conversation,
        "last_activity_at": batches[-1].at,
        "started_at": batches[0].at,
        "title": "question 0",
    }
    assert caller.get(PROJECT) == {"user_id": USER, "items": [row]}
    assert caller.get(PROJECT, include_titles="false")["items"] == [{**row, "title": ""}]


def test_the_list_ends_at_the_requested_time() -> None:
    conversation, caller = talked()
    at = conversation.batches()[-1].at
    assert len(caller.get(PROJECT, started_after=at)["items"]) == 1
    assert caller.get(PROJECT, started_after="2199-01-01T00:00:00+00:00")["items"] == []
    conversation.clock.pause(2 * 86_400)
    assert caller.get(PROJECT, days="1")["items"] == []
    for bad in ("yesterday", "0001-01-01T00:00:00+23:00"):
        assert caller.ask("GET", PROJECT, started_after=bad).code == "bad_message"


def test_a_conversation_reports_its_state() -> None:
    conversation, caller = talked()
    (turn,) = conversation.timeline().turns
    status = caller.get(f"{URL}/status")
    assert (status["state"], status["meta"]) == ("idle", {"last_turn_id": turn})
    conversation.send("again", id="m9")
    assert caller.get(f"{URL}/status")["state"] == "in_progress"


def test_details_name_the_messages_of_each_turn_without_their_texts() -> None:
    conversation, caller = talked(2)
    details = caller.get(f"{URL}/details")
    assert [turn["turn_id"] for turn in details["turns"]] == list(conversation.timeline().turns)
    assert [one["type"] for one in details["turns"][0]["artifacts"]] == ["chat:user", "chat:assistant"]
    assert "Answer" not in str(details)
    assert (details["conversation_title"], details["sources_pool"]) == ("question 0", [])


def test_both_forms_of_fetch_give_the_same_texts() -> None:
    conversation, caller = talked(2)
    _, second = conversation.timeline().turns
    asked = {"turn_ids": [second], "materialize": True}
    fetched = caller.post(f"{URL}/fetch", asked)
    assert fetched == caller.post(f"{PROJECT}/fetch", {**asked, "conversation_id": LANE.conversation})
    (turn,) = fetched["turns"]
    said = [(one["message_id"], one["data"]["text"]) for one in turn["artifacts"]]
    assert (said[0], said[1][1]) == (("m1", "question 1"), "Answer 1.")


def test_a_message_that_waited_for_its_turn_belongs_to_that_turn() -> None:
    conversation = Conversation(answered("One."), answered("Two."))
    caller = Caller(conversation.ports)
    conversation.send("first", id="m1")
    conversation.send("second", id="m2")
    conversation.run()
    turns = caller.post(f"{URL}/fetch", {"materialize": True})["turns"]
    assert [
        one["message_id"] for turn in turns for one in turn["artifacts"] if one["type"] == "chat:user"
    ] == [
        "m1",
        "m2",
    ]


def test_texts_larger_than_one_answer_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    _, caller = talked()
    monkeypatch.setattr(project_conversations, "TEXT_MAX_CHARS", 5)
    assert caller.ask("POST", f"{URL}/fetch", {}).code == "limit_exceeded"


def test_turns_with_feedback_have_all_of_it_that_was_not_withdrawn() -> None:
    conversation, caller = talked(2)
    first, second = conversation.timeline().turns
    for opinion in (
        Feedback(at="", turn=first, reaction="ok", text="good"),
        Feedback(at="", turn=second, reaction="not_ok"),
        Feedback(at="", turn=second),
    ):
        submit_feedback(conversation.ports, History(), LANE, opinion, user=USER)
    (turn,) = caller.post(f"{URL}/turns-with-feedbacks", {})["turns"]
    assert (turn["turn_id"], turn["user"], turn["assistant"]) == (first, "question 0", "Answer 0.")
    assert [(one["reaction"], one["text"], one["origin"]) for one in turn["feedbacks"]] == [
        ("ok", "good", "user")
    ]
