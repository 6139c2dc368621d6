"""Forks over HTTP: a fork or a branch is made at a point, the trees and forks are listed, and deleted with the root."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress.delete import apply_deletion
from tests.support.api_caller import Caller, read
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered
from tests.unit.ingress.test_allow import set_limits

PLACE = f"/v1/conversations/{LANE.conversation}"


@pytest.fixture
def conversation() -> Conversation:
    talked = Conversation(*[answered(f"answer {n}") for n in range(6)])
    for text in ("one", "two"):
        talked.send(text, id=f"m-{text}")
        talked.run()
    return talked


@pytest.fixture
def caller(conversation: Conversation) -> Caller:
    return Caller(conversation.ports)


def wanted(name: str, kind: str, at: object, **about: Any) -> dict[str, Any]:
    point = {"kind": kind, "at": str(at), "before": about.pop("before", False)}
    return {"conversation": name, "point": point, **about}


def test_a_message_is_edited_in_a_branch(conversation: Conversation, caller: Caller) -> None:
    body = wanted("b-1", "message", "m-two", before=True, branch=True)
    made = caller.post(f"{PLACE}/forks", body)
    n = conversation.timeline().history[0].closed
    assert made == {"conversation": "b-1", "origin": "c-1", "n": n, "branch_of": "c-1", "title": "one"}
    assert caller.post(f"{PLACE}/forks", body) == made
    conversation.send("two, edited", id="m-edited", lane=replace(LANE, conversation="b-1"))
    conversation.run()
    trees = [caller.get(f"/v1/conversations/{name}/branches") for name in ("c-1", "b-1")]
    assert trees[0] == trees[1]
    assert trees[0]["more"] is False
    root, branch = trees[0]["items"]
    assert {name: root[name] for name in ("conversation", "origin", "n", "title")} == {
        "conversation": "c-1",
        "origin": "",
        "n": 0,
        "title": "one",
    }
    assert (branch["conversation"], branch["origin"], branch["n"]) == ("b-1", "c-1", n)
    rows = caller.get("/v1/conversations")["items"]
    assert {row["conversation"]: row["branch_of"] for row in rows} == {"c-1": "", "b-1": "c-1"}
    assert caller.get(f"{PLACE}/forks") == {"items": [], "more": False}


def test_a_page_of_a_forks_events_names_its_origin(conversation: Conversation, caller: Caller) -> None:
    assert caller.get(f"{PLACE}/events")["fork"] is None
    caller.post(f"{PLACE}/forks", wanted("f-1", "batch", 3))
    caller.post(f"{PLACE}/forks", wanted("b-1", "batch", 2, branch=True))
    fork = caller.get("/v1/conversations/f-1/events")
    assert fork["fork"] == {"origin": "c-1", "n": 3, "branch_of": ""}
    assert fork["turns_before"] == 0
    branch = caller.get("/v1/conversations/b-1/events")
    assert branch["fork"] == {"origin": "c-1", "n": 2, "branch_of": "c-1"}


def test_a_fork_has_a_title_of_its_own_and_is_listed_at_its_origin(caller: Caller) -> None:
    made = caller.post(f"{PLACE}/forks", wanted("f-1", "batch", 3, title=" Another\nway "))
    assert (made["branch_of"], made["title"]) == ("", "Another way")
    assert caller.post(f"{PLACE}/forks", wanted("f-2", "batch", 4))["title"] == "one (fork)"
    forks = caller.get(f"{PLACE}/forks")
    assert [(one["conversation"], one["n"], one["title"]) for one in forks["items"]] == [
        ("f-1", 3, "Another way"),
        ("f-2", 4, "one (fork)"),
    ]
    assert len(caller.get(f"{PLACE}/branches")["items"]) == 1


def test_the_title_of_a_branch_is_that_of_its_tree(caller: Caller) -> None:
    caller.post(f"{PLACE}/forks", wanted("b-1", "batch", 3, branch=True))
    caller.ask("PATCH", "/v1/conversations/b-1", {"title": "Numbers"})
    assert [one["title"] for one in caller.get(f"{PLACE}/branches")["items"]] == ["Numbers"] * 2


def test_a_conversation_is_deleted_with_its_branches_and_on_request_with_its_forks(caller: Caller) -> None:
    caller.post(f"{PLACE}/forks", wanted("b-1", "batch", 3, branch=True))
    caller.post("/v1/conversations/b-1/forks", wanted("f-1", "batch", 4))
    refused = caller.ask("DELETE", PLACE)
    assert (refused.status, refused.code) == (409, "has_forks")
    assert len(caller.get("/v1/conversations")["items"]) == 3
    deleted = read(caller.ask("DELETE", PLACE, cascade="true"))
    assert (deleted["conversation"], deleted["state"]) == ("c-1", "pending")
    assert caller.get("/v1/conversations")["items"] == []
    assert caller.ask("GET", f"{PLACE}/branches").code == "conversation_deleted"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (wanted("f-1", "batch", 99), 400, "fork_beyond_end"),
        (wanted("f-1", "batch", "x"), 404, "fork_point_not_found"),
        (wanted("f-1", "batch", 1, before=True), 404, "fork_point_not_found"),
        (wanted("f-1", "turn", "turn_none"), 404, "fork_point_not_found"),
        (wanted("f-1", "round", 1), 404, "fork_point_not_found"),
        (wanted("f-1", "message", "m-none"), 404, "fork_point_not_found"),
        (wanted("c-1", "batch", 1), 409, "conversation_exists"),
        (wanted("not a name", "batch", 1), 400, "bad_conversation"),
        (wanted("f-1", "day", 1), 400, "bad_message"),
        (wanted("f-1", "batch", 1, title=" \n"), 400, "bad_title"),
        (wanted("f-1", "batch", 1, title="x" * 200), 413, "limit_exceeded"),
        (wanted("f-1", "batch", 1, brunch=True), 400, "bad_message"),
    ],
)
def test_a_fork_that_cannot_be_made_is_refused_with_a_code(
    caller: Caller, body: dict[str, Any], status: int, code: str
) -> None:
    refused = caller.ask("POST", f"{PLACE}/forks", body)
    assert (refused.status, refused.code) == (status, code), json.loads(refused.body)
    assert caller.get(f"{PLACE}/forks")["items"] == []
    assert len(caller.get("/v1/conversations")["items"]) == 1


def test_the_name_of_a_deleted_conversation_is_taken(conversation: Conversation, caller: Caller) -> None:
    caller.post(f"{PLACE}/forks", wanted("f-1", "batch", 3))
    apply_deletion(conversation.ports, replace(LANE, conversation="f-1"), USER)
    refused = caller.ask("POST", f"{PLACE}/forks", wanted("f-1", "batch", 3))
    assert (refused.status, refused.code) == (409, "conversation_exists")


def test_a_deleted_conversation_and_anothers_are_not_forked(
    conversation: Conversation, caller: Caller
) -> None:
    stranger = Caller(conversation.ports, user="eve")
    assert stranger.ask("POST", f"{PLACE}/forks", wanted("f-1", "batch", 1)).code == "not_found"
    assert stranger.ask("GET", f"{PLACE}/branches").code == "not_found"
    apply_deletion(conversation.ports, LANE, USER)
    assert caller.ask("POST", f"{PLACE}/forks", wanted("f-1", "batch", 1)).code == "conversation_deleted"
    assert caller.ask("GET", f"{PLACE}/forks").code == "conversation_deleted"


def test_a_chain_of_forks_has_an_end(caller: Caller) -> None:
    origin, n = "c-1", 3
    for depth in range(16):
        made = caller.post(f"/v1/conversations/{origin}/forks", wanted(f"f-{depth}", "batch", n))
        origin, n = f"f-{depth}", made["n"] + 1
    refused = caller.ask("POST", f"/v1/conversations/{origin}/forks", wanted("f-16", "batch", n))
    assert (refused.status, refused.code) == (409, "fork_too_deep")


def test_an_unfinished_import_is_not_forked(conversation: Conversation, caller: Caller) -> None:
    tail = conversation.tail
    importing = replace(tail.state, importing=1)
    conversation.log.put(LANE, replace(tail, n=tail.n + 1, by="i", entries=(), state=importing))
    refused = caller.ask("POST", f"{PLACE}/forks", wanted("f-1", "batch", 3))
    assert (refused.status, refused.code) == (409, "import_unfinished")


@pytest.mark.parametrize(
    ("limits", "status", "code"),
    [
        ({"messages_per_minute": 1}, 429, "rate_limited"),
        ({"stopped": "maintenance"}, 403, "stopped"),
    ],
)
def test_a_fork_counts_for_limits_like_a_message(
    conversation: Conversation, caller: Caller, limits: dict[str, Any], status: int, code: str
) -> None:
    set_limits(conversation, **limits)
    if code == "rate_limited":
        caller.post(f"{PLACE}/forks", wanted("f-0", "batch", 3))
    refused = caller.ask("POST", f"{PLACE}/forks", wanted("f-1", "batch", 3))
    assert (refused.status, refused.code) == (status, code)
    assert [one["conversation"] for one in caller.get(f"{PLACE}/forks")["items"]] == (
        ["f-0"] if code == "rate_limited" else []
    )
