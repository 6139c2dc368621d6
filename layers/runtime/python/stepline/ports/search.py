"""Looking something up: a search engine, whatever is behind it."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from stepline.model.base import Value

Freshness: TypeAlias = Literal["", "day", "week", "month", "year"]
SafeSearch: TypeAlias = Literal["off", "moderate", "strict"]


class SearchQuery(Value):
    """One query. `n` hits at most; `freshness` "" means of any age, and `country` "" of anywhere (ISO 3166, two letters).

    `at` is now: what is fresh is measured from there.
    """

    text: str
    at: datetime
    n: int = 8
    freshness: Freshness = ""
    country: str = ""
    safesearch: SafeSearch = "moderate"


class Hit(Value):
    """One page. `text` is a snippet, `content` its whole text if the engine has it; `relevance` is 0 to 1."""

    title: str
    url: str
    text: str
    content: str = ""
    mime: str = "text/html"
    published_time_iso: str = ""
    modified_time_iso: str = ""
    author: str = ""
    favicon_url: str = ""
    relevance: float | None = None


class WebSearch(Protocol):
    """A search engine. `about` says, in words for the model, what it searches and how new that is."""

    @property
    def about(self) -> str: ...

    def search(self, query: SearchQuery) -> tuple[Hit, ...]:
        """Return the best hits, best first; none for a query that finds nothing.

        Raises DependencyError if the engine cannot answer now.
        """
        ...
