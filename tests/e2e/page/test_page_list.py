"""The conversations of a user: their list, their addresses, and what is found in them."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import TURN_S
from tests.e2e.session_client import Device
from tests.e2e.stage import Stage, a_word

pytestmark = pytest.mark.emulator

PLAN = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."


def row_of(chat, text):
    return chat.page.locator("nav .rows a").filter(has_text=text)


def begin_another(chat):
    chat.page.get_by_role("link", name="New conversation").click()
    expect(chat.turns).to_have_count(0)


@pytest.fixture
def two(chat):
    """The page of a user with two conversations; the words and names of both, the second one is open."""
    talks = {}
    for n in range(2):
        if n:
            begin_another(chat)
        word = a_word()
        chat.take_turn(f"Tell me about the word {word}.")
        talks[word] = chat.conversation
    return chat, talks


def turns_of(chat):
    return chat.stage.over_http(chat.user).get(f"/v1/conversations/{chat.conversation}/timeline")["turns"]


def test_one_goes_from_a_conversation_to_another_and_back(two):
    chat, talks = two
    first, second = talks
    expect(chat.page.locator("nav .rows a")).to_have_count(2)
    row_of(chat, first).click()
    expect(chat.turns.locator("h2.said")).to_contain_text(first)
    assert chat.conversation == talks[first]
    expect(row_of(chat, first)).to_have_attribute("aria-current", re.compile("."))
    chat.page.go_back()
    expect(chat.turns.locator("h2.said")).to_contain_text(second)
    assert chat.conversation == talks[second]


def test_a_turn_that_another_client_takes_is_seen_running_and_unread_in_the_list(two):
    chat, talks = two
    first = next(iter(talks))
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=15)
    row = row_of(chat, first)
    with Device(chat.stage, talks[first]) as other:
        other.session.say(f"Tell me about the word {word}.")
        expect(row.get_by_role("img", name="running")).to_be_visible()
        other.until_settled()
    expect(row.get_by_role("img", name="running")).to_have_count(0)
    expect(row).to_have_class(re.compile("unread"))
    row.click()
    expect(chat.turns).to_have_count(2)
    expect(row).not_to_have_class(re.compile("unread"))


def test_a_conversation_gets_another_name(chat):
    chat.take_turn("Hello there.")
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Rename").click()
    name = f"About {a_word()}"
    field = chat.page.get_by_role("textbox", name="Title")
    expect(field).to_be_focused()
    field.fill(name)
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(row_of(chat, name)).to_have_count(1)
    chat.page.reload()
    expect(row_of(chat, name)).to_have_count(1)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_search_finds_the_turn_in_which_something_was_said(two):
    chat, talks = two
    first = next(iter(talks))
    await_index(chat, first)
    chat.page.locator("#search-field").fill(first)
    hit = chat.page.locator("a.hit").filter(has_text="you")
    expect(hit.locator("mark")).to_have_text(first)
    hit.click()
    expect(chat.turns.locator("h2.said")).to_contain_text(first)
    assert re.search(f"/c/{talks[first]}/t/turn_", chat.page.url)


def await_index(chat, word):
    """Wait until the index has a turn, which takes seconds."""
    user, until = chat.stage.over_http(chat.user), time.monotonic() + TURN_S
    while not user.get("/v1/search", q=word)["items"]:
        assert time.monotonic() < until
        chat.page.wait_for_timeout(200)


def test_an_address_opens_its_round_and_shows_it(chat):
    word = a_word()
    chat.take_turn(PLAN.format(word=word))
    chat.take_turn("Hello there.")
    turn_id = turns_of(chat)[0]["turn_id"]
    chat.open(f"/c/{chat.conversation}/t/{turn_id}/r/2")
    aimed = chat.turns.first.locator("li.round[data-round='2']")
    expect(aimed).to_have_class(re.compile("aimed"))
    expect(aimed).to_be_in_viewport()
    expect(aimed.get_by_role("region", name="react.write")).to_be_visible()
    expect(chat.turns.first.locator("li.round[data-round='1'] .inside")).to_have_count(0)


def test_an_address_that_the_page_does_not_have_begins_a_new_conversation_and_says_so(chat):
    chat.open("/nowhere/at/all")
    expect(chat.field).to_be_visible()
    expect(chat.page.get_by_text("There is no such page")).to_be_visible()
    assert chat.page.url.rstrip("/") == chat.stage.deployed.page_url.rstrip("/")
    chat.page.get_by_role("button", name="Dismiss").click()
    expect(chat.page.get_by_text("There is no such page")).to_have_count(0)


def test_a_conversation_of_somebody_else_is_not_told_from_one_that_is_not_there(chat, deployed, conversation):
    other = Stage(deployed)
    with Device(other, conversation) as device:
        device.session.say("Hello there.")
        device.until_settled()
    for name in (conversation, f"none-{conversation}"):
        chat.open(f"/c/{name}")
        expect(chat.page.get_by_text("There is no such conversation, or it is not yours.")).to_be_visible()
        expect(chat.turns).to_have_count(0)
    chat.page.get_by_role("button", name="Begin a new one").click()
    expect(chat.field).to_be_visible()
