from __future__ import annotations

import json
from dataclasses import replace
from itertools import repeat

import pytest

from stepline.adapters.corpus import CorpusSearch
from stepline.errors import DependencyError, ToolError
from stepline.model.source import Source
from stepline.ports.search import Hit, WebSearchQuery
from stepline.protocol.citation.token import cited_sids
from stepline.tools.web.web_search import FILTERED, QUERIES_MAX, WEB_SEARCH, judge_by_words, run_search
from tests.unit.tools.conftest import TS, ToolConversation, read_status


class Engine:
    """Answers as configured, and remembers its queries."""

    about = "three pages in a test"

    def __init__(self, answers: dict[str, list[Hit]]) -> None:
        self.answers = answers
        self.asked: list[WebSearchQuery] = []

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        self.asked.append(query)
        return tuple(self.answers[query.text])[: query.n]


class Broken:
    about = "nothing"

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        raise DependencyError("no answer", code="engine_down")


def hit(name: str, relevance: float = 0.5, **fields: object) -> Hit:
    made = {
        "title": name,
        "url": f"https://e.example/{name}",
        "text": f"about {name}",
        "relevance": relevance,
    }
    return Hit(**{**made, **fields})


@pytest.fixture
def conversation() -> ToolConversation:
    return ToolConversation(search=CorpusSearch())


def search(conversation: ToolConversation, **params: object):
    return conversation.call("web_tools.web_search", params)


def test_search_results_have_numbers_that_a_text_can_cite(conversation):
    output = search(conversation, queries="prompt caching", n=3)
    status = read_status(output)
    first = status["results"][0]
    assert first["sid"] == 1
    assert first["title"] == "Prompt caching of language models"
    assert first["url"].startswith("https://")
    assert "cache" in first["text"]
    assert 0 < first["query_relevance"] <= 1
    assert first["authority"] == "web"
    assert first["fetched_time_iso"] == TS
    assert status["artifact_path"] == "so:sources_pool[{}]".format(
        ",".join(str(row["sid"]) for row in status["results"])
    )
    assert conversation.sources[1].content.startswith("Providers of language models")
    assert cited_sids("[[S:1]]") == (1,)


def test_the_model_reads_snippets_and_a_program_gets_the_whole_texts(conversation):
    output = search(conversation, queries="prompt caching", n=1)
    assert "content" not in read_status(output)["results"][0]
    (row,) = output.ret
    assert row["content"] == conversation.sources[1].content
    assert {"provider", "turn_id", "source_type"}.isdisjoint(row)


def test_a_page_found_again_keeps_its_number(conversation):
    search(conversation, queries="prompt caching", n=1)
    again = read_status(search(conversation, queries=["bm25", "prompt caching"], n=2))
    assert [row["sid"] for row in again["results"]] == [2, 1]


def test_queries_are_answered_in_turn_and_a_page_once():
    same = hit("b", 0.9, url="HTTPS://E.example:443/b/?utm_source=x")
    engine = Engine({"one": [hit("a"), hit("b", 0.2)], "two": [same, hit("c")]})
    output = search(ToolConversation(search=engine), queries=["one", "two", "one"], n=3)
    rows = read_status(output)["results"]
    assert [row["title"] for row in rows] == ["a", "b", "c"]
    assert [row["query_relevance"] for row in rows] == [0.5, 0.9, 0.5]
    assert [query.text for query in engine.asked] == ["one", "two"]


def test_the_models_parameters_reach_the_engine():
    engine = Engine({"q": []})
    search(
        ToolConversation(search=engine),
        queries="q",
        n=20,
        freshness="week",
        country="de",
        safesearch="off",
        objective="o",
    )
    (asked,) = engine.asked
    assert (asked.n, asked.freshness, asked.country, asked.safesearch) == (20, "week", "DE", "off")
    assert asked.at.isoformat() == "2026-11-21T10:15:03+00:00"


def test_a_page_is_judged_by_the_objective_where_the_engine_can(conversation):
    found = read_status(
        search(conversation, queries="prompt caching", objective="what a cached prompt costs")
    )
    judged = [row["objective_relevance"] for row in found["results"]]
    assert judged[0] == max(judged) > 0
    assert conversation.sources[1].objective_relevance == judged[0]
    unasked = read_status(search(conversation, queries="prompt caching"))["results"]
    assert all("objective_relevance" not in row for row in unasked)


def test_a_page_is_judged_by_the_words_of_the_objective_where_the_engine_cannot():
    pages = [
        hit("heron", text="What a nest of herons costs"),
        hit("otter", content="A nest."),
        hit("vole", objective_relevance=0.25),
    ]
    conversation = ToolConversation(search=Engine({"q": pages}))
    rows = read_status(search(conversation, queries="q", objective="What do nests of a heron cost?"))[
        "results"
    ]
    assert [row["objective_relevance"] for row in rows] == [1.0, 0.25, 0.25]
    assert [row.objective_relevance for row in conversation.sources.values()] == [1.0, 0.25, 0.25]


@pytest.mark.parametrize(
    ("objective", "text", "share"),
    [
        ("", "a", None),
        ("?! an", "an", None),
        ("the ÖRTE", "örte", 0.5),
        ("鷺の巣", "巣", 0.333),
        ("herons", "a heron", 1.0),
        ("heron", "x" * 30_000 + " heron", 0.0),
    ],
)
def test_the_share_of_the_words_is_the_relevance(objective, text, share):
    assert judge_by_words(objective, text) == share


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("search_key_refused", "search_key_refused"),
        ("search_key_missing", "search_key_missing"),
        ("search_rate_limited", "search_rate_limited"),
        ("search_malformed", "search_unavailable"),
    ],
)
def test_the_model_sees_which_refusal_needs_a_person(reason, code):
    class Refusing:
        about = "nothing"

        def search(self, query):
            raise DependencyError("no", code=reason)

    output = search(ToolConversation(search=Refusing()), queries="q")
    assert output.error["code"] == code


def test_an_empty_search_result_is_reported(conversation):
    output = search(conversation, queries="xyzzy quux")
    assert output.status == "ok"
    assert read_status(output) == {
        "status": "ok",
        "searched": CorpusSearch.about,
        "queries": ["xyzzy quux"],
        "results": [],
        "message": "nothing was found",
    }
    assert output.sources == ()


@pytest.mark.parametrize("engine", [None, Broken()])
def test_an_engine_that_does_not_answer_is_an_error_the_model_reads(engine):
    output = search(ToolConversation(search=engine), queries="q")
    assert output.error is not None
    assert output.error["code"] == "search_unavailable"
    assert [block.type for block in output.blocks] == ["react.notice", "react.tool.result"]


def test_clients_get_the_search_results(conversation):
    context = conversation.context("tc_000000000001")
    output = run_search({"queries": "prompt caching", "n": 1, "objective": "bills"}, context)
    (event,) = context.events
    assert event.type == FILTERED
    assert event.data["search_id"] == "tc_000000000001"
    assert event.data["queries"] == ["prompt caching"]
    assert event.data["objective"] == "bills"
    assert [row["sid"] for row in event.data["results"]] == [row.sid for row in output.sources]
    assert "content" not in event.data["results"][0]


def test_an_address_that_is_not_public_is_no_source():
    engine = Engine({"q": [hit("a", url="javascript:alert(1)"), hit("b", url="/b"), hit("c")]})
    output = search(ToolConversation(search=engine), queries="q")
    assert [row["title"] for row in read_status(output)["results"]] == ["c"]
    assert [row.title for row in output.sources] == ["c"]


def test_twenty_rows_are_short_enough_to_be_seen_whole():
    engine = Engine({"q": [hit(f"p{i}", text="word " * 400) for i in range(20)]})
    (block,) = search(ToolConversation(search=engine), queries="q", n=20).blocks
    assert len(json.loads(block.text)["results"]) == 20
    assert len(block.text) < 12_000
    assert block.meta["items_stats"]["items_count"] == 20
    assert block.meta["sources_used"] == list(range(1, 21))


def test_long_fields_of_an_engine_are_cut_everywhere():
    long = dict.fromkeys(("title", "text", "author", "mime", "published_time_iso"), "x" * 50000)
    rows = [
        hit(f"{'p' * 1_900}{i}", favicon_url="https://e.example/" + "f" * 9_000, **long) for i in range(20)
    ]
    context = ToolConversation(search=Engine({"q": rows})).context("tc_000000000001")
    output = run_search({"queries": "q", "n": 20}, context)
    assert len(json.loads(output.blocks[0].text)["results"]) == 20
    assert len(output.blocks[0].text) < 20_000
    assert len(json.dumps(context.events[0].data)) < 80_000
    assert all(len(row.author) <= 200 and not row.favicon_url for row in output.sources)
    assert [row["url"] for row in output.ret] == [row.url for row in output.sources]


@pytest.mark.parametrize(
    "url", ["https://\t/x", "https://e.example/" + "x" * 3_000, "https://a:8 0/", "https://e\x85/"]
)
def test_an_address_that_cannot_be_linked_to_is_left_out_and_the_others_stay(url):
    output = search(ToolConversation(search=Engine({"q": [hit("a", url=url), hit("b")]})), queries="q")
    assert [row.title for row in output.sources] == ["b"]


def test_the_result_names_the_searched_engine_to_the_model(conversation):
    assert "not the web" in read_status(search(conversation, queries="bm25"))["searched"]
    assert (
        read_status(search(ToolConversation(search=Engine({"q": []})), queries="q"))["searched"]
        == Engine.about
    )


def test_blanks_around_a_query_mean_nothing():
    engine = Engine({"q": []})
    search(ToolConversation(search=engine), queries=[" q", "q "])
    assert [query.text for query in engine.asked] == ["q"]


def test_rows_without_end_are_not_merged(conversation):
    context = conversation.context("tc_000000000001")
    with pytest.raises(ToolError, match="at most 5000 rows"):
        context.cite(repeat(Source(url="https://e.example/1")))
    assert context.sources.rows == {}


def test_one_call_cannot_flood_the_pool(conversation):
    context = conversation.context("tc_000000000001")
    with pytest.raises(Exception, match="at most 500 new sources"):
        context.cite(Source(url=f"https://e.example/{i}") for i in range(501))
    assert context.sources.rows == {}
    kept = context.cite(Source(url=f"https://e.example/{i}") for i in range(500))
    assert kept[0].turn_id == context.turn
    assert replace(context).cite(kept) == kept


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"queries": ""},
        {"queries": " "},
        {"queries": ["q", "\n"]},
        {"queries": []},
        {"queries": ["q"] * (QUERIES_MAX + 1)},
        {"queries": "q", "n": 0},
        {"queries": "q", "n": 21},
        {"queries": "q", "freshness": "decade"},
        {"queries": "q", "country": "Germany"},
        {"queries": "q", "provider": "brave"},
    ],
)
def test_a_call_that_breaks_the_contract_is_refused(params):
    assert WEB_SEARCH.validate(params)


def test_the_contract_says_how_it_may_be_used():
    assert WEB_SEARCH.in_react
    assert WEB_SEARCH.in_exec
    assert WEB_SEARCH.read_only
    assert (WEB_SEARCH.effect, WEB_SEARCH.strategies) == ("pure", ("exploration",))


# --- the user steers


class Steered:
    """A request to end early that arrives after `after` queries."""

    def __init__(self, engine: Engine, after: int) -> None:
        self._engine, self._after = engine, after

    @property
    def requested(self) -> bool:
        return len(self._engine.asked) >= self._after

    def wait(self, seconds: float) -> bool:
        return self.requested


def steered(after: int) -> tuple[ToolConversation, Engine]:
    engine = Engine({"a": [hit("one")], "b": [hit("two")], "c": [hit("three")]})
    return ToolConversation(search=engine, cancel=Steered(engine, after)), engine


@pytest.mark.parametrize("after", [1, 2])
def test_a_steered_search_keeps_its_results_so_far(after):
    conversation, engine = steered(after)
    output = search(conversation, queries=["a", "b", "c"])
    status = read_status(output)
    assert [query.text for query in engine.asked] == status["queries"] == ["a", "b", "c"][:after]
    assert [row["title"] for row in status["results"]] == ["one", "two"][:after]
    assert "steered" in status["message"]
    assert len(output.sources) == after


def test_a_search_with_all_queries_sent_is_not_cut_short():
    conversation, _ = steered(after=3)
    assert "message" not in read_status(search(conversation, queries=["a", "b", "c"]))


def test_a_search_without_any_sent_query_is_cancelled():
    conversation, engine = steered(after=0)
    output = search(conversation, queries=["a"])
    assert output.error is not None
    assert output.error["code"] == "cancelled"
    assert engine.asked == []
