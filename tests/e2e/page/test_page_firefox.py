"""The chat page in Firefox: a turn, the keys of an input method, paper, a busy provider and a lost sign-in."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.page.chat_page import TURN_S
from tests.e2e.page.firefox import ENTER, started
from tests.e2e.stage import a_word
from tests.support.generation import answered

pytestmark = pytest.mark.emulator

COMPOSED = """document.querySelector('#composer-field').dispatchEvent(
  new KeyboardEvent('keydown', {key: 'Enter', keyCode: 229, bubbles: true, cancelable: true}))"""
CODE_LINES = 90
REFUSE_TO_RENAME = """(() => {
  const ask = window.fetch;
  window.refusing = true;
  window.fetch = (url, request) => request?.method === 'PATCH'
    ? Promise.resolve(new Response('{}', {status: 401})) : ask(url, request);
})()"""


@pytest.fixture
def firefox(scripted, tmp_path):
    """Firefox before the page of a fresh user, who has signed in."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    if path is None:
        pytest.skip("no Firefox on this machine (`apt-get install firefox-esr`)")
    with started(path, tmp_path) as browser:
        browser.sign_in(scripted.deployed, scripted.user)
        yield browser


def test_firefox_sends_no_composed_text_and_prints_the_whole_conversation(firefox, scripted):
    words = [a_word() for _ in range(2)]
    code = "\n".join(f"line {at} of {words[0]}" for at in range(CODE_LINES))
    table = "| City | People |\n|---|---|\n| Straßenverkehrsamt | 1,234,567.89 |"
    scripted.fault(
        kind="fixture", match=words[0], text=answered(f"{table}\n\n```text\n{code}\n```"), token_delay_ms=0
    )
    scripted.fault(kind="fixture", match=words[1], text=answered(f"The end of {words[1]}."), token_delay_ms=0)
    firefox.type("#composer-field", f"Show {words[0]}.")
    firefox.evaluate(COMPOSED)
    assert firefox.evaluate("document.querySelector('#composer-field').value") == f"Show {words[0]}."
    firefox.take_turn("")
    firefox.take_turn(f"And {words[1]}?")
    paper = firefox.print()
    assert [at for at in range(CODE_LINES) if f"line {at} of {words[0]}" not in paper] == []
    assert "1,234,567.89" in paper
    assert f"The end of {words[1]}." in paper


def test_firefox_shows_a_busy_provider_and_keeps_the_draft_through_a_refused_token(firefox, scripted):
    word = a_word()
    scripted.fault(kind="overloaded", match=word, retry_after_s=20)
    firefox.type("#composer-field", f"Say {word}.")
    firefox.press(ENTER)
    firefox.wait_for(
        "/busy, retrying in \\d+ s \\(attempt 2 of 4\\)/.test(document.querySelector('.readout').innerText)"
    )
    firefox.wait_for("/idle/.test(document.querySelector('.readout').innerText)", TURN_S)
    firefox.type("#composer-field", "My draft.")
    firefox.evaluate(REFUSE_TO_RENAME)
    firefox.click("More")
    firefox.click("Rename")
    firefox.wait_for("document.activeElement.matches('input')")
    firefox.press("A", ENTER)
    firefox.click("Sign in again")
    firefox.wait_for(
        "!window.refusing && document.querySelector('#composer-field')?.value === 'My draft.'", TURN_S
    )
    firefox.wait_for("document.querySelector('article.turn[id]') !== null")
    assert firefox.evaluate("document.querySelectorAll('article.turn[id]').length") == 1
    assert not firefox.evaluate("document.body.innerText.includes('You are signed out.')")
