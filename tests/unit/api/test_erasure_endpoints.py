"""Deletion over HTTP: the answers to the owner, before and after the content is erased, and to all others."""

import json

import pytest

from stepline.ingress.admit import Arrival, admit
from stepline.ingress.erase_user import ErasurePorts, erase_all
from stepline.ingress.message import receive
from stepline.model.ids import Lane
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

DAY_S = 86_400
HERE = f"/v1/conversations/{LANE.conversation}"
READS = (
    ("GET", HERE),
    ("GET", f"{HERE}/events"),
    ("GET", f"{HERE}/files"),
    ("GET", f"{HERE}/export"),
    ("GET", f"{HERE}/log"),
    ("GET", f"{HERE}/receipts"),
    ("GET", f"/conversations/{LANE.tenant}/{LANE.project}/{LANE.conversation}/status"),
)


@pytest.fixture
def talk() -> Conversation:
    conversation = Conversation(answered("Hello."), answered("And again."))
    conversation.send("hi")
    conversation.run()
    return conversation


def code_of(answer) -> str:
    return json.loads(answer.body).get("code", "")


def desk_of(caller: Caller) -> ErasurePorts:
    assert caller.erasing
    return caller.erasing


def erase(talk: Conversation, caller: Caller) -> dict[str, int]:
    return erase_all(desk_of(caller), until_s=talk.clock.monotonic_s() + 100)


def begin(talk: Conversation, lane: Lane, user: str) -> None:
    admit(talk.ports, lane, Arrival(message_id=f"m-{lane.conversation}", user=user, text="hello"))


def test_a_repeated_deletion_gets_the_same_answer(talk):
    ada = Caller(talk.ports)
    first = ada.ask("DELETE", HERE)
    assert first.status == 202
    assert ada.ask("DELETE", HERE).body == first.body == ada.ask("GET", f"{HERE}/erasure").body
    answer = json.loads(first.body)
    assert (answer["conversation"], answer["state"], answer["done_at"]) == (LANE.conversation, "pending", "")


def test_a_deletion_is_answered_after_the_erasure_is_done(talk):
    ada = Caller(talk.ports)
    first = json.loads(ada.ask("DELETE", HERE).body)
    assert erase(talk, ada) == {"conversations_pending": 1}
    talk.clock.pause(DAY_S + 1)
    assert erase(talk, ada) == {"conversations_done": 1}
    last = ada.ask("DELETE", HERE)
    answer = json.loads(last.body)
    assert last.status == 202
    assert (answer["state"], answer["deleted_at"]) == ("done", first["deleted_at"])
    assert answer["done_at"] > answer["deleted_at"]
    assert erase(talk, ada) == {}


@pytest.mark.parametrize("passes", [0, 1, 2], ids=["deleted", "erased", "nothing left"])
def test_only_the_owner_learns_that_a_conversation_was_deleted(talk, passes):
    ada, bob = Caller(talk.ports), Caller(talk.ports, user="bob", role="tenant_admin")
    ada.ask("DELETE", HERE)
    for _ in range(passes):
        erase(talk, ada)
        talk.clock.pause(DAY_S + 1)
    for method, path in READS:
        assert (path, code_of(ada.ask(method, path))) == (path, "conversation_deleted")
        assert (path, code_of(bob.ask(method, path))) == (path, "not_found")
    assert code_of(ada.ask("PATCH", HERE, {"title": "x"})) == "conversation_deleted"
    assert code_of(bob.ask("PATCH", HERE, {"title": "x"})) == "not_found"
    file = {"filename": "a.txt", "size_bytes": 3, "sha256": "0" * 64}
    assert code_of(ada.ask("POST", f"{HERE}/uploads", file)) == "conversation_deleted"
    assert code_of(bob.ask("POST", f"{HERE}/uploads", file)) == "not_found"
    assert code_of(bob.ask("DELETE", HERE)) == "not_found"
    assert code_of(bob.ask("GET", f"{HERE}/erasure")) == "not_found"
    assert ada.get("/v1/conversations")["items"] == []


@pytest.mark.parametrize("passes", [0, 1, 2], ids=["deleted", "erased", "nothing left"])
def test_a_message_to_a_deleted_conversation_is_refused(talk, passes):
    ada = Caller(talk.ports)
    ada.ask("DELETE", HERE)
    for _ in range(passes):
        erase(talk, ada)
        talk.clock.pause(DAY_S + 1)
    inbox, other = talk.connect("one"), talk.connect("two", user="bob")
    said = {"action": "send", "message_id": "m9", "conversation": LANE.conversation, "text": "again"}
    asked = {"action": "resume", "conversation": LANE.conversation, "after": 0}
    for message in (said, asked, {"action": "ping", "conversation": LANE.conversation}):
        receive(talk.ports, "one", json.dumps(message))
        assert json.loads(inbox[-1])["code"] == "conversation_deleted"
        receive(talk.ports, "two", json.dumps(message))
        assert json.loads(other[-1])["code"] == "not_found"


def test_an_unknown_conversation_cannot_be_deleted(talk):
    ada = Caller(talk.ports)
    for path in ("/v1/conversations/nobody", f"{HERE}/erasure", "/v1/me/erasure"):
        assert code_of(ada.ask("GET", path)) == "not_found"
    assert code_of(ada.ask("DELETE", "/v1/conversations/nobody")) == "not_found"
    assert ada.ask("GET", HERE).status == 200


def test_an_erasure_removes_all_data_of_one_user_only(talk):
    lane = Lane(tenant=LANE.tenant, project=LANE.project, conversation="of-bob")
    begin(talk, lane, "bob")
    talk.clock.pause(1)
    ada, bob = Caller(talk.ports), Caller(talk.ports, user="bob")
    first = json.loads(ada.ask("POST", "/v1/me/erasure").body)
    assert (first["user"], first["state"]) == (USER, "pending")
    talk.clock.pause(5)
    assert json.loads(ada.ask("POST", "/v1/me/erasure").body)["asked_at"] == first["asked_at"]
    erase(talk, ada)
    assert ada.get("/v1/conversations")["items"] == []
    assert ada.get("/v1/me/erasure")["conversations"] == 1
    talk.clock.pause(61)
    erase(talk, ada)
    assert ada.get("/v1/me/erasure")["state"] == "done"
    assert [row["conversation"] for row in bob.get("/v1/conversations")["items"]] == ["of-bob"]
    assert code_of(bob.ask("GET", "/v1/me/erasure")) == "not_found"


def test_an_erasure_keeps_conversations_that_begin_after_its_request(talk):
    ada = Caller(talk.ports)
    ada.ask("POST", "/v1/me/erasure")
    talk.clock.pause(1)
    lane = Lane(tenant=LANE.tenant, project=LANE.project, conversation="new")
    begin(talk, lane, USER)
    for _ in range(2):
        erase(talk, ada)
        talk.clock.pause(61)
    assert ada.get("/v1/me/erasure")["state"] == "done"
    assert [row["conversation"] for row in ada.get("/v1/conversations")["items"]] == ["new"]


def test_an_erased_users_connections_are_notified_and_closed_once(talk):
    inbox = talk.connect("one")
    receive(talk.ports, "one", json.dumps({"action": "watch"}))
    ada = Caller(talk.ports)
    ada.ask("POST", "/v1/me/erasure")
    erase(talk, ada)
    frames = [json.loads(frame) for frame in inbox]
    assert frames[-1]["code"] == "account_erased"
    fed = [event for frame in frames for event in frame.get("events", ()) if frame["frame"] == "feed"]
    assert [event["data"]["state"] for event in fed] == ["deleted"]
    assert talk.ports.subscriptions.principal("one") is None
    later = talk.connect("two")
    receive(talk.ports, "two", json.dumps({"action": "watch"}))
    talk.clock.pause(61)
    erase(talk, ada)
    assert [json.loads(frame)["frame"] for frame in later] == ["watching"]


@pytest.mark.parametrize(
    ("role", "project", "status"),
    [
        ("user", "support", 404),
        ("project_admin", "support", 202),
        ("project_admin", "other", 404),
        ("tenant_admin", "other", 202),
    ],
)
def test_admins_erase_the_users_of_their_project_or_tenant(talk, role, project, status):
    path = f"/v1/tenants/{LANE.tenant}/projects/{LANE.project}/users/{USER}/erasure"
    admin = Caller(talk.ports, user="root", project=project, role=role)
    assert admin.ask("POST", path).status == status
    assert admin.ask("GET", path).status == (200 if status == 202 else 404)
    foreign = Caller(talk.ports, user="root", tenant="evil", role="tenant_admin")
    assert foreign.ask("POST", path).status == 404


def test_an_erasure_pass_out_of_time_continues_in_the_next(talk):
    ada = Caller(talk.ports)
    ada.ask("POST", "/v1/me/erasure")
    assert erase_all(desk_of(ada), until_s=talk.clock.monotonic_s()) == {}
    erase(talk, ada)
    assert ada.get("/v1/conversations")["items"] == []
