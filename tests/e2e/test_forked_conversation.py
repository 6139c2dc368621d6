"""Forks on the deployed stage: a branch and a fork go on beside their origin, and all of them are deleted together."""

from __future__ import annotations

import pytest

from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator


def test_a_branch_and_a_fork_go_on_beside_their_origin_and_are_deleted_with_it(scripted):
    first, edited, other = (a_word() for _ in range(3))
    origin = f"e2e-origin-{a_word()}"
    branch, fork = f"{origin}-b", f"{origin}-f"
    user, url = scripted.over_http(), f"/v1/conversations/{origin}"
    scripted.send("Hello.", origin)
    scripted.send(f"Explain the word {first}.", origin)
    frames = user.get(f"{url}/events")["events"]
    (message,) = {
        event["data"]["message_id"]
        for frame in frames
        for event in frame["events"]
        if event["type"] == "chat.conversation.accepted" and first in event["data"]["text"]
    }
    point = {"kind": "message", "at": message, "before": True}
    made = user.post(f"{url}/forks", {"conversation": branch, "point": point, "branch": True})
    assert (made["origin"], made["branch_of"]) == (origin, origin)
    own = user.post(f"{url}/forks", {"conversation": fork, "point": {"kind": "batch", "at": str(made["n"])}})
    assert own["title"].endswith("(fork)")

    scripted.send(f"Explain the word {edited}.", branch)
    scripted.send(f"Explain the word {other}.", fork)
    scripted.send("Thank you.", origin)
    texts = {name: str(user.get(f"/v1/conversations/{name}/events")) for name in (origin, branch, fork)}
    for name, word in ((origin, first), (branch, edited), (fork, other)):
        assert [one for one in (first, edited, other) if one in texts[name]] == [word]
        assert "Hello." in texts[name]
    tree = user.get(f"/v1/conversations/{branch}/branches")["items"]
    assert [one["conversation"] for one in tree] == [origin, branch]
    assert [one["conversation"] for one in user.get(f"{url}/forks")["items"]] == [fork]

    assert user.ask("DELETE", url).json()["code"] == "has_forks"
    assert user.ask("DELETE", url, params={"cascade": "true"}).status_code == 202
    assert user.get("/v1/conversations")["items"] == []
    for name in (origin, branch, fork):
        assert user.ask("GET", f"/v1/conversations/{name}/events").json()["code"] == "conversation_deleted"
