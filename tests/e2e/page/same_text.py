"""That a page shows a conversation as it is recorded: the same text as a page that is opened now, and each answer once."""

from __future__ import annotations

import re

from playwright.sync_api import expect

_SIGNS = re.compile(r"[\W_]+")


def check_same_text(chat, *others):
    """Assert that pages show the text that a page shows which is opened now, with the beginning of each recorded answer once."""
    fresh = chat.beside(chat.open_tab())
    fresh.page.goto(chat.page.url)
    fresh.await_idle()
    expected = fresh.thread_text()
    for one in (chat, *others):
        expect(one.feed).to_have_text(expected, use_inner_text=True)
    answers = [event["data"]["answer"] for event in chat.events() if event["type"] == "chat.complete"]
    begins = [bare(answer.partition("\n")[0]) for answer in answers]
    for begin in begins:
        assert bare(expected).count(begin) == begins.count(begin)
    fresh.page.close()


def bare(text):
    """Return the letters and digits of a text, which Markdown does not change."""
    return _SIGNS.sub("", text)
