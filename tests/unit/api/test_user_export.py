"""The export of a user: the pages in order have all data once, and no data of other users."""

import json
from typing import Any

import pytest

from stepline.api.tenancy import user_export
from stepline.ingress.admit import Arrival, admit
from stepline.model.batch import UNREADABLE
from stepline.model.ids import Lane
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called

WRITTEN = {"path": "outputs/a.md", "channel": "canvas", "content": "# A", "kind": "file"}


@pytest.fixture
def talk() -> Conversation:
    conversation = Conversation(
        called("react.write", WRITTEN), answered("One."), answered("Two."), answered("Three.")
    )
    for number in range(3):
        conversation.clock.pause(1)
        conversation.send(f"question {number}", id=f"m{number}")
        conversation.run()
    return conversation


def pages(caller: Caller) -> list[dict[str, Any]]:
    found = [caller.get("/v1/me/export")]
    while found[-1]["next"]:
        found.append(caller.get("/v1/me/export", after=found[-1]["next"]))
    return found


def begin(talk: Conversation, name: str, user: str) -> None:
    lane = Lane(tenant=LANE.tenant, project=LANE.project, conversation=name)
    admit(talk.ports, lane, Arrival(message_id=f"m-{name}", user=user, text=f"secret of {user}"))


def test_an_export_has_every_turn_with_memory_feedback_and_files(talk):
    ada = Caller(talk.ports)
    turn = talk.timeline().turns[0]
    ada.ask("PUT", f"/v1/conversations/{LANE.conversation}/turns/{turn}/feedback", {"reaction": "ok"})
    first, last = pages(ada)
    assert first["conversation"]["conversation"] == LANE.conversation
    kinds = [document["kind"] for document in first["documents"]]
    assert len(kinds) == 1 + len(talk.timeline().turns)
    assert {row["text"] for row in first["memory"]} >= {"question 0", "question 1", "question 2", "One."}
    assert [(said["turn_id"], said["reaction"]) for said in first["feedback"]] == [(turn, "ok")]
    assert [file["file"]["filename"] for file in first["files"]] == ["a.md"]
    assert all(file["url"] for file in first["files"])
    assert (last["conversation"], last["next"]) == (None, "")


def test_an_export_page_ends_after_a_turn_and_the_next_continues(talk, monkeypatch):
    monkeypatch.setattr(user_export, "TURNS_AT_ONCE", 1)
    found = pages(Caller(talk.ports))
    turns = [
        document["payload"]["turn_id"]
        for page in found
        for document in page["documents"]
        if "turn_id" in document["payload"]
    ]
    assert turns == list(talk.timeline().turns)
    assert len(found) == 4


def test_an_export_has_all_conversations_of_one_user_only(talk):
    for name, user in (("b-1", "bob"), ("a-2", "ada"), ("a-3", "ada")):
        talk.clock.pause(1)
        begin(talk, name, user)
    found = pages(Caller(talk.ports))
    named = [page["conversation"]["conversation"] for page in found if page["conversation"]]
    assert named == ["a-3", "a-2", LANE.conversation]
    assert "secret of bob" not in json.dumps(found)
    assert pages(Caller(talk.ports, user="eve"))[0]["conversation"] is None


def test_an_export_leaves_out_a_conversation_deleted_meanwhile(talk, monkeypatch):
    monkeypatch.setattr(user_export, "TURNS_AT_ONCE", 1)
    talk.clock.pause(1)
    begin(talk, "a-2", "ada")
    ada = Caller(talk.ports)
    page = ada.get("/v1/me/export")
    page = ada.get("/v1/me/export", after=page["next"])
    assert page["conversation"]["conversation"] == LANE.conversation
    ada.ask("DELETE", f"/v1/conversations/{LANE.conversation}")
    assert ada.get("/v1/me/export", after=page["next"])["conversation"] is None


def test_an_export_refuses_a_cursor_of_another_user_or_list(talk):
    cursor = Caller(talk.ports).get("/v1/me/export")["next"]
    for caller in (Caller(talk.ports, user="bob"), Caller(talk.ports, project="other")):
        answer = caller.ask("GET", "/v1/me/export", after=cursor)
        assert json.loads(answer.body)["code"] == "bad_cursor"


def test_a_batch_that_is_nested_too_deep_hides_nothing_else(talk):
    lane = LANE.key()
    stored = talk.ports.log.batches[lane]
    at = next(n for n, body in enumerate(stored) if b'"outputs/a.md"' in body)
    deep = b'{"a":' * 3_000 + b"1" + b"}" * 3_000
    stored[at] = stored[at].replace(b'"params":{', b'"params":{"odd":' + deep + b",", 1)
    ada = Caller(talk.ports)
    text = json.dumps(pages(ada))
    assert UNREADABLE in text
    assert all(said in text for said in ("question 0", "question 1", "question 2", "Three."))
    events = json.dumps(ada.get(f"/v1/conversations/{LANE.conversation}/log"))
    assert "question 2" in events
