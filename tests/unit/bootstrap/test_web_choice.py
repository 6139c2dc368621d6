"""The settings of the web: the engine, the source of its key, and a guard that no setting opens."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.adapters.corpus import CorpusPages, CorpusSearch
from stepline.adapters.web.address_guard import AddressGuard
from stepline.adapters.web.brave import BraveSearch
from stepline.adapters.web.page_fetch import PageFetcher
from stepline.adapters.web.searxng import SearxngSearch
from stepline.adapters.web.tavily import TavilySearch
from stepline.bootstrap.choice import PublicPages, pages_of, search_key, search_of, search_secrets
from stepline.errors import InputError, ToolError
from stepline.settings import Settings

KEYS = "search:\n  api_key: from-descriptors\n"


@pytest.mark.parametrize(
    ("fields", "engine"),
    [
        ({}, CorpusSearch),
        ({"search_provider": "brave"}, BraveSearch),
        ({"search_provider": "tavily"}, TavilySearch),
        ({"search_provider": "searxng", "search_url": "http://search.internal"}, SearxngSearch),
    ],
)
def test_the_engine_is_the_one_that_the_settings_name(fields: dict[str, Any], engine: type):
    assert isinstance(search_of(Settings(**fields)), engine)


def test_an_instance_without_an_address_is_a_wrong_setting():
    with pytest.raises(InputError) as refused:
        search_of(Settings(search_provider="searxng"))
    assert refused.value.reason == "bad_setting"


def test_the_key_is_the_setting_s_or_the_descriptors(tmp_path):
    (tmp_path / "secrets.yaml").write_text(KEYS)
    assert search_key(Settings()) == ""
    assert search_key(Settings(descriptors_dir=str(tmp_path))) == "from-descriptors"
    both = Settings(descriptors_dir=str(tmp_path), search_api_key="own")
    assert search_key(both) == "own"
    (tmp_path / "secrets.yaml").write_text("search: {}\n")
    assert search_key(Settings(descriptors_dir=str(tmp_path))) == ""


def test_a_task_is_handed_the_key_of_an_engine_that_has_one():
    assert search_secrets(Settings(search_api_key="k")) == {}
    assert search_secrets(Settings(search_api_key="k", search_provider="brave")) == {
        "STEPLINE_SEARCH_API_KEY": "k"
    }


def test_pages_of_the_collection_need_no_network_and_others_are_fetched():
    corpus = CorpusSearch()
    pages = pages_of(corpus)
    assert isinstance(pages, CorpusPages)
    (hit, *_) = corpus.search(query("prompt caching"))
    page = pages.fetch(f"{hit.url}/?utm_source=x")
    assert (page.title, page.text) == (hit.title, hit.content)
    with pytest.raises(ToolError) as refused:
        pages.fetch("http://169.254.169.254/")
    assert refused.value.reason == "address_refused"
    assert isinstance(pages_of(SearxngSearch(base_url="http://search.internal")), PublicPages)


def test_no_setting_opens_the_guard():
    assert PageFetcher().guard == AddressGuard()
    assert not [name for name in Settings.__struct_fields__ if "guard" in name or "allow_address" in name]
    for address in ("http://127.0.0.1/", "http://10.0.0.1/", "http://[::1]/"):
        with pytest.raises(ToolError) as refused:
            PublicPages().fetch(address)
        assert refused.value.reason == "address_refused"


def query(text: str):
    from datetime import UTC, datetime

    from stepline.ports.search import WebSearchQuery

    return WebSearchQuery(text=text, at=datetime(2026, 11, 22, tzinfo=UTC))
