from __future__ import annotations

from typing import Any

import pytest

from stepline.errors import DependencyError
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryHit, MemoryHits, MemoryQuery
from stepline.tools.memory.memsearch import MEMSEARCH, RESULT_CHARS
from stepline.tools.memory.recall import excerpt, recency

from .remembered_conversation import RememberedConversation, codes_of, elsewhere, turns_of

DAY = 86_400.0


@pytest.fixture
def conversation() -> RememberedConversation:
    return RememberedConversation()


class Answering:
    """An index that answers with what it is given, and keeps the query."""

    reads_logs = True

    def __init__(self, *hits: MemoryHit, behind: bool = False) -> None:
        self.hits, self.behind = hits, behind
        self.asked: list[MemoryQuery] = []

    def add(self, scope: MemoryScope, rows: Any) -> None:
        raise AssertionError("a search adds nothing")

    def search(self, query: MemoryQuery) -> MemoryHits:
        self.asked.append(query)
        return MemoryHits(hits=self.hits, behind=self.behind)


class Away:
    reads_logs = True

    def add(self, scope: MemoryScope, rows: Any) -> None:
        raise AssertionError("a search adds nothing")

    def search(self, query: MemoryQuery) -> MemoryHits:
        raise DependencyError("the index is away")


# --- semantic


def test_a_turn_is_found_by_its_text_and_its_paths_can_be_read(conversation):
    turn = conversation.turn("Which database shall we take?", "We take the blue elephant.")
    conversation.turn("And now lunch.", "Soup it is.")
    (hit,) = conversation.search(query="blue elephant")["hits"]
    assert hit["turn_id"] == turn
    assert hit["matched_via_role"] == "assistant"
    paths = [hit["turn_index_path"], hit["working_summary_path"], *(s["path"] for s in hit["snippets"])]
    read = conversation.call("react.read", {"paths": paths})
    assert read.status == "ok"
    assert '"missing"' not in read.blocks[0].text


def test_a_turn_is_one_hit_and_its_paths_are_named_once(conversation):
    turn = conversation.turn("otters and rivers", "otters swim in rivers")
    path = f"ar:{turn}.user.prompt"
    again = conversation.row(turn, path, "otters and more otters", kind="prompt")
    conversation.add(MemoryRow(**{**_fields(again), "part": 1}))
    (hit,) = conversation.search(query="otters rivers")["hits"]
    named = [snippet["path"] for snippet in hit["snippets"]]
    assert sorted(named) == [f"ar:{turn}.assistant.completion", path]


def test_only_the_targets_are_searched_and_notes_only_on_request(conversation):
    turn = conversation.turn("hello", "good day")
    path = f"ar:{turn}.react.notes.tc_1"
    conversation.add(conversation.row(turn, path, "the customer prefers tea", kind="note"))
    assert conversation.search(query="tea")["hits"] == []
    (hit,) = conversation.search(query="tea", targets=["notes"])["hits"]
    assert hit["snippets"][0]["role"] == "notes"
    assert conversation.search(query="hello", targets=["assistant"])["hits"] == []


def test_a_preview_is_short_and_shows_the_words_of_the_query(conversation):
    turn = conversation.turn("tell me all", "yes")
    long = "filler " * 200 + "the launch code is 4711 " + "filler " * 50
    conversation.add(conversation.row(turn, f"tc:{turn}.tc_1.result", long, kind="answer"))
    (hit,) = conversation.search(query="launch code")["hits"]
    (snippet,) = hit["snippets"]
    assert len(snippet["text"]) <= 500
    assert "4711" in snippet["text"]


def test_hits_in_one_text_are_one_snippet_in_the_order_of_the_text(conversation):
    turn = conversation.turn("tell me", "yes")
    path = f"ar:{turn}.react.notes.tc_1"
    texts = ["The heron is grey.", "It eats.", "A grey heron stands still."]
    rows = [conversation.row(turn, path, text, kind="note") for text in texts]
    conversation.add(*(MemoryRow(**{**_fields(row), "part": part}) for part, row in enumerate(rows)))
    (hit,) = conversation.search(query="a grey heron", targets=["notes"])["hits"]
    (snippet,) = hit["snippets"]
    assert snippet["text"] == "The heron is grey. … A grey heron stands still."


def test_a_turn_that_runs_in_another_conversation_has_no_summary_to_read(conversation):
    conversation.turn("hello", "good day")
    other = elsewhere("c-2")
    conversation.turn("otters", "they swim", lane=other)
    conversation.send("and then?", id="m99", lane=other)
    running = conversation.folded(other).turns[-1]
    path = f"su:{running}.conv.range.summary.1"
    conversation.add(conversation.row(running, path, "The heron is grey.", kind="range", lane=other))
    (hit,) = conversation.search(query="heron", scope="user")["hits"]
    assert hit["turn_id"] == running
    assert "working_summary_path" not in hit


def test_a_hit_that_the_model_sees_already_is_not_shown_again(conversation):
    turn = conversation.turn("otters", "they swim")
    (hit,) = conversation.search(query="swim otters", targets=["user"])["hits"]
    assert hit["snippets"] == [
        {
            "path": f"ar:{turn}.user.prompt",
            "role": "user",
            "ts": hit["snippets"][0]["ts"],
            "exists_in_visible_context": True,
        }
    ]


def test_the_newer_of_two_equal_hits_has_the_higher_score(conversation):
    old = conversation.turn("otters", "yes")
    conversation.clock.pause(14 * DAY)
    new = conversation.turn("otters", "yes")
    result = conversation.search(query="otters")
    assert turns_of(result) == [new, old]
    newer, older = result["hits"]
    assert older["recency_score"] == 0.25
    assert newer["score"] == pytest.approx(older["score"] * 2 / 1.25, abs=0.001)


def test_recency_halves_in_its_half_life():
    now = "2026-11-21T10:00:00.000Z"
    assert recency("2026-11-14T10:00:00.000Z", now) == pytest.approx(0.5)
    assert recency("2026-11-21T11:00:00.000Z", now) == 1.0  # a clock that is ahead
    assert recency("2026-11-20T10:00:00.000Z", now, 1.0) == pytest.approx(0.5)


def test_a_search_covers_a_year_by_default(conversation):
    turn = conversation.turn("otters", "yes")
    conversation.clock.pause(400 * DAY)
    assert conversation.search(query="otters")["hits"] == []
    assert turns_of(conversation.search(query="otters", days=500)) == [turn]


def test_bounds_narrow_a_search_and_have_other_names(conversation):
    first = conversation.turn("otters", "yes")
    conversation.clock.pause(10 * DAY)
    middle = conversation.clock.now().isoformat()
    second = conversation.turn("otters", "yes")
    assert turns_of(conversation.search(query="otters", **{"from": middle})) == [second]
    for name in ("to", "to_ts", "end", "end_at"):
        result = conversation.search(query="otters", **{name: middle})
        assert (result["mode"], turns_of(result)) == ("semantic", [first])


def test_the_query_is_cut_before_it_is_sent_to_the_index(conversation):
    conversation.turn("otters", "yes")
    conversation.memory = index = Answering()
    conversation.search(query="x" * 300, top_k=3)
    (asked,) = index.asked
    assert asked.text == "x" * 256
    assert asked.conversation == "c-1"
    assert asked.scope == MemoryScope(tenant="acme", project="support", user="ada")
    assert set(asked.kinds) == {"answer", "prompt", "event", "attachment", "summary", "range"}


def test_an_index_without_the_newest_turns_is_a_warning(conversation):
    conversation.turn("otters", "yes")
    conversation.memory = Answering(behind=True)
    result = conversation.search(query="otters")
    assert (result["hits"], codes_of(result)) == ([], ["index_behind"])


def test_an_index_that_does_not_answer_is_an_error_that_the_model_reads(conversation):
    conversation.turn("otters", "yes")
    conversation.memory = Away()
    assert conversation.refused(query="otters") == "memory_unavailable"
    conversation.memory = None
    assert conversation.refused(query="otters") == "memory_not_here"
    assert conversation.search(mode="timeline")["hits"]


def test_a_search_without_a_query_is_a_correctable_error(conversation):
    conversation.turn("otters", "yes")
    for params in ({}, {"query": " "}, {"mode": "semantic"}, {"mode": "best"}):
        assert conversation.refused(**params) == "missing_query"


def test_a_result_is_never_so_long_that_it_would_be_cut(conversation):
    turn = conversation.turn("otters", "yes")
    rows = [
        conversation.row(f"turn_{n}", f"ar:{turn}.react.notes.tc_{n}", f"otter {'x' * 400}", kind="note")
        for n in range(60)
    ]
    conversation.add(*rows)
    result = conversation.search(query="otter", targets=["notes"], top_k=60)
    assert codes_of(result) == ["hits_left_out"]
    assert 0 < len(result["hits"]) < 60
    assert len(str(result)) < RESULT_CHARS * 1.2


def test_a_part_of_a_text_begins_near_the_words(conversation):
    text = "a" * 1_000 + " needle " + "b" * 1_000
    part = excerpt(text, "needle", 100)
    assert len(part) <= 100
    assert (part[0], part[-1]) == ("…", "…")
    assert excerpt("short", "needle", 100) == "short"
    assert excerpt(text, "", 100) == "a" * 99 + "…"
    assert excerpt(text, "nothing", 100) == "a" * 99 + "…"


def test_the_parameters_are_in_the_documented_order():
    assert MEMSEARCH.documented[:2] == ("query", "targets")
    assert MEMSEARCH.key_order == ()


def _fields(row: MemoryRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}
