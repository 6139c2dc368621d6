"""Brave Search: a search engine with its own index of the web, used with a key.

It reports no relevance; its order is the rank. Source: api-dashboard.search.brave.com, "Web search", "Query
parameters", "Country codes" and "Response objects".
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from stepline.adapters.web.search_api import TIMEOUT_S, SearchApi, decode_entities
from stepline.adapters.web.stated_time import read_time
from stepline.model.base import Value
from stepline.ports.search import Freshness, Hit, WebSearchQuery

BRAVE_URL: Final = "https://api.search.brave.com"
QUERY_WORDS: Final = 50
"""A query with more words is refused."""

_FRESHNESS: Final[dict[Freshness, str]] = {"day": "pd", "week": "pw", "month": "pm", "year": "py"}
_COUNTRIES: Final = frozenset(
    [
        *("AR", "AU", "AT", "BE", "BR", "CA", "CL", "DK", "FI", "FR", "DE", "GR", "HK", "IN", "ID", "IT"),
        *("JP", "KR", "MY", "MX", "NL", "NZ", "NO", "CN", "PL", "PT", "PH", "RU", "SA", "ZA", "ES", "SE"),
        *("CH", "TW", "TR", "GB", "US"),
    ]
)
"""The API refuses any other country, so it is omitted."""
_KEY_WORDS: Final = (b"SUBSCRIPTION_TOKEN", b"x-subscription-token")
"""A wrong or missing key is refused with 422, like a wrong parameter."""


class _Place(Value):
    favicon: str | None = None


class _Result(Value):
    url: str = ""
    title: str | None = None
    description: str | None = None
    extra_snippets: tuple[str, ...] | None = None
    page_age: str | None = None
    meta_url: _Place | None = None


class _Web(Value):
    results: tuple[_Result, ...] = ()


class _Answer(Value):
    web: _Web | None = None


class BraveSearch:
    """Searches with Brave's Web Search API."""

    about = "the web, by Brave Search"

    def __init__(
        self,
        *,
        key: Callable[[], str],
        base_url: str = BRAVE_URL,
        timeout_s: float = TIMEOUT_S,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Search with a key, which is read on the first search."""
        self._api = SearchApi("Brave Search", base_url, key=key, timeout_s=timeout_s, sleep=sleep)

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        fields = {
            "q": " ".join(query.text.split()[:QUERY_WORDS]),
            "count": str(query.n),
            "safesearch": query.safesearch,
            "result_filter": "web",
            "text_decorations": "false",
        }
        if not fields["q"]:
            return ()
        if query.freshness:
            fields["freshness"] = _FRESHNESS[query.freshness]
        if query.country in _COUNTRIES:
            fields["country"] = query.country
        answer = self._api.ask(
            _Answer,
            "/res/v1/web/search",
            headers={"x-subscription-token": self._api.key},
            fields=fields,
            key_words=_KEY_WORDS,
        )
        found = answer.web.results if answer.web else ()
        return tuple(_hit(result) for result in found if result.url)[: query.n]


def _hit(result: _Result) -> Hit:
    return Hit(
        title=decode_entities(result.title) or result.url,
        url=result.url,
        text="\n".join(map(decode_entities, (result.description, *(result.extra_snippets or ())))),
        published_time_iso=read_time(result.page_age),
        favicon_url=(result.meta_url.favicon or "") if result.meta_url else "",
    )
