"""What a reader sees over a broken connection, a machine that slept, a reload and a second tab: the same text, once."""

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
BRISK_MS = 15
NIGHT = "10:00"


@pytest.fixture
def word(scripted):
    """A word that the model takes some seconds to write about."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=BRISK_MS)
    return word


class Wires:
    """The websockets of a page, as its network lets them be: they can be cut, refused, or go deaf without a word."""

    def __init__(self, page):
        self.open, self.made, self.refused = [], 0, False
        page.route_web_socket(re.compile("^ws"), self._connect)

    def _connect(self, socket):
        self.made += 1
        if self.refused:
            socket.close(code=1011)
            return
        server = socket.connect_to_server()
        wire = {"socket": socket, "deaf": False}
        server.on_message(lambda text: None if wire["deaf"] else socket.send(text))
        socket.on_message(lambda text: None if wire["deaf"] else server.send(text))
        self.open.append(wire)

    def cut(self):
        """Break every connection."""
        for wire in self.open:
            wire["socket"].close(code=1011)
        self.open = []

    def deafen(self):
        """Let nothing more come through the connections that there are, which are not closed."""
        for wire in self.open:
            wire["deaf"] = True
        self.open = []


@pytest.fixture
def wired(open_page):
    """The page of a fresh user, and its websockets; its clock can be moved on."""
    chat = open_page()
    chat.page.clock.install()
    wires = Wires(chat.page)
    chat.sign_in()
    return chat, wires


def test_a_connection_that_is_cut_in_mid_answer_changes_nothing_on_the_page(wired, word):
    chat, wires = wired
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    witness = chat.beside(chat.open_tab())
    witness.page.goto(chat.page.url)
    expect(witness.answering).to_contain_text(word)
    made = wires.made
    wires.cut()
    expect(chat.answering).to_contain_text(word)
    chat.await_idle()
    assert wires.made > made
    expect(chat.page.locator(".banner")).to_have_count(0)
    check_same_text(chat, witness)


def test_a_lost_connection_is_shown_and_a_message_written_meanwhile_sent_once(wired):
    chat, wires = wired
    chat.take_turn(BRIEF)
    wires.refused = True
    wires.cut()
    banner = chat.page.locator(".banner")
    expect(banner).to_have_count(0)
    expect(banner).to_contain_text("Reconnecting…")
    chat.page.clock.run_for(31_000)
    expect(banner).to_contain_text("Offline since")
    chat.say(BRIEF)
    expect(chat.page.locator("article.pending")).to_contain_text("sending")
    wires.refused = False
    chat.page.clock.run_for(17_000)
    expect(chat.turns).to_have_count(2)
    chat.await_idle()
    expect(banner).to_have_count(0)
    assert BRIEF in chat.answer_of(chat.turns.last)
    check_same_text(chat)


def test_a_machine_that_slept_for_ten_minutes_shows_all_that_happened_once(wired, word):
    chat, wires = wired
    other = a_word()
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    wires.deafen()
    with Device(chat.stage, chat.conversation) as device:
        device.session.listen()
        device.until_idle()
        device.session.say(f"And the word {other}?")
        device.until_settled()
    expect(chat.turns).to_have_count(1)
    chat.page.clock.fast_forward(NIGHT)
    chat.page.clock.fast_forward(6_000)
    expect(chat.turns).to_have_count(2)
    chat.await_idle()
    assert other in chat.answer_of(chat.turns.last)
    check_same_text(chat)


def test_a_reload_in_mid_answer_continues_at_the_current_text(chat, word):
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    chat.page.reload()
    expect(chat.answering).to_contain_text(word)
    expect(chat.turns).to_have_count(1)
    chat.await_idle()
    check_same_text(chat)


def test_two_tabs_of_a_user_show_the_messages_of_both(chat, word):
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    twin = chat.beside(chat.open_tab())
    twin.page.goto(chat.page.url)
    expect(twin.answering).to_contain_text(word)
    other = a_word()
    twin.say(f"And the word {other}?")
    for one in (twin, chat):
        expect(one.line_of(other)).to_have_count(1)
        one.await_idle()
        assert other in one.answer_of(one.turns.last)
    check_same_text(chat, twin)
