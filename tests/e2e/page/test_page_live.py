"""The three acts on the chat page while a turn runs: add, redirect, stop; and what is handed back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import BRIEF
from tests.e2e.page.same_text import check_same_text
from tests.e2e.session_client import Device
from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator

ASKED = "Tell me about the word {word}."
BRISK_MS, SLOW_MS = 15, 60


@pytest.fixture
def slow(scripted):
    """Lets the model write slowly about a new word, the first time it is asked."""

    def begin(delay_ms):
        word = a_word()
        scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=delay_ms)
        return word

    return begin


def foot_of(turn):
    return turn.locator(".foot")


def test_a_message_added_while_the_model_writes_is_read_by_the_next_round(chat, slow):
    word, other = slow(BRISK_MS), a_word()
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    chat.say(f"And the word {other}?")
    expect(chat.line_of(other)).to_contain_text("waits for round 2")
    chat.await_idle()
    turn = chat.turns.last
    expect(chat.turns).to_have_count(1)
    expect(chat.line_of(other)).to_contain_text("read in round 2")
    deferred = turn.locator("li.deferred")
    expect(deferred).to_contain_text("written before the agent read")
    assert other in chat.answer_of(turn)
    check_same_text(chat)
    deferred.get_by_role("button").click()
    expect(deferred.locator(".say")).to_contain_text(word)


def test_a_redirect_in_mid_answer_interrupts_the_model_and_brings_the_turn_to_its_end(chat, slow):
    word = slow(SLOW_MS)
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    chat.redirect("Be brief.")
    line = chat.line_of("Be brief.")
    expect(line).to_contain_text(re.compile("interrupting…|interrupted the model"))
    chat.await_idle()
    expect(line).to_contain_text("interrupted the model")
    replaced = chat.turns.last.locator("li.deferred")
    expect(replaced).to_contain_text("Replaced by your redirect")
    expect(replaced.locator(".say")).to_contain_text(word)
    expect(chat.turns.last).not_to_contain_text("Answer 2")
    expect(foot_of(chat.turns.last)).to_contain_text("after a redirect")
    expect(chat.turns.last.locator("li.round.cut")).to_contain_text("answer")
    expect(chat.turns.last.locator("li.round.cut")).not_to_contain_text("without an answer")
    check_same_text(chat)


def test_escape_twice_stops_the_turn_and_keeps_its_text(chat, slow):
    word = slow(SLOW_MS)
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    chat.page.keyboard.press("Escape")
    expect(chat.page.locator("#composer-stop")).to_be_focused()
    expect(chat.page.locator(".composer")).to_contain_text("Press Esc again to stop")
    chat.page.keyboard.press("Escape")
    chat.await_idle()
    turn = chat.turns.last
    expect(foot_of(turn)).to_contain_text("stopped")
    expect(turn.locator(".say").last).to_contain_text(f"Tell me about the word {word}.")
    check_same_text(chat)
    chat.take_turn(BRIEF)
    expect(chat.turns).to_have_count(2)


def test_a_redirect_that_came_too_late_is_handed_back_to_be_sent_or_discarded(chat):
    chat.take_turn(BRIEF)
    with Device(chat.stage, chat.conversation) as other:
        other.session.listen()
        for text in ("Be brief.", "Be long."):
            steer = other.session.steer(text)
            other.until_event("chat.step", message_id=steer)
    backs = chat.page.locator(".handback")
    expect(backs).to_have_count(2)
    expect(backs.first).to_contain_text("nothing was running to redirect")
    backs.filter(has_text="Be long.").get_by_role("button", name="Discard").click()
    expect(backs.filter(has_text="Be long.").get_by_role("button")).to_have_count(0)
    backs.filter(has_text="Be brief.").get_by_role("button", name="Send now").click()
    expect(chat.turns.last.locator("h2.said")).to_have_text("Be brief.")
    chat.await_idle()
    assert "Be brief." in chat.answer_of(chat.turns.last)
    expect(backs.get_by_role("button", name="Send now")).to_have_count(0)


def test_a_busy_model_and_the_time_of_its_retry_are_shown_after_a_reload_too(chat):
    word = a_word()
    chat.stage.fault(kind="overloaded", match=word, retry_after_s=20)
    chat.say(f"Say {word}.")
    busy = re.compile(r"model (is )?busy, retrying in \d+ s \(attempt 2 of 4\)")
    expect(chat.page.locator(".readout")).to_contain_text(busy)
    chat.page.reload()
    expect(chat.page.locator(".readout")).to_contain_text(busy)
    expect(chat.turns.last).to_contain_text(busy)
    chat.await_idle()
    expect(chat.turns.last).not_to_contain_text("The model is busy")
