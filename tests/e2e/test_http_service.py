"""The HTTP API on the stage: through the gateway and its authorizer, with real tokens, over a conversation that was held."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest
import requests

from stepline.model.wire.event import EventFrame, SyncFrame, encode_frame
from tests.e2e.http_user import TIMEOUT_S
from tests.e2e.stage import Stage, a_word

pytestmark = pytest.mark.emulator

PAGE = Path(__file__).parents[2] / "docs/reference/openapi.json"
PROBLEM = "application/problem+json"


class Held:
    """A conversation of three turns, the first of several rounds, and its user over HTTP."""

    def __init__(self, stage):
        self.stage, self.word = stage, a_word()
        self.conversation = f"e2e-{self.word}"
        self.url = f"/v1/conversations/{self.conversation}"
        self.older = f"/conversations/local/default/{self.conversation}"
        self.user = stage.over_http()
        plan = f"Make a plan with three steps, write it to a file with the word {self.word} in it and read it back."
        for text in (plan, "Thank you.", "Hello again."):
            stage.send(text, self.conversation)

    def rounds(self):
        return [one for turn in self.user.get(f"{self.url}/timeline")["turns"] for one in turn["rounds"]]


@pytest.fixture(scope="module")
def held(deployed):
    return Held(Stage(deployed))


def replayed(next_frame):
    """Return the frames of a replay up to its end."""
    frames = []
    while not isinstance(frame := next_frame(), SyncFrame):
        frames.append(frame)
    return frames


def test_the_description_that_is_served_is_the_one_of_the_pages(stage):
    assert stage.over_http().get("/v1/openapi.json") == json.loads(PAGE.read_text())


def test_a_conversation_is_listed_under_both_addresses(held):
    (row,) = held.user.get("/v1/conversations")["items"]
    assert (row["conversation"], row["state"], row["turns"]) == (held.conversation, "idle", 3)
    assert held.user.get(held.url) == row
    (older,) = held.user.get("/conversations/local/default")["items"]
    names = {"conversation_id": "conversation", "title": "title", "last_activity_at": "last_activity_at"}
    assert {name: older[name] for name in names} == {name: row[other] for name, other in names.items()}
    assert held.user.get(f"{held.older}/status")["state"] == "idle"
    details = held.user.get(f"{held.older}/details")
    assert [turn["turn_id"] for turn in details["turns"]] == [
        turn["turn_id"] for turn in held.user.get(f"{held.url}/timeline")["turns"]
    ]


def test_turns_are_fetched_with_their_texts_in_both_forms(held):
    fetched = held.user.post(f"{held.older}/fetch", {"materialize": True})
    named = {"materialize": True, "conversation_id": held.conversation}
    assert held.user.post("/conversations/local/default/fetch", named) == fetched
    said, answered = fetched["turns"][0]["artifacts"][0], fetched["turns"][0]["artifacts"][-1]
    assert (said["type"], held.word in said["data"]["text"]) == ("chat:user", True)
    assert (answered["type"], held.word in answered["data"]["text"]) == ("chat:assistant", True)


def test_pages_of_events_meet_and_are_the_frames_that_a_socket_replays(held):
    pages, before = [], 0
    while True:
        page = held.user.get(f"{held.url}/events", turns=1, before=before)
        pages.insert(0, page["events"])
        if not page["more"]:
            break
        before = page["first_n"]
    frames = list(itertools.chain.from_iterable(pages))
    assert len(pages) == 3
    assert [frame["prev"] for frame in frames] == [0, *(frame["n"] for frame in frames[:-1])]
    with held.stage.socket() as (socket, next_frame):
        socket.send(json.dumps({"action": "resume", "conversation": held.conversation, "after": 0}))
        events = [frame for frame in replayed(next_frame) if isinstance(frame, EventFrame)]
    assert frames == [json.loads(encode_frame(frame)) for frame in events]


def test_a_new_title_is_sent_on_the_socket_and_found_in_the_list(held):
    title = f"On {a_word()}"
    with held.stage.socket() as (socket, next_frame):
        socket.send(json.dumps({"action": "resume", "conversation": held.conversation, "after": 0}))
        replayed(next_frame)
        assert (
            held.user.ask("PATCH", held.url, json={"title": f"  {title.replace(' ', '   ')} "}).status_code
            == 204
        )
        heard = [event for event in next_frame().events if event.type == "chat.conversation.title"]
    assert [event.data["title"] for event in heard] == [title]
    (found,) = held.user.get("/v1/conversations", q=title.upper())["items"]
    assert (found["title"], held.user.get("/v1/conversations", q="another")["items"]) == (title, [])


def test_the_read_mark_is_sent_to_every_device_and_never_decreases(held):
    newest = held.user.get(f"{held.url}/events", turns=1)["events"][-1]["n"]
    assert held.user.get(held.url)["unread_n"] == 1
    for n, unread in ((1, 2), (newest, 0), (1, 0)):
        assert held.user.put(f"{held.url}/read", {"n": n}) is None
        assert held.stage.over_http().get(held.url)["unread_n"] == unread


def test_the_request_of_every_round_is_the_one_that_was_on_the_wire(scripted, held):
    rounds = held.rounds()
    wire = [
        request["body"] for request in scripted.model_requests(held.word) if "thinking" in request["body"]
    ]
    assert len(rounds) == len(wire) >= 5
    for shown, body in zip(rounds, wire, strict=True):
        view = held.user.get(f"{held.url}/requests/{shown['decided_n']}")
        sent = [*body["system"], *(part for message in body["messages"] for part in message["content"])]
        assert view["equal"]
        assert [(part["mark"], part["size_bytes"]) for part in view["parts"]] == [
            ("cache_control" in part, len(part["text"].encode())) for part in sent
        ]
        for part, on_wire in zip(view["parts"], sent, strict=True):
            text = "".join(piece["text"] for piece in part["pieces"])
            assert text == ("" if part["role"] == "system" else on_wire["text"])


def test_the_decision_the_log_and_the_cost_of_a_round_are_served(held):
    first, second = held.rounds()[:2]
    of = held.user
    diff = of.get(f"{held.url}/requests/{first['decided_n']}/diff", to=second["decided_n"])
    assert (diff["decided_n"], diff["to_n"]) == (first["decided_n"], second["decided_n"])
    assert of.get(f"{held.url}/decisions/{first['decided_n']}")["decision"]["action"] == "call_tool"
    log = of.get(f"{held.url}/log", limit=200)
    assert [batch["n"] for batch in log["batches"]] == list(range(1, len(log["batches"]) + 1))
    receipts = of.get(f"{held.url}/receipts")
    assert [len(turn["rounds"]) for turn in receipts["turns"]] == [
        len(turn["rounds"]) for turn in of.get(f"{held.url}/timeline")["turns"]
    ]
    assert held.word in json.dumps(of.get(f"{held.url}/export"))


@pytest.mark.parametrize(
    "stranger",
    [{"user": "mallory"}, {"tenant": "other"}, {"project": "other"}],
    ids=lambda other: next(iter(other)),
)
def test_a_foreign_resource_is_answered_like_an_absent_one(held, stranger):
    other = held.stage.over_http(**stranger)
    n = held.rounds()[0]["decided_n"]
    for path in ("", "/events", "/timeline", f"/requests/{n}", "/log", "/export", f"/uploads/up_{'0' * 32}"):
        foreign, absent = other.ask("GET", held.url + path), other.ask("GET", f"{held.url}x{path}")
        assert (foreign.status_code, foreign.headers["Content-Type"]) == (404, PROBLEM)
        assert foreign.content == absent.content
    assert other.ask("PATCH", held.url, json={"title": "Mine"}).status_code == 404
    assert other.ask("POST", f"{held.older}/fetch", json={}).json()["code"] == "not_found"
    assert other.get("/v1/conversations")["items"] == []


@pytest.mark.parametrize(
    ("method", "path", "sent", "refusal"),
    [
        ("GET", "/v1/nothing", {}, (404, "not_found")),
        ("GET", "/conversations/other/default", {}, (404, "not_found")),
        ("DELETE", "/v1/conversations", {}, (405, "method_not_allowed")),
        ("GET", "/v1/conversations?limit=0", {}, (400, "bad_message")),
        ("GET", "/v1/conversations?after=x", {}, (400, "bad_cursor")),
        ("GET", "/v1/conversations/not%20one", {}, (400, "bad_conversation")),
        ("PATCH", "/v1/conversations/c", {"data": b'{"title": "x"}'}, (415, "media_type")),
        ("PATCH", "/v1/conversations/c", {"json": {"title": ""}}, (400, "bad_message")),
        ("PATCH", "/v1/conversations/c", {"json": {"title": "x" * 300_000}}, (413, "limit_exceeded")),
    ],
)
def test_a_refusal_is_a_problem_with_a_stable_code(stage, method, path, sent, refusal):
    answer = stage.over_http().ask(method, path, **sent)
    assert (answer.status_code, answer.json()["code"]) == refusal
    assert (answer.headers["Content-Type"], answer.headers["Cache-Control"]) == (PROBLEM, "no-store")


@pytest.mark.parametrize("authorization", ["", "Bearer x.y.z", "Basic dTpw"])
def test_without_a_token_of_the_issuer_the_gateway_answers_itself(stage, authorization):
    described = json.loads(PAGE.read_text())["paths"]["/v1/conversations"]["get"]["responses"]
    for path in ("/v1/conversations", "/v1/nothing", "/conversations/local/default"):
        named = {"Authorization": authorization} if authorization else {}
        answer = requests.get(f"{stage.deployed.api_url}{path}", headers=named, timeout=TIMEOUT_S)
        assert answer.status_code == (403 if authorization else 401)
        assert "application/json" in described[str(answer.status_code)]["content"]
        assert answer.json().keys() == {"message"}


def test_an_expired_token_is_refused_and_an_address_outside_is_not_there(stage):
    assert stage.over_http(ttl_s=-10).ask("GET", "/v1/conversations").status_code == 403
    assert stage.over_http().ask("GET", "/v2/conversations").status_code == 404
