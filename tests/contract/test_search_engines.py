"""The engines that are asked over HTTP: one suite over all, against a real server that plays the documented answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from stepline.adapters.web.brave import BraveSearch
from stepline.adapters.web.search_api import ANSWER_BYTES_MAX, TRIES
from stepline.adapters.web.searxng import SearxngSearch
from stepline.adapters.web.tavily import TavilySearch
from stepline.errors import DependencyError
from stepline.model.source import host_of, normalise_url
from stepline.ports.search import WebSearch, WebSearchQuery
from tests.support.web_server import WebServer, endless, reply, web_server

DATA = Path(__file__).parents[1] / "data/search"
AT = datetime(2026, 11, 22, tzinfo=UTC)
PATHS = {"brave": "/res/v1/web/search", "tavily": "/search", "searxng": "/search"}
KEYED = ("brave", "tavily")


@dataclass
class Played:
    """An engine, and the server that plays it. `paused` are the waits between its tries."""

    name: str
    server: WebServer
    engine: WebSearch
    said: dict[str, Any]
    paused: list[float] = field(default_factory=list)

    def plays(self, *answers: tuple[int, str] | tuple[int, str, dict[str, str]]) -> None:
        """Let the next requests be answered in turn, the last answer again and again."""
        left = list(answers)

        def answer(handler: Any) -> None:
            status, what, *more = left.pop(0) if len(left) > 1 else left[0]
            body = json.dumps(self.said[what]) if what in self.said else what
            reply(handler, body, mime="application/json", status=status, headers=more[0] if more else None)

        self.server.answers[PATHS[self.name]] = answer

    def search(self, text: str = "grey herons", **more: Any) -> Any:
        return self.engine.search(WebSearchQuery(text=text, at=AT, **more))

    def refusal(self) -> str:
        with pytest.raises(DependencyError) as refused:
            self.search()
        assert "k3y" not in str(refused.value)
        return refused.value.reason

    def asked(self) -> tuple[dict[str, Any], Any]:
        """Return the fields of the newest request, and its headers."""
        _, path, heads, body = self.server.requests[-1]
        sent = {name: value for name, (value,) in parse_qs(urlsplit(path).query).items()}
        return sent | (json.loads(body) if body else {}), heads


MAKE: dict[str, Callable[[str, list[float]], WebSearch]] = {
    "brave": lambda url, paused: BraveSearch(
        key=lambda: "k3y", base_url=url, sleep=paused.append, timeout_s=5
    ),
    "tavily": lambda url, paused: TavilySearch(
        key=lambda: "k3y", base_url=url, sleep=paused.append, timeout_s=5
    ),
    "searxng": lambda url, paused: SearxngSearch(base_url=f"{url}/", sleep=paused.append, timeout_s=5),
}


@pytest.fixture(params=MAKE)
def played(request) -> Iterator[Played]:
    with web_server("127.0.0.1") as server:
        paused: list[float] = []
        engine = MAKE[request.param](server.url(host="127.0.0.1", path=""), paused)
        said = json.loads((DATA / f"{request.param}.json").read_text())
        yield Played(request.param, server, engine, said, paused)


def test_hits_are_those_of_the_engine_best_first(played):
    played.plays((200, "found"))
    hits = played.search()
    assert [hit.url for hit in hits] == [
        "https://birds.example/grey-heron",
        "https://lake.example/counts",
        "https://old.example/herons",
    ]
    assert all(host_of(hit.url) and hit.title for hit in hits)
    assert len({normalise_url(hit.url) for hit in hits}) == len(hits)
    assert "nest in old trees" in hits[0].text
    assert "&" not in hits[0].text
    assert played.engine.about


def test_a_hit_has_the_time_and_relevance_that_the_engine_gives(played):
    played.plays((200, "found"))
    first, second, third = played.search()
    assert first.published_time_iso.startswith("2026-05-01T10:00:00")
    assert second.published_time_iso == third.published_time_iso == ""
    wanted = {"brave": [None] * 3, "tavily": [0.81025416, 0.62, 0.2], "searxng": [1.0, 0.25, 0.125]}
    assert [hit.relevance for hit in (first, second, third)] == wanted[played.name]
    assert {hit.objective_relevance for hit in (first, second, third)} == {None}


def test_a_search_returns_at_most_the_requested_number_of_hits(played):
    played.plays((200, "found"))
    assert len(played.search(n=1)) == 1


@pytest.mark.parametrize("text", ["", "  "])
def test_no_words_are_no_question(played, text):
    assert played.search(text) == ()
    assert played.server.requests == []


def test_an_empty_search_result_is_no_error(played):
    played.plays((200, "empty"))
    assert played.search("xyzzy") == ()


def test_a_query_reaches_the_engine_in_its_own_parameters(played):
    played.plays((200, "found"))
    played.search(n=5, freshness="week", country="DE", safesearch="strict")
    fields, heads = played.asked()
    wanted = {
        "brave": {
            "q": "grey herons",
            "count": "5",
            "freshness": "pw",
            "country": "DE",
            "safesearch": "strict",
        },
        "tavily": {"query": "grey herons", "max_results": 5, "time_range": "week"},
        "searxng": {"q": "grey herons", "format": "json", "time_range": "week", "safesearch": "2"},
    }[played.name]
    assert fields.items() >= wanted.items()
    key = {"brave": ("x-subscription-token", "k3y"), "tavily": ("authorization", "Bearer k3y")}
    assert heads.get(key.get(played.name, ("", ""))[0], "") == key.get(played.name, ("", ""))[1]
    played.search(country="XX")
    assert "country" not in played.asked()[0]


def test_a_long_query_is_one_that_brave_takes(played):
    played.plays((200, "empty"))
    played.search("word " * 79)
    fields, _ = played.asked()
    assert played.name != "brave" or len(fields["q"].split()) == 50


@pytest.mark.parametrize("status", [429, 500, 502, 503])
def test_an_engine_that_is_busy_is_asked_again(played, status):
    played.plays((status, "busy"), (status, "busy"), (200, "found"))
    assert len(played.search()) == 3
    assert len(played.paused) == TRIES - 1
    assert played.paused == sorted(played.paused)


def test_a_pause_that_the_engine_asks_for_is_kept_if_it_is_short(played):
    played.plays((429, "busy", {"Retry-After": "2"}), (200, "found"))
    assert len(played.search()) == 3
    assert played.paused == [2.0]
    played.plays((429, "busy", {"Retry-After": "3600"}))
    assert played.refusal() == "search_rate_limited"
    assert played.paused == [2.0]


@pytest.mark.parametrize(("status", "code"), [(429, "search_rate_limited"), (503, "search_unavailable")])
def test_an_engine_that_stays_busy_is_given_up(played, status, code):
    played.plays((status, "busy"))
    assert played.refusal() == code
    assert len(played.server.requests) == TRIES


def test_a_key_that_is_refused_has_its_own_code_and_is_not_tried_again(played):
    status = {"brave": 422, "tavily": 401, "searxng": 403}[played.name]
    played.plays((status, "bad_key"))
    assert played.refusal() == ("search_key_refused" if played.name in KEYED else "search_refused")
    assert len(played.server.requests) == 1


def test_a_request_that_is_refused_is_not_the_key_s_fault(played):
    played.plays((422 if played.name == "brave" else 400, "bad_request"))
    assert played.refusal() == "search_refused"


def test_a_plan_that_is_used_up_is_not_asked_again(played):
    played.plays((432, "busy"))
    assert played.refusal() == "search_rate_limited"
    assert len(played.server.requests) == 1


@pytest.mark.parametrize(
    "body", ["<html>", "[]", '{"web": 1, "results": 1}', "\ud83d".encode("utf-8", "replace").decode()]
)
def test_an_answer_of_another_shape_is_malformed(played, body):
    played.plays((200, body))
    assert played.refusal() == "search_malformed"


def test_an_answer_without_end_is_not_read_to_its_end(played):
    played.server.answers[PATHS[played.name]] = endless(b" " * 65_536, "application/json")
    assert played.refusal() == "search_malformed"
    assert ANSWER_BYTES_MAX < 8 * 1024 * 1024


def test_a_redirect_does_not_take_the_key_elsewhere(played):
    played.server.answers[PATHS[played.name]] = lambda handler: reply(
        handler, b"", status=302, headers={"Location": "/stolen"}
    )
    assert played.refusal() == "search_refused"
    assert [path.partition("?")[0] for _, path, *_ in played.server.requests] == [PATHS[played.name]]


@pytest.mark.parametrize("name", MAKE)
def test_an_engine_that_is_not_there_is_unavailable(name):
    with web_server("127.0.0.1") as server:
        url = server.url(host="127.0.0.1", path="")
    paused: list[float] = []
    for where in (url, "no address"):
        with pytest.raises(DependencyError) as refused:
            MAKE[name](where, paused).search(WebSearchQuery(text="q", at=AT))
        assert refused.value.reason == "search_unavailable"


@pytest.mark.parametrize("engine", [BraveSearch, TavilySearch])
def test_a_missing_key_is_reported_before_a_request(engine):
    with pytest.raises(DependencyError) as refused:
        engine(key=lambda: " ", base_url="http://127.0.0.1:9").search(WebSearchQuery(text="q", at=AT))
    assert refused.value.reason == "search_key_missing"


def test_an_instance_with_only_silent_engines_fails():
    with web_server("127.0.0.1") as server:
        body = {"results": [], "unresponsive_engines": [["brave", "too many requests"]]}
        server.says("/search", json.dumps(body), "application/json")
        with pytest.raises(DependencyError) as refused:
            MAKE["searxng"](server.url(host="127.0.0.1", path=""), []).search(WebSearchQuery(text="q", at=AT))
    assert refused.value.reason == "search_unavailable"
