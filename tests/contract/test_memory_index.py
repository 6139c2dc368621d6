"""What every memory index does with rows that it was given. What one adapter alone does is tested beside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.bootstrap.memory_wiring import in_memory
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryHits, MemoryIndex, MemoryQuery
from stepline.settings import Settings

SCOPE = MemoryScope(tenant="acme", project="support", user="ada")


def embedded() -> MemoryIndex:
    return EmbeddedMemoryIndex(in_memory(Settings.from_env({})).ports)


MAKERS: dict[str, Callable[[], MemoryIndex]] = {"embedded": embedded, "twin": MemoryMemoryIndex}
"""Each adapter, and how an empty one is made."""


def vectors() -> MemoryIndex:
    from stepline.adapters.s3_vectors.memory_index import S3VectorsMemoryIndex
    from tests.support.vector_service import BUCKET, MODEL

    return S3VectorsMemoryIndex(BUCKET, MODEL)


MAKERS["s3_vectors"] = vectors


@pytest.fixture(autouse=True)
def _vector_service() -> Iterator[None]:
    """An empty vector bucket for each test."""
    from tests.support.vector_service import vector_service

    with vector_service():
        yield


@pytest.fixture(params=sorted(MAKERS))
def index(request: pytest.FixtureRequest) -> MemoryIndex:
    return MAKERS[request.param]()


def row(text: str, number: int = 1, **fields: Any) -> MemoryRow:
    """Return an answer of a turn of its own."""
    turn = f"turn_{number:04}"
    known = {
        "conversation": "c-1",
        "turn": turn,
        "kind": "answer",
        "path": f"ar:{turn}.assistant.completion",
        "at": f"2026-11-{number:02}T10:00:00.000Z",
        "n": number,
    }
    return MemoryRow(**{**known, "text": text, **fields})


def search(index: MemoryIndex, text: str, **fields: Any) -> MemoryHits:
    return index.search(MemoryQuery(**{"scope": SCOPE, "text": text, **fields}))


def turns(found: MemoryHits) -> list[str]:
    return [hit.row.turn for hit in found.hits]


ANIMALS = [
    row("The otter sleeps on its back in the river.", 1),
    row("A heron stands in the reeds and waits for fish.", 2),
    row("Badgers dig their setts below the hedge.", 3),
]


def test_the_row_that_has_the_words_comes_first_and_comes_back_whole(index: MemoryIndex):
    index.add(SCOPE, ANIMALS)
    for given in ANIMALS:
        best = search(index, given.text).hits[0]
        assert best.row == given


def test_the_score_falls_from_hit_to_hit_and_a_similarity_is_a_cosine(index: MemoryIndex):
    index.add(SCOPE, ANIMALS)
    hits = search(index, "an otter in the river and a heron in the reeds").hits
    assert hits
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(-1 <= hit.similarity <= 1 for hit in hits if hit.similarity is not None)


@pytest.mark.parametrize("field", ["tenant", "project", "user"])
def test_no_search_sees_more_than_its_scope(index: MemoryIndex, field: str):
    index.add(SCOPE, ANIMALS)
    other = replace(SCOPE, **{field: f"{getattr(SCOPE, field)}0"})
    assert search(index, ANIMALS[0].text, scope=other).hits == ()
    index.add(other, [row("The otter belongs to another scope.", 9)])
    assert turns(search(index, "otter", scope=other)) == ["turn_0009"]
    assert "turn_0009" not in turns(search(index, "otter"))


def test_names_that_run_into_each_other_are_different_scopes(index: MemoryIndex):
    index.add(MemoryScope(tenant="a", project="b-c", user="d/e"), ANIMALS)
    for scope in (
        MemoryScope(tenant="a-b", project="c", user="d/e"),
        MemoryScope(tenant="a", project="b", user="c/d/e"),
        MemoryScope(tenant="a", project="b-c", user="d"),
        MemoryScope(tenant="a", project="b-c", user="D/E"),
    ):
        assert search(index, "otter", scope=scope).hits == ()


def test_one_conversation_is_searched_if_the_query_names_it(index: MemoryIndex):
    there = replace(ANIMALS[0], conversation="c-2")
    index.add(SCOPE, [*ANIMALS, there])
    assert {hit.row.conversation for hit in search(index, "otter river").hits} == {"c-1", "c-2"}
    assert [hit.row for hit in search(index, "otter river", conversation="c-2").hits] == [there]
    assert search(index, "otter river", conversation="c-3").hits == ()


def test_only_rows_of_the_kinds_are_found(index: MemoryIndex):
    note = row("The otter is a preference.", 4, kind="note", path="fi:turn_0004.outputs/n.md", tags=("P",))
    cover = row(
        "The otter slept.", 5, kind="range", path="su:turn_0005.conv.range.summary.1", covers=("turn_0001",)
    )
    index.add(SCOPE, [*ANIMALS, note, cover])
    assert [hit.row for hit in search(index, "otter", kinds=("note",)).hits] == [note]
    assert {hit.row.kind for hit in search(index, "otter", kinds=("note", "range")).hits} == {"note", "range"}
    assert search(index, "otter", kinds=("plan",)).hits == ()


def test_the_bounds_of_time_include_the_first_and_exclude_the_last(index: MemoryIndex):
    rows = [row(f"otter number {number}", number) for number in range(1, 6)]
    index.add(SCOPE, rows)
    found = search(index, "otter", since=rows[1].at, before=rows[3].at)
    assert sorted(turns(found)) == ["turn_0002", "turn_0003"]
    assert len(search(index, "otter", since=rows[3].at).hits) == 2
    assert len(search(index, "otter", before=rows[3].at).hits) == 3
    assert search(index, "otter", since="2027-01-01").hits == ()


def test_an_existing_row_is_replaced(index: MemoryIndex):
    old = row("The otter sleeps on its back.", 1)
    new = replace(old, text="A badger digs below the hedge.", n=2)
    index.add(SCOPE, [old, ANIMALS[1]])
    index.add(SCOPE, [new])
    assert [hit.row for hit in search(index, "badger hedge", limit=50).hits if hit.row.path == old.path] == [
        new
    ]
    assert old not in [hit.row for hit in search(index, "otter sleeps", limit=50).hits]


def test_the_parts_of_a_path_and_the_same_path_elsewhere_are_rows_of_their_own(index: MemoryIndex):
    rows = [row("otter one", 1), row("otter two", 1, part=1), row("otter three", 1, conversation="c-2")]
    index.add(SCOPE, rows)
    index.add(SCOPE, rows)
    found = [hit.row for hit in search(index, "otter", limit=50).hits]
    assert sorted(found, key=lambda one: one.text) == sorted(rows, key=lambda one: one.text)


def test_a_search_returns_at_most_the_requested_number_of_rows(index: MemoryIndex):
    index.add(SCOPE, [row(f"otter number {number}", number) for number in range(1, 21)])
    assert len(search(index, "otter number", limit=3).hits) == 3
    assert search(index, "otter number", limit=0).hits == ()
    assert len(search(index, "otter number", limit=1_000).hits) == 20


def test_a_search_orders_hits_regardless_of_the_order_of_rows(index: MemoryIndex):
    rows = [row("the same words everywhere", number) for number in range(1, 12)]
    index.add(SCOPE, rows)
    found = search(index, "the same words", limit=7)
    assert search(index, "the same words", limit=7) == found
    index.add(SCOPE, list(reversed(rows)))
    assert search(index, "the same words", limit=7) == found


@pytest.mark.parametrize("text", ["", "   ", "\n\t", "?!…", "---", "\x00", "\u200b"])
def test_a_query_without_words_finds_nothing(index: MemoryIndex, text: str):
    index.add(SCOPE, ANIMALS)
    assert search(index, text) == MemoryHits()


@pytest.mark.parametrize(
    "text", ["otter \ud800", "otter" * 50_000, "ÖTTER ötter", "otter \x00 \u202e", "水獺", "🦦 otter"]
)
def test_an_odd_query_is_answered(index: MemoryIndex, text: str):
    index.add(SCOPE, [*ANIMALS, row("水獺 在河裡睡覺", 4), row("", 5)])
    hits = search(index, text).hits
    assert len({(hit.row.path, hit.row.part) for hit in hits}) == len(hits)


def test_an_empty_index_finds_nothing_and_is_current(index: MemoryIndex):
    assert search(index, "otter") == MemoryHits()
    index.add(SCOPE, [])
    assert search(index, "otter") == MemoryHits()


def test_a_forgotten_conversation_is_found_no_more_and_all_others_are(index: MemoryIndex):
    other = replace(SCOPE, user="eve")
    index.add(SCOPE, [row("the secret harbour", 1), row("a harbour in spring", 2, conversation="c-2")])
    index.add(SCOPE, [row("the harbour of the north", 3), row("harbour lights", 4, conversation="c-10")])
    index.add(other, [row("a harbour of eve's", 1)])
    assert search(index, "harbour").hits
    assert index.forget(SCOPE, "c-1").rows == 2
    assert {hit.row.conversation for hit in search(index, "harbour").hits} == {"c-2", "c-10"}
    assert turns(search(index, "harbour", scope=other)) == ["turn_0001"]
    assert index.forget(SCOPE, "c-1").rows == 0


def test_more_rows_than_one_request_takes_are_forgotten(index: MemoryIndex):
    index.add(SCOPE, [row(f"harbour number {n}", 1, part=n) for n in range(600)])
    assert index.forget(SCOPE, "c-1").rows == 600
    assert search(index, "harbour").hits == ()
