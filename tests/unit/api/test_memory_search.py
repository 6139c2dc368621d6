"""Search over HTTP: items with marked excerpts, pages of one ranking, and no data of other users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.api.memory_search import ROWS_MAX, WORD, mark_words
from stepline.errors import DependencyError
from stepline.model.memory_row import MemoryRow
from stepline.ports.memory_index import MemoryHit, MemoryHits, MemoryQuery
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered

PROJECT = f"/conversations/{LANE.tenant}/{LANE.project}/search"
DAY_S = 86_400.0


@pytest.fixture
def conversation() -> Conversation:
    found = Conversation(answered("The elephant is blue."), answered("Soup with a grey elephant."))
    for text in ("Which colour has the Elephant?", "And lunch?"):
        found.send(text, id=f"m{len(found.batches())}")
        found.run()
        found.clock.pause(DAY_S)
    return found


@pytest.fixture
def caller(conversation: Conversation) -> Caller:
    return Caller(conversation.ports)


class Answering:
    """An index that finds rows of one word each, and keeps the query."""

    reads_logs = True

    def __init__(self, at: str, count: int, *, stale: bool = False) -> None:
        self.at, self.count, self.stale = at, count, stale
        self.asked: list[MemoryQuery] = []

    def search(self, query: MemoryQuery) -> MemoryHits:
        self.asked.append(query)
        hits = [
            MemoryHit(
                row=MemoryRow(
                    conversation=LANE.conversation,
                    turn="turn_20260101T000000_000000",
                    kind="answer",
                    path=f"ar:{n}",
                    text=f"row {n}",
                    at=self.at,
                    n=n,
                ),
                score=1 / n,
            )
            for n in range(1, self.count + 1)
        ]
        return MemoryHits(hits=tuple(hits[: query.limit]), behind=self.stale)


def over(conversation: Conversation, index: Any) -> Caller:
    return Caller(replace(conversation.ports, memory=index))


def texts(page: Any) -> list[str]:
    return ["".join(piece["text"] for piece in item["excerpt"]) for item in page["items"]]


def test_a_search_finds_a_text_with_its_path_and_marked_words(
    conversation: Conversation, caller: Caller
) -> None:
    page = caller.get("/v1/search", q="ELEPHANT blue")
    turn = conversation.timeline().turns[0]
    first = page["items"][0]
    assert (first["conversation"], first["turn_id"], first["kind"]) == (LANE.conversation, turn, "assistant")
    assert first["excerpt"] == [
        {"text": "The ", "hit": False},
        {"text": "elephant", "hit": True},
        {"text": " is ", "hit": False},
        {"text": "blue", "hit": True},
        {"text": ".", "hit": False},
    ]
    assert first["n"] == conversation.timeline().history[0].closed
    assert (page["next"], page["behind"]) == ("", False)


def test_a_search_is_filtered_by_kind_conversation_and_time(
    conversation: Conversation, caller: Caller
) -> None:
    def found(**query: str) -> list[str]:
        return sorted(texts(caller.get("/v1/search", q="elephant", **query)))

    asked, blue, grey = (
        "Which colour has the Elephant?",
        "The elephant is blue.",
        "Soup with a grey elephant.",
    )
    assert found() == [grey, blue, asked]
    assert found(kind="user") == [asked]
    assert found(conversation=LANE.conversation, kind="assistant") == [grey, blue]
    second = conversation.timeline().history[1].started_at
    assert found(since=second) == [grey]
    assert found(before=second) == [blue, asked]


def test_a_search_never_finds_other_users_conversations(conversation: Conversation) -> None:
    for other in ({"user": "eve"}, {"tenant": "umbrella"}, {"project": "sales"}):
        stranger = Caller(conversation.ports, **other)
        assert stranger.get("/v1/search", q="elephant")["items"] == []


def test_pages_share_one_ranking_that_new_messages_do_not_shift(
    conversation: Conversation,
) -> None:
    index = Answering(conversation.clock.now().isoformat(), 5)
    caller = over(conversation, index)
    found, after = [], ""
    while True:
        page = caller.get("/v1/search", q="row", limit="2", after=after)
        found += texts(page)
        conversation.clock.pause(60)
        if not (after := page["next"]):
            break
    assert found == [f"row {n}" for n in range(1, 6)]
    assert len({query.before for query in index.asked}) == 1
    assert {query.limit for query in index.asked} == {ROWS_MAX}


@pytest.mark.parametrize("change", [{"q": "other"}, {"kind": "user"}, {"since": "2026-01-01"}])
def test_a_cursor_belongs_to_its_query(conversation: Conversation, change: dict[str, str]) -> None:
    caller = over(conversation, Answering(conversation.clock.now().isoformat(), 5))
    after = caller.get("/v1/search", q="row", limit="2")["next"]
    answer = caller.ask("GET", "/v1/search", None, **{"q": "row", "after": after, **change})
    assert (answer.status, answer.code) == (400, "bad_cursor")


def test_a_cursor_belongs_to_its_user(conversation: Conversation) -> None:
    index = Answering(conversation.clock.now().isoformat(), 5)
    after = over(conversation, index).get("/v1/search", q="row", limit="2")["next"]
    eve = Caller(replace(conversation.ports, memory=index), user="eve")
    assert eve.ask("GET", "/v1/search", None, q="row", after=after).code == "bad_cursor"


@pytest.mark.parametrize("after", ["x", "e30", "bnVsbA", "WyIiLDAsIiJd", "ä"])
def test_an_invalid_search_cursor_is_refused(caller: Caller, after: str) -> None:
    assert caller.ask("GET", "/v1/search", None, q="a", after=after).code == "bad_cursor"


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"q": " _!"}, "missing_query"),
        ({"q": ""}, "bad_message"),
        ({"q": "x" * 257}, "bad_message"),
        ({"q": "a", "since": "soon"}, "bad_message"),
        ({"q": "a", "kind": "secret"}, "bad_message"),
        ({"q": "a", "limit": "51"}, "bad_message"),
        ({"q": "a", "conversation": "../x"}, "bad_conversation"),
    ],
)
def test_a_bad_query_is_refused_by_its_code(caller: Caller, query: dict[str, str], code: str) -> None:
    answer = caller.ask("GET", "/v1/search", None, **query)
    assert (answer.status, answer.code) == (400, code)


def test_an_unavailable_index_is_a_failed_dependency(conversation: Conversation) -> None:
    class Away(Answering):
        def search(self, query: MemoryQuery) -> MemoryHits:
            raise DependencyError("away")

    answer = over(conversation, Away("", 0)).ask("GET", "/v1/search", None, q="a")
    assert (answer.status, answer.code) == (503, "dependency")


def test_without_an_index_there_is_no_search(conversation: Conversation) -> None:
    answer = over(conversation, None).ask("GET", "/v1/search", None, q="a")
    assert (answer.status, answer.code) == (404, "not_found")


def test_the_older_spelling_finds_the_same(conversation: Conversation, caller: Caller) -> None:
    answer = caller.post(PROJECT, {"query": "elephant", "targets": ["assistant"]})
    assert [hit["text"] for hit in answer["hits"]] == texts(
        caller.get("/v1/search", q="elephant", kind="assistant")
    )
    assert answer["user_id"] == USER
    row = caller.get(f"/v1/conversations/{LANE.conversation}")
    title, last = row["title"], row["last_activity_at"]
    assert answer["conversations"] == {LANE.conversation: {"title": title, "last_activity_at": last}}
    assert (answer["effective_mode"], answer["warnings"]) == ("semantic", [])


def test_recency_counts_as_much_as_its_weight_says(caller: Caller) -> None:
    def best(recency: float) -> str:
        body = {"query": "elephant", "targets": ["assistant"], "weights": {"recency": recency}}
        return caller.post(PROJECT, body)["hits"][0]["text"]

    assert best(2) == "Soup with a grey elephant."
    scores = [
        hit["score"] for hit in caller.post(PROJECT, {"query": "elephant", "weights": {"recency": 0}})["hits"]
    ]
    assert len(set(scores)) == 1


def test_unsupported_weights_and_missed_turns_are_warnings(
    conversation: Conversation,
) -> None:
    caller = over(conversation, Answering(conversation.clock.now().isoformat(), 1, stale=True))
    body = {"query": "row", "weights": {"semantic": 2, "lexical": 0}}
    assert caller.post(PROJECT, body)["warnings"] == ["weights_not_taken", "index_behind"]
    assert caller.get("/v1/search", q="row")["behind"]


def test_a_search_of_one_conversation_needs_its_id(caller: Caller) -> None:
    answer = caller.ask("POST", PROJECT, {"query": "a", "scope": "conversation"})
    assert (answer.status, answer.code) == (400, "bad_conversation")


def test_a_search_result_contains_no_markup(conversation: Conversation) -> None:
    pieces = mark_words("<b>cat</b> & cats, CAT_1", "cat b <mark>")
    assert [(piece.text, piece.hit) for piece in pieces] == [
        ("<", False),
        ("b", True),
        (">", False),
        ("cat", True),
        ("</", False),
        ("b", True),
        ("> & cats, ", False),
        ("CAT", True),
        ("_1", False),
    ]


@given(st.text(max_size=200), st.text(max_size=50))
def test_an_excerpt_in_pieces_is_the_whole_excerpt(text: str, query: str) -> None:
    pieces = mark_words(text, query)
    assert "".join(piece.text for piece in pieces) == text
    assert all(piece.text for piece in pieces)
    words = {word.casefold() for word in WORD.findall(query)}
    assert all((piece.text.casefold() in words) or not piece.hit for piece in pieces)
