"""The data of forks and branches: erased, exported, rated, searched, hidden and counted beside those of their origin."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress.erase_user import LATE_S, erase_all
from stepline.log.erase_conversation import HUSK_S
from stepline.log.journal import Journal
from stepline.log.timeline_cache import History
from stepline.model.batch import State
from stepline.model.ids import Lane
from stepline.model.tenancy.limits import Scope, Used
from stepline.timeline.fold import Timeline
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called

ROOT = "/v1/conversations/c-1"
NAMES = ("c-1", "b-1", "f-1", "f-2")
"""A conversation, its branch, its fork, and the fork of that."""
WORDS = {"c-1": ("otter", "heron"), "b-1": ("lynx",), "f-1": ("newt",), "f-2": ("vole",)}
"""The words of the turns of each, without those of its origins: in the question, the answer and the file."""


def lane_named(name: str) -> Lane:
    return replace(LANE, conversation=name)


def wrote(name: str) -> str:
    content = f"# {name}"
    return called(
        "react.write", {"path": f"outputs/{name}.md", "channel": "canvas", "content": content, "kind": "file"}
    )


class Family:
    """A conversation of two turns, each of which writes a file, forked after the first; each fork writes one."""

    def __init__(self) -> None:
        self.talk = Conversation()
        self.ada = Caller(self.talk.ports)
        for word in WORDS["c-1"]:
            self.turn("c-1", word)
        first = self.timeline("c-1").turns[0]
        for name, origin, branch in (("b-1", "c-1", True), ("f-1", "c-1", False), ("f-2", "f-1", False)):
            turn = self.timeline(origin).turns[-1] if origin == "f-1" else first
            point = {"kind": "turn", "at": turn, "before": False}
            body = {"conversation": name, "point": point, "branch": branch}
            self.ada.post(f"/v1/conversations/{origin}/forks", body)
            self.turn(name, *WORDS[name])

    def turn(self, conversation: str, word: str) -> None:
        self.talk.clock.pause(1)
        self.talk.model.add(wrote(word), answered(f"The answer {word}."))
        self.talk.send(f"question {word}", id=f"m-{word}", lane=lane_named(conversation))
        self.talk.run()

    def timeline(self, conversation: str) -> Timeline:
        journal = Journal(self.talk.ports, lane_named(conversation), "test")
        return History().load(journal, consistent=True)

    def rate(self, conversation: str, turn: str, reaction: str | None) -> None:
        path = f"/v1/conversations/{conversation}/turns/{turn}/feedback"
        assert self.ada.ask("PUT", path, {"reaction": reaction}).status == 200

    def reactions(self, conversation: str) -> dict[str, str | None]:
        """Return the reaction to each turn of a conversation."""
        given = self.timeline(conversation).feedback.values()
        return {one.turn: one.reaction for one in given if not one.withdrawn}

    def kept(self) -> list[str]:
        """Return the names of objects and batches that are stored."""
        ports: Any = self.talk.ports
        rows = [key for key, batches in ports.log.batches.items() if any(batches)]
        return sorted([*rows, *ports.artifacts.objects])

    def erase(self) -> None:
        """Make passes until everything that was asked for is erased."""
        assert self.ada.erasing
        for _ in range(6):
            erase_all(self.ada.erasing, until_s=self.talk.clock.monotonic_s() + 100)
            self.talk.clock.pause(LATE_S + HUSK_S)

    def used(self) -> Used:
        scope = Scope(tenant=LANE.tenant, project=LANE.project, user=USER)
        (found,) = self.talk.ports.accounts.used([scope], self.talk.clock.now())
        return found

    def state(self, conversation: str) -> State:
        return self.timeline(conversation).state

    def files(self, conversation: str) -> list[str]:
        """Return the keys of the files of a conversation, also those of its origins."""
        return [block.body.key for block in self.timeline(conversation).blocks() if block.body]


@pytest.fixture
def family() -> Family:
    return Family()


def pages(family: Family) -> dict[str, list[dict[str, Any]]]:
    """Return the pages of the user's export by conversation."""
    found: dict[str, list[dict[str, Any]]] = {}
    page = family.ada.get("/v1/me/export")
    while page["conversation"]:
        found.setdefault(page["conversation"]["conversation"], []).append(page)
        page = family.ada.get("/v1/me/export", after=page["next"])
    return found


def test_a_user_is_erased_with_forks_and_branches_and_each_is_counted(family: Family) -> None:
    family.turn("c-1", "last")  # its origin is the first of the list
    family.ada.post("/v1/me/erasure", {})
    family.erase()
    answer = family.ada.get("/v1/me/erasure")
    assert (answer["state"], answer["conversations"]) == ("done", len(NAMES))
    assert family.kept() == []
    assert family.used().storage_bytes == 0


@pytest.mark.parametrize(
    ("erased", "cascade", "left"),
    [
        ("f-2", "", ("c-1", "b-1", "f-1")),
        ("b-1", "", ("c-1", "f-1", "f-2")),
        ("f-1", "true", ("c-1", "b-1")),
        ("c-1", "true", ()),
    ],
)
def test_a_fork_is_erased_with_its_own_batches_and_files_only(
    family: Family, erased: str, cascade: str, left: tuple[str, ...]
) -> None:
    files = {name: family.ada.get(f"/v1/conversations/{name}/export") for name in left}
    used = {name: family.state(name).stored_bytes for name in NAMES}
    assert family.used().storage_bytes == sum(used.values())
    query = {"cascade": cascade} if cascade else {}
    assert family.ada.ask("DELETE", f"/v1/conversations/{erased}", **query).status == 202
    family.erase()
    assert {name: family.ada.get(f"/v1/conversations/{name}/export") for name in left} == files
    prefixes = [lane_named(name).prefix() for name in NAMES if name not in left]
    assert not [key for key in family.kept() if any(prefix in key for prefix in prefixes)]
    for name in left:
        for file in family.files(name):
            assert family.talk.ports.artifacts.get(file)
    assert family.used().storage_bytes == sum(used[name] for name in left)


def test_an_export_has_the_memory_of_each_turn_once_and_a_fork_with_all_its_turns(family: Family) -> None:
    found = pages(family)
    for name in NAMES:
        memory = [row["text"] for page in found[name] for row in page["memory"]]
        assert memory == [
            text for word in WORDS[name] for text in (f"question {word}", f"The answer {word}.")
        ]
    shown = {
        name: [file["file"]["filename"] for page in found[name] for file in page["files"]] for name in NAMES
    }
    assert shown["f-2"] == ["otter.md", "newt.md", "vole.md"]
    assert shown["b-1"] == ["otter.md", "lynx.md"]


def test_a_search_finds_each_turn_in_the_conversation_in_which_it_was_spoken(family: Family) -> None:
    for name in NAMES:
        for word in WORDS[name]:
            items = family.ada.get("/v1/search", q=word)["items"]
            assert {item["conversation"] for item in items} == {name}


@pytest.mark.parametrize("reaction", ["ok", "not_ok", None])
def test_feedback_is_counted_where_it_was_given(family: Family, reaction: str | None) -> None:
    first = family.timeline("c-1").turns[0]
    family.rate("c-1", first, "ok")
    point = {"kind": "batch", "at": str(family.timeline("c-1").n), "before": False}
    family.ada.post("/v1/conversations/c-1/forks", {"conversation": "f-3", "point": point})
    assert family.reactions("f-3") == {first: "ok"}
    family.rate("f-3", first, reaction)
    family.turn("f-3", "toad")
    own = family.timeline("f-3").turns[-1]
    family.rate("f-3", own, "neutral")
    family.rate("c-1", family.timeline("c-1").turns[1], "ok")
    assert family.reactions("c-1") == dict.fromkeys(family.timeline("c-1").turns, "ok")
    assert family.reactions("f-3") == {first: reaction, own: "neutral"} if reaction else {own: "neutral"}
    given = 1 if reaction == "not_ok" else 0  # the same again is the origin's, and a withdrawal is none
    rates = family.ada.get("/v1/feedback", **{"from": "2026-01-01", "to": "2026-01-02"})["user"]
    assert (rates["ok"], rates["not_ok"], rates["neutral"]) == (2, given, 1)
