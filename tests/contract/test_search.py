"""The port WebSearch: promises of every search engine. Cases of one adapter are below."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stepline.adapters.corpus import (
    BUILT_IN,
    CORPUS_BYTES_MAX,
    SNIPPET_CHARS,
    CorpusSearch,
    cut_snippet,
    read_documents,
    split_words,
)
from stepline.errors import DependencyError
from stepline.model.source import host_of, normalise_url
from stepline.ports.search import WebSearch, WebSearchQuery

AT = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(params=["corpus"])
def engine(request) -> WebSearch:
    return {"corpus": CorpusSearch}[request.param]()


def ask(text: str, **fields: Any) -> WebSearchQuery:
    return WebSearchQuery(text=text, at=AT, **fields)


def test_hits_are_best_first_and_at_most_the_requested_number(engine):
    hits = engine.search(ask("dynamodb conditional write", n=3))
    assert len(hits) == 3
    assert [hit.relevance for hit in hits] == sorted((hit.relevance for hit in hits), reverse=True)
    assert all(0 < hit.relevance <= 1 for hit in hits)
    assert "Conditional writes" in hits[0].title
    assert len(engine.search(ask("dynamodb conditional write", n=1))) == 1
    assert engine.about


def test_every_hit_has_an_address_and_occurs_once(engine):
    hits = engine.search(ask("stepline aws lambda log prompt citations", n=20))
    assert all(host_of(hit.url) and hit.title and hit.text for hit in hits)
    assert len({normalise_url(hit.url) for hit in hits}) == len(hits)


@pytest.mark.parametrize("text", ["", "   ", "the of and", "xyzzy", "\x00", "((((", "a" * 5_000])
def test_a_query_without_matches_has_no_hits(engine, text):
    assert engine.search(ask(text)) == ()


def test_the_same_query_has_the_same_answer(engine):
    query = ask("how do agents stream and cite?", n=20)
    assert engine.search(query) == engine.search(query) == type(engine)().search(query)


@pytest.mark.parametrize(("freshness", "days"), [("day", 1), ("week", 7), ("month", 31), ("year", 366)])
def test_a_search_for_fresh_pages_finds_only_those(engine, freshness, days):
    hits = engine.search(ask("stepline dynamodb words", n=20, freshness=freshness))
    since = AT - timedelta(days=days)
    assert all(datetime.fromisoformat(hit.published_time_iso).replace(tzinfo=UTC) >= since for hit in hits)
    assert len(hits) < len(engine.search(ask("stepline dynamodb words", n=20)))


# --- the collection


def library(tmp_path: Path, *pages: dict[str, Any], name: str = "a.jsonl") -> Path:
    (tmp_path / name).write_text("".join(json.dumps(page) + "\n" for page in pages), encoding="utf-8")
    return tmp_path


def page(name: str, text: str = "words", **fields: Any) -> dict[str, Any]:
    return {"url": f"https://e.example/{name}", "title": name, "text": text, **fields}


def test_the_collection_that_comes_with_the_library_is_sound():
    pages = list(read_documents(BUILT_IN))
    assert len(pages) >= 30
    assert len({normalise_url(one.url) for one in pages}) == len(pages)
    assert all(one.published and 100 < len(one.text) < 4_000 for one in pages)


def test_a_collection_of_ones_own_is_a_folder_or_a_file(tmp_path):
    library(tmp_path, page("apples", "green apples"), page("pears"))
    library(tmp_path, page("apples", "red apples"), page("plums", "blue plums"), name="b.jsonl")
    (tmp_path / "notes.txt").write_text("no page")
    found = CorpusSearch(tmp_path).search(ask("apples"))
    assert [hit.content for hit in found] == ["red apples"]
    assert [hit.title for hit in CorpusSearch(tmp_path / "b.jsonl").search(ask("plum"))] == ["plums"]
    assert CorpusSearch(tmp_path / "b.jsonl").search(ask("pears")) == ()


def test_a_rare_word_weighs_more_than_a_common_one(tmp_path):
    pages = [page(f"p{i}", "stone water") for i in range(9)] + [page("rare", "stone zircon")]
    (best, *_) = CorpusSearch(library(tmp_path, *pages)).search(ask("stone zircon"))
    assert best.title == "rare"


def test_equal_pages_come_in_the_order_of_their_addresses(tmp_path):
    pages = [page(name, "same words") for name in ("c", "a", "b")]
    found = CorpusSearch(library(tmp_path, *pages)).search(ask("same"))
    assert [hit.title for hit in found] == ["a", "b", "c"]


def test_letters_with_marks_are_found_however_they_are_composed(tmp_path):
    place = library(tmp_path, page("a", "un cafe\u0301 fort"), page("b", "\uff42\uff4d\uff12\uff15"))
    engine = CorpusSearch(place)
    assert [hit.title for hit in engine.search(ask("CAF\u00c9"))] == ["a"]
    assert [hit.title for hit in engine.search(ask("bm25"))] == ["b"]


def test_a_collection_may_be_empty_or_begin_with_a_mark_of_its_encoding(tmp_path):
    (tmp_path / "a.jsonl").write_text("\n", encoding="utf-8")
    assert CorpusSearch(tmp_path).search(ask("a", freshness="day")) == ()
    (tmp_path / "a.jsonl").write_text(json.dumps(page("apple")) + "\n", encoding="utf-8-sig")
    assert [hit.title for hit in CorpusSearch(tmp_path).search(ask("apple"))] == ["apple"]


def test_a_collection_that_no_function_can_hold_is_refused_unread(tmp_path):
    with (tmp_path / "a.jsonl").open("wb") as file:
        file.truncate(CORPUS_BYTES_MAX + 1)
    with pytest.raises(DependencyError, match="too large") as refused:
        CorpusSearch(tmp_path).search(ask("a"))
    assert refused.value.reason == "corpus_unreadable"


def test_a_page_without_a_date_is_never_fresh(tmp_path):
    place = library(tmp_path, page("old", "apples"), page("new", "apples", published="2026-11-21T10:00:00Z"))
    assert [hit.title for hit in CorpusSearch(place).search(ask("apples", freshness="day"))] == ["new"]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"url": "https://e.example", "title": "a"}',
        '{"url": "javascript:alert(1)", "title": "a", "text": "b"}',
        '{"url": "https://e.example", "title": "a", "text": "b", "published": "soon"}',
        '{"url": 1, "title": "a", "text": "b"}',
    ],
)
def test_a_line_that_is_no_page_is_named(tmp_path, line):
    (tmp_path / "a.jsonl").write_text(f"{json.dumps(page('a'))}\n\n{line}\n")
    with pytest.raises(DependencyError, match=r"a\.jsonl, line 3") as refused:
        CorpusSearch(tmp_path).search(ask("a"))
    assert refused.value.reason == "corpus_unreadable"


def test_a_collection_that_is_not_there_is_a_service_that_does_not_answer(tmp_path):
    for place in (tmp_path, tmp_path / "missing.jsonl"):
        with pytest.raises(DependencyError) as refused:
            CorpusSearch(place).search(ask("a"))
        assert refused.value.reason == "corpus_unreadable"


def test_a_snippet_is_the_run_of_sentences_that_has_most_of_the_words():
    text = "Nothing here. " * 40 + "Apples are red. Pears are green. " + "And so on. " * 40
    snippet = cut_snippet(text, split_words("red apples and pears"))
    assert "Apples are red. Pears are green." in snippet
    assert len(snippet) <= SNIPPET_CHARS
    assert cut_snippet("x" * 900, ["x"]) == "x" * SNIPPET_CHARS
    assert cut_snippet("", ["x"]) == ""


def test_words_are_compared_in_lower_case_and_in_the_singular():
    assert split_words("Retries, QUERIES and the class of Lambdas: bus, analysis") == [
        *("retry", "query", "class", "lambda", "bus", "analysis")
    ]
