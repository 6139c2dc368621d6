"""SearXNG: a self-hosted metasearch engine, used by its address and without a key.

Its scores have no upper limit: a page's relevance is its share of the best page's score. It does not support a country,
and an instance must allow the format `json`. Source: docs.searxng.org, "Search API" and "settings.yml, search:
formats".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from stepline.adapters.web.search_api import SEARCH_UNAVAILABLE, TIMEOUT_S, SearchApi, decode_entities
from stepline.adapters.web.stated_time import read_time
from stepline.errors import DependencyError
from stepline.model.base import Value
from stepline.ports.search import Hit, SafeSearch, WebSearchQuery

_SAFE: Final[dict[SafeSearch, str]] = {"off": "0", "moderate": "1", "strict": "2"}


class _Result(Value):
    url: str | None = None
    title: str | None = None
    content: str | None = None
    score: float | None = None
    published: str | None = msgspec.field(default=None, name="publishedDate")
    author: str | None = None


class _Answer(Value):
    results: tuple[_Result, ...] = ()
    unresponsive_engines: tuple[Any, ...] = ()


class SearxngSearch:
    """Searches with an instance of SearXNG."""

    about = "the web, by the engines that an instance of SearXNG asks"

    def __init__(
        self,
        *,
        base_url: str,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Search at an address, which may be in this network, since the deployment chose it."""
        self._api = SearchApi("SearXNG", base_url, timeout_s=timeout_s, sleep=sleep)

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        fields = {"q": query.text.strip(), "format": "json", "safesearch": _SAFE[query.safesearch]}
        if not fields["q"]:
            return ()
        if query.freshness:
            fields["time_range"] = query.freshness
        answer = self._api.ask(_Answer, "/search", fields=fields)
        found = [result for result in answer.results if result.url]
        if not found and answer.unresponsive_engines:
            raise DependencyError("no engine answers SearXNG now", code=SEARCH_UNAVAILABLE)
        best = max((result.score or 0.0 for result in found), default=0.0)
        return tuple(_hit(result, best) for result in found[: query.n])


def _hit(result: _Result, best: float) -> Hit:
    return Hit(
        title=decode_entities(result.title) or str(result.url),
        url=str(result.url),
        text=decode_entities(result.content),
        published_time_iso=read_time(result.published),
        author=result.author or "",
        relevance=None if result.score is None or best <= 0 else round(max(0.0, result.score) / best, 3),
    )
