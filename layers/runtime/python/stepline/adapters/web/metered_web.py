"""Searches and fetched pages, counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepline.metering.ledger import Ledger
    from stepline.ports.search import Hit, Page, WebPages, WebSearch, WebSearchQuery


class MeteredSearch:
    """A search engine that counts every query, answered or not."""

    def __init__(self, search: WebSearch, ledger: Ledger) -> None:
        self._search = search
        self._ledger = ledger

    @property
    def about(self) -> str:
        return self._search.about

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        self._ledger.count("searches")
        return self._search.search(query)


class MeteredPages:
    """Pages with every fetch counted, even a refused one."""

    def __init__(self, pages: WebPages, ledger: Ledger) -> None:
        self._pages = pages
        self._ledger = ledger

    def fetch(self, url: str) -> Page:
        self._ledger.count("fetches")
        return self._pages.fetch(url)
