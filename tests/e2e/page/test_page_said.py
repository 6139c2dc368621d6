"""What a screen reader hears of the chat page: one status, calm and newest first, one alert, and articles in a feed."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

from tests.e2e.stage import a_word
from tests.support.generation import answered, called, coded

pytestmark = pytest.mark.emulator

HEARD = """() => {
  window.heard = [];
  const status = document.querySelector("body [role=status].vh");
  new MutationObserver(() => heard.push([performance.now(), status.textContent]))
    .observe(status, { characterData: true, childList: true, subtree: true });
}"""
FOCUS = """() => {
  window.moved = 0;
  addEventListener("focusin", () => { window.moved += 1 });
}"""
EVERY_MS = 5000


@pytest.fixture
def timed(open_page):
    """The page of a new user, whose clock only moves when the test moves it."""
    chat = open_page()
    chat.page.clock.install()
    chat.sign_in()
    return chat


def status(chat):
    return chat.page.locator("[role=status].vh")


def let_work(chat, word):
    code = "import time; time.sleep(2); open('outputs/a.txt', 'w').write('a')"
    for text in (
        coded(code, "outputs/a.txt", notes="I compute."),
        called("react.memsearch", {"query": word}, notes="I read."),
        answered("It is\n\ndone now."),
    ):
        chat.stage.fault(kind="fixture", match=word, text=text)


def test_the_status_is_announced_at_most_every_five_seconds(timed):
    chat, word = timed, a_word()
    let_work(chat, word)
    expect(status(chat)).to_be_attached()
    chat.page.evaluate(HEARD)
    chat.field.focus()
    chat.page.evaluate(FOCUS)
    chat.page.keyboard.type(f"Work: {word}")
    chat.page.keyboard.press("Enter")
    expect(status(chat)).to_have_text("Working")
    for step in ("I compute.", "I read."):
        expect(chat.turns.last).to_contain_text(step)
        chat.page.clock.fast_forward(EVERY_MS)
        expect(status(chat)).to_have_text(re.compile("I compute|Running a program|I read"))
    chat.await_idle()
    chat.page.clock.fast_forward(EVERY_MS)
    expect(status(chat)).to_have_text(re.compile("^Answer, 4 words"))
    heard = [(at, text) for at, text in chat.page.evaluate("heard") if text]
    assert len({text for _, text in heard}) == len(heard)
    times = [at for at, _ in heard]
    assert all(later - at >= EVERY_MS - 100 for at, later in pairwise(times)), heard
    assert chat.page.evaluate("moved") == 0
    expect(chat.field).to_be_focused()


def test_the_thread_is_a_feed_of_articles_that_is_busy_while_it_grows_and_never_live(chat):
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=20)
    chat.say(f"Tell me about the word {word}.")
    chat.await_answer(word)
    feed = chat.page.get_by_role("feed")
    expect(feed).to_have_count(1)
    expect(feed).to_have_attribute("aria-busy", "true")
    live = feed.evaluate(
        "e => [e, ...e.querySelectorAll('*')].filter(n => n.getAttribute('aria-live') === 'assertive').length"
    )
    assert live == 0
    assert feed.get_attribute("aria-live") is None
    assert chat.page.locator("[role=log]").count() == 0
    expect(chat.page.get_by_role("article")).to_have_count(1)
    chat.await_idle()
    expect(feed).to_have_attribute("aria-busy", "false")
    article = chat.page.get_by_role("article")
    expect(article).to_have_attribute("aria-posinset", "1")
    expect(article).to_have_attribute("aria-setsize", "1")
    assert article.get_attribute("aria-label") or article.get_attribute("aria-labelledby")
    expect(chat.page.locator("[role=status].vh")).to_have_count(1)
    expect(chat.page.locator("[role=alert].vh")).to_have_count(1)


def test_a_refused_file_and_a_turn_that_fails_are_alerts(chat):
    file = {"name": "tool.exe", "mimeType": "application/octet-stream", "buffer": b"MZ\x90\x00" + bytes(60)}
    chat.page.locator("form.composer input[type=file]").set_input_files(file)
    expect(chat.page.locator("[role=alert].vh")).to_contain_text("tool.exe:")
    chat.page.get_by_role("button", name="Remove tool.exe").click()
    expect(chat.page.locator("[role=alert].vh")).to_be_empty()
    word = a_word()
    chat.stage.fault(kind="invalid_request", match=word, count=5)
    chat.take_turn(f"Fail: {word}")
    expect(chat.page.locator("[role=alert].vh")).not_to_be_empty()


def test_answers_are_read_when_complete_by_paragraph_or_not(timed):
    chat, word = timed, a_word()
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("radio", name="Off").click()
    chat.page.keyboard.press("Escape")
    chat.stage.fault(kind="fixture", match=word, text=answered("It is\n\ndone now."))
    chat.take_turn(f"Work: {word}")
    chat.page.clock.fast_forward(EVERY_MS)
    expect(status(chat)).to_have_text("Answer, 4 words")
