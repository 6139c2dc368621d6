"""Browsers before the chat page of the stage under test."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.page.chat_page import ARGUMENTS, WAIT_S, ChatPage


@pytest.fixture(scope="session")
def chromium():
    """The browser, one for all tests; each test has contexts of its own in it."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (`apt-get install chromium`)")
    playwright = pytest.importorskip("playwright.sync_api", reason="install the extra `test`")
    playwright.expect.set_options(timeout=WAIT_S * 1000)
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(chromium, scripted):
    """Open the page in a browser with cookies, a clock and a size of its own, not yet signed in.

    At the end of the test nothing that these browsers reported may be left.
    """
    opened = []

    def open_one(**options):
        opened.append(ChatPage(chromium, scripted, **options))
        return opened[-1]

    yield open_one
    for page in opened:
        page.close()
    for page in opened:
        page.check()


@pytest.fixture
def chat(open_page):
    """The page of a fresh user who has signed in, without any conversation."""
    page = open_page()
    page.sign_in()
    return page
