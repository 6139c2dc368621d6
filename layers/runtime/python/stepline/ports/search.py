"""The ports of the web: a search engine, and the pages themselves."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from stepline.model.base import Value

Freshness: TypeAlias = Literal["", "day", "week", "month", "year"]
SafeSearch: TypeAlias = Literal["off", "moderate", "strict"]


class WebSearchQuery(Value):
    """One query. `n` hits at most.

    `freshness` "" is any age, and `country` "" any country (ISO 3166, two letters). `objective` is the purpose of the
    query, in words, for an engine that can rate its hits by it.

    `at` is the current time, from which freshness is measured.
    """

    text: str
    at: datetime
    n: int = 8
    freshness: Freshness = ""
    country: str = ""
    safesearch: SafeSearch = "moderate"
    objective: str = ""


class Hit(Value):
    """One result page. `text` is a snippet, `content` the whole text if available.

    `relevance`, to the query, and `objective_relevance` are 0 to 1; None from an engine that does not report them.
    """

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
    objective_relevance: float | None = None


class WebSearch(Protocol):
    """A search engine. `about` describes its documents and their age for the model."""

    @property
    def about(self) -> str: ...

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        """Return the best hits, best first; none for a query without results.

        Raises DependencyError: the engine does not answer, or refuses our key; `reason` says which.
        """


class Page(Value):
    """One fetched page as readable text. `final_url` is the address after redirects.

    `truncated` is true if only the beginning of the page was read. All of its content is untrusted.
    """

    url: str
    final_url: str
    title: str
    text: str
    mime: str
    published_time_iso: str = ""
    author: str = ""
    truncated: bool = False


class WebPages(Protocol):
    """The public pages of the web."""

    def fetch(self, url: str) -> Page:
        """Return the page at an address.

        Raises ToolError with a code for the reason: the address is refused, no server answers, or the response is
        not a page. Source: docs/reference/errors.md.
        """
