"""Tavily: a web search engine for agents, used with a key; it scores each page for the query.

Requests have no country, which the API expects by name, and no safe search, which only some plans support. Source:
docs.tavily.com, "Tavily Search".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from stepline.adapters.web.search_api import TIMEOUT_S, SearchApi, decode_entities
from stepline.adapters.web.stated_time import read_time
from stepline.model.base import Value
from stepline.ports.search import Hit, WebSearchQuery

TAVILY_URL: Final = "https://api.tavily.com"


class _Result(Value):
    url: str = ""
    title: str | None = None
    content: str | None = None
    raw_content: str | None = None
    score: float | None = None
    published_date: str | None = None
    favicon: str | None = None


class _Answer(Value):
    results: tuple[_Result, ...] = ()


class TavilySearch:
    """Searches with Tavily's API."""

    about = "the web, by Tavily"

    def __init__(
        self,
        *,
        key: Callable[[], str],
        base_url: str = TAVILY_URL,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Search with a key, which is read on the first search."""
        self._api = SearchApi("Tavily", base_url, key=key, timeout_s=timeout_s, sleep=sleep)

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        body: dict[str, Any] = {
            "query": query.text.strip(),
            "max_results": query.n,
            "search_depth": "basic",
            "include_favicon": True,
        }
        if not body["query"]:
            return ()
        if query.freshness:
            body["time_range"] = query.freshness
        headers = {"authorization": f"Bearer {self._api.key}"}
        answer = self._api.ask(_Answer, "/search", headers=headers, body=body)
        return tuple(_hit(result) for result in answer.results if result.url)[: query.n]


def _hit(result: _Result) -> Hit:
    return Hit(
        title=decode_entities(result.title) or result.url,
        url=result.url,
        text=decode_entities(result.content),
        content=result.raw_content or "",
        published_time_iso=read_time(result.published_date),
        favicon_url=result.favicon or "",
        relevance=None if result.score is None else min(1.0, max(0.0, result.score)),
    )
