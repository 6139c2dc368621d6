"""The conversations of a user: their list, their addresses, and what is found in them."""

from __future__ import annotations

import copy
import re
import time

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import BRIEF, TURN_S
from tests.e2e.session_client import Device
from tests.e2e.stage import Stage, a_word

pytestmark = pytest.mark.emulator

PLAN = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."


def row_of(chat, conversation):
    return chat.page.locator(f"nav .rows a[href='/c/{conversation}']")


@pytest.fixture(scope="module")
def talks(deployed_script):
    """A user with two conversations: their names by the word that each is about, the newest last, and with one turn."""
    stage, names = Stage(deployed_script), {}
    for more in ([BRIEF], []):
        word = a_word()
        names[word] = f"e2e-{word}"
        with Device(stage, names[word]) as device:
            for text in (PLAN.format(word=word), *more):
                device.session.say(text)
                device.until_settled()
    return stage.user, names


@pytest.fixture
def two(talks, open_page):
    """The page of that user, at the newest conversation."""
    user, names = talks
    chat = open_page(user=user)
    chat.sign_in(f"/c/{list(names.values())[-1]}")
    return chat, names


def test_one_goes_from_a_conversation_to_another_and_back(two):
    chat, names = two
    first, second = names
    expect(chat.page.locator("nav .rows a")).to_have_count(2)
    row_of(chat, names[first]).click()
    expect(chat.turns.first.locator("h2.said")).to_contain_text(first)
    assert chat.conversation == names[first]
    expect(row_of(chat, names[first])).to_have_attribute("aria-current", re.compile("."))
    chat.page.go_back()
    expect(chat.turns.first.locator("h2.said")).to_contain_text(second)
    assert chat.conversation == names[second]


def test_a_turn_that_another_client_takes_is_seen_running_and_then_unread_until_its_end_is_seen(two):
    chat, names = two
    first, word = next(iter(names)), a_word()
    row = row_of(chat, names[first])
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=15)
    client = copy.copy(chat.stage)
    client.user = chat.user
    with Device(client, names[first]) as other:
        other.session.listen()
        other.session.say(f"Tell me about the word {word}.")
        expect(row.get_by_role("img", name="running")).to_be_visible()
        other.until_settled()
    expect(row.get_by_role("img", name="running")).to_have_count(0)
    expect(row).to_have_class(re.compile("unread"))
    row.click()
    expect(chat.turns.last.locator("h2.said")).to_contain_text(word)
    chat.page.locator(".thread").evaluate("scroller => scroller.scrollTo({ top: 0 })")
    expect(row).not_to_have_class(re.compile("unread"))


def test_a_conversation_gets_another_name(chat):
    chat.take_turn(BRIEF)
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Rename").click()
    name = f"About {a_word()}"
    field = chat.page.get_by_role("textbox", name="Title")
    expect(field).to_be_focused()
    field.fill(name)
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(name)
    expect(row_of(chat, chat.conversation)).to_contain_text(name)
    chat.page.reload()
    expect(row_of(chat, chat.conversation)).to_contain_text(name)
    expect(chat.page.get_by_role("heading", level=1)).to_have_text(name)


def test_a_search_finds_the_turn_of_a_text(two):
    chat, names = two
    first = next(iter(names))
    await_index(chat, first)
    chat.page.locator("#search-field").fill(first)
    hit = chat.page.locator("a.hit").filter(has=chat.page.locator("mark", has_text=first))
    hit.filter(has_text=re.compile("^you")).click()
    expect(chat.turns.first.locator("h2.said")).to_contain_text(first)
    assert re.search(f"/c/{names[first]}/t/turn_", chat.page.url)


def await_index(chat, word):
    """Wait until the index has a turn, which takes seconds."""
    user, until = chat.stage.over_http(chat.user), time.monotonic() + TURN_S
    while not user.get("/v1/search", q=word)["items"]:
        assert time.monotonic() < until
        chat.page.wait_for_timeout(200)


def test_an_address_opens_its_round_and_shows_it(talks, open_page):
    user, names = talks
    name, chat = next(iter(names.values())), open_page(user=user)
    turn_id = chat.stage.over_http(user).get(f"/v1/conversations/{name}/timeline")["turns"][0]["turn_id"]
    chat.sign_in(f"/c/{name}/t/{turn_id}/r/2")
    aimed = chat.turns.first.locator("li.round[data-round='2']")
    expect(aimed).to_have_class(re.compile("aimed"))
    expect(aimed).to_be_in_viewport()
    expect(aimed.get_by_role("region", name="react.write")).to_be_visible()
    expect(chat.turns.first.locator("li.round[data-round='1'] .inside")).to_have_count(0)


def test_an_address_that_the_page_does_not_have_begins_a_new_conversation_and_says_so(chat):
    chat.open("/nowhere/at/all")
    expect(chat.field).to_be_visible()
    expect(chat.page.get_by_text("This page doesn't exist")).to_be_visible()
    assert chat.page.url.rstrip("/") == chat.stage.deployed.page_url.rstrip("/")
    chat.page.get_by_role("button", name="Dismiss").click()
    expect(chat.page.get_by_text("This page doesn't exist")).to_have_count(0)


def test_a_foreign_conversation_looks_like_an_absent_one(chat, deployed, conversation):
    other = Stage(deployed)
    with Device(other, conversation) as device:
        device.session.say(BRIEF)
        device.until_settled()
    for name in (conversation, f"none-{conversation}"):
        chat.open(f"/c/{name}")
        said = chat.page.get_by_role("paragraph").filter(
            has_text="This conversation doesn't exist, or you don't have access to it."
        )
        expect(said).to_be_visible()
        expect(chat.turns).to_have_count(0)
    chat.page.get_by_role("button", name="New conversation").click()
    expect(chat.field).to_be_visible()
