"""The port of a search engine."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from stepline.model.base import Value

Freshness: TypeAlias = Literal["", "day", "week", "month", "year"]
SafeSearch: TypeAlias = Literal["off", "moderate", "strict"]


class SearchQuery(Value):
    """One query. `n` hits at most.

    `freshness` "" is any age, and `country` "" any country (ISO 3166, two letters).

    `at` is the current time, from which freshness is measured.
    """

    text: str
    at: datetime
    n: int = 8
    freshness: Freshness = ""
    country: str = ""
    safesearch: SafeSearch = "moderate"


class Hit(Value):
    """One result page. `text` is a snippet, `content` its whole text if available; `relevance` is 0 to 1."""

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
    """A search engine. `about` describes, for the model, its documents and how recent they are."""

    @property
    def about(self) -> str: ...

    def search(self, query: SearchQuery) -> tuple[Hit, ...]:
        """Return the best hits, best first; none for a query without results.

        Raises DependencyError if the engine is temporarily unavailable.
        """
        ...
