"""The chat page in Firefox: a turn, the keys of an input method, and paper."""

from __future__ import annotations

import shutil

import pytest

from tests.e2e.page.firefox import started
from tests.e2e.stage import a_word
from tests.support.generation import answered

pytestmark = pytest.mark.emulator

COMPOSED = """document.querySelector('#composer-field').dispatchEvent(
  new KeyboardEvent('keydown', {key: 'Enter', keyCode: 229, bubbles: true, cancelable: true}))"""
CODE_LINES = 90


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
