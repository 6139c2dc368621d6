"""Browsers before the chat page of the stage under test."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.page.device import ARGUMENTS, Device


@pytest.fixture(scope="session")
def chromium():
    """The browser, one for all tests; each test has contexts of its own in it."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine (`apt-get install chromium`)")
    playwright = pytest.importorskip("playwright.sync_api", reason="install the extra `test`")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def open_device(chromium, scripted):
    """Open a device: a browser with cookies, a clock and a size of its own. Nothing that it reports may be left unread."""
    opened = []

    def open_one(**options):
        opened.append(Device(chromium, scripted, **options))
        return opened[-1]

    yield open_one
    for device in opened:
        device.close()
    for device in opened:
        device.check()


@pytest.fixture
def device(open_device):
    """A wide window, not yet signed in."""
    return open_device()


@pytest.fixture
def chat(device):
    """A new conversation of a fresh user."""
    device.sign_in()
    return device
