"""Messages that are edited, turns that run again, branches and forks, as a person meets them on the page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.axe import find_serious
from tests.e2e.page.chat_page import BRIEF, NARROW
from tests.e2e.page.test_page_list import row_of
from tests.e2e.page.test_page_upload import attach
from tests.e2e.stage import a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

FIVE = [f"Question {number}: {BRIEF}" for number in range(1, 6)]
INSTEAD = f"Instead: {BRIEF}"
THEN = f"Then: {BRIEF}"
LAST = f"Last: {BRIEF}"


def heading(turn):
    return turn.locator("h2.said")


def edit(chat, turn, text):
    """Edit the message of a turn by keys alone, and send it."""
    chat.tab_to(turn.get_by_role("button", name="Edit this message"))
    chat.page.keyboard.press("Enter")
    field = chat.page.get_by_role("textbox", name="Edit message")
    expect(field).to_be_focused()
    chat.page.keyboard.press("Control+A")
    chat.page.keyboard.type(text)
    chat.page.keyboard.press("Enter")


def texts(chat):
    return [one.split("\n")[0] for one in heading(chat.turns).all_text_contents()]


def switch(turn):
    return turn.locator("nav.branches")


def test_the_second_of_two_messages_is_edited_and_both_branches_go_on(chat):
    for text in FIVE[:2]:
        chat.take_turn(text)
    origin = chat.conversation
    chat.turns.nth(1).get_by_role("button", name="Edit this message").focus()
    edit(chat, chat.turns.nth(1), INSTEAD)
    expect(heading(chat.turns.nth(1))).to_have_text(INSTEAD)
    chat.await_idle()
    branch = chat.conversation
    assert branch != origin
    assert texts(chat) == [FIVE[0], INSTEAD]
    expect(switch(chat.turns.nth(1))).to_contain_text("2 / 2")
    expect(chat.page.locator("nav .rows a")).to_have_count(1)
    switch(chat.turns.nth(1)).get_by_role("button", name="Previous branch").click()
    expect(heading(chat.turns.nth(1))).to_have_text(FIVE[1])
    assert chat.conversation == origin
    chat.take_turn(FIVE[2])
    assert texts(chat) == FIVE[:3]


def in_both_branches(chat):
    """Take five turns, edit the second message, and go on in both branches; return the origin and the branch."""
    for text in FIVE:
        chat.take_turn(text)
    origin = chat.conversation
    chat.turns.nth(1).focus()
    edit(chat, chat.turns.nth(1), INSTEAD)
    expect(heading(chat.turns.nth(1))).to_have_text(INSTEAD)
    chat.await_idle()
    chat.take_turn(THEN)
    branch = chat.conversation
    chat.open(f"/c/{origin}")
    expect(chat.turns).to_have_count(5)
    chat.take_turn(LAST)
    return origin, branch


def test_five_turns_with_an_edited_second_message_go_on_in_both_branches_everywhere(chat, open_page):
    origin, branch = in_both_branches(chat)
    assert texts(chat) == [*FIVE, LAST]
    expect(chat.page.locator("nav .rows a")).to_have_count(1)
    switch_by_keys(chat, origin, branch)
    chat.page.reload()
    expect(switch(chat.turns.nth(1))).to_contain_text("2 / 2")
    assert texts(chat) == [FIVE[0], INSTEAD, THEN]
    device = open_page(user=chat.user, viewport=NARROW, color_scheme="dark")
    device.sign_in(f"/c/{origin}")
    expect(device.turns).to_have_count(6)
    assert texts(device) == [*FIVE, LAST]
    expect(switch(device.turns.nth(1))).to_contain_text("1 / 2")
    assert find_serious(device.page) == []
    assert device.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    name_the_branch(chat, branch)


def switch_by_keys(chat, origin, branch):
    """Go from the origin to the branch and back and forth by keys; the focus stays at the switch."""
    chat.turns.nth(1).focus()
    chat.tab_to(switch(chat.turns.nth(1)).get_by_role("button", name="Next branch"))
    chat.page.keyboard.press("Enter")
    expect(chat.page).to_have_url(re.compile(f"/c/{branch}$"))
    expect(switch(chat.turns.nth(1)).get_by_role("button", name="Previous branch")).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.page).to_have_url(re.compile(f"/c/{origin}$"))
    expect(switch(chat.turns.nth(1)).get_by_role("button", name="Next branch")).to_be_focused()
    chat.page.go_back()
    expect(chat.page).to_have_url(re.compile(f"/c/{branch}$"))


def name_the_branch(chat, branch):
    """Find the name of the branch on paper and in an export."""
    chat.page.emulate_media(media="print")
    expect(chat.page.get_by_text(f"Branch 2 of 2 ({branch})")).to_be_visible()
    expect(switch(chat.turns.nth(1)).get_by_text("Branch 2 of 2", exact=True)).to_be_visible()
    expect(chat.turns.nth(1).get_by_role("button", name="Edit this message")).to_be_hidden()
    chat.page.emulate_media(media="screen")
    chat.page.get_by_role("button", name="More").click()
    with chat.page.expect_download() as download:
        chat.page.get_by_role("button", name="Export as Markdown").click()
    text = download.value.path().read_text()
    assert f"*Branch 2 of 2 ({branch})*" in text
    assert INSTEAD in text
    assert FIVE[1] not in text


def test_an_edit_that_is_given_up_keeps_its_text(chat):
    turn = chat.take_turn(FIVE[0])
    button = turn.get_by_role("button", name="Edit this message")
    button.focus()
    chat.page.keyboard.press("Enter")
    field = chat.page.get_by_role("textbox", name="Edit message")
    expect(field).to_have_value(FIVE[0])
    assert find_serious(chat.page) == []
    chat.page.keyboard.type(" And more.")
    chat.page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    expect(button).to_be_focused()
    expect(heading(turn)).to_have_text(FIVE[0])
    chat.page.keyboard.press("Enter")
    expect(field).to_have_value(f"{FIVE[0]} And more.")


def test_an_edited_message_is_sent_with_its_file(chat):
    attach(chat, "herons.csv", b"month,count\n5,12\n")
    turn = chat.take_turn(FIVE[0])
    expect(turn.locator(".attached")).to_contain_text("herons.csv")
    origin = chat.conversation
    turn.get_by_role("button", name="Edit this message").focus()
    edit(chat, turn, INSTEAD)
    expect(chat.page).not_to_have_url(re.compile(origin))
    chat.await_idle()
    expect(heading(chat.turns.last)).to_have_text(INSTEAD)
    expect(chat.turns.last.locator(".attached")).to_contain_text("herons.csv")
    expect(chat.page.get_by_role("button", name="Send again")).to_have_count(0)


def test_a_turn_runs_again_in_a_branch_after_the_effects_since_are_named(chat):
    word = a_word()
    write = called(
        "react.write",
        {"path": "files/notes.md", "channel": "canvas", "content": "Herons."},
        notes="I write it down.",
    )
    for text in (write, answered("Done.")):
        chat.stage.fault(kind="fixture", match=word, text=text)
    turn = chat.take_turn(f"Write: {word}")
    origin = chat.conversation
    turn.get_by_role("button", name="Run this turn again").click()
    dialog = chat.page.get_by_role("alertdialog", name="These were done and stay done")
    expect(dialog.get_by_role("listitem")).to_contain_text("react.write")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert find_serious(chat.page) == []
    dialog.get_by_role("button", name="Go on").click()
    expect(chat.page).not_to_have_url(re.compile(origin))
    expect(heading(chat.turns.last)).to_have_text(f"Write: {word}")
    chat.await_idle()
    expect(switch(chat.turns.last)).to_contain_text("2 / 2")


@pytest.mark.parametrize("choice", ["Let it run on", "Stop it"])
def test_a_running_turn_runs_on_or_is_stopped_when_a_message_before_it_is_edited(chat, choice):
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=150)
    chat.take_turn(BRIEF)
    chat.say(f"Explain the word {word}.")
    expect(chat.turns).to_have_count(2)
    chat.await_answer()
    origin = chat.conversation
    chat.turns.first.get_by_role("button", name="Edit this message").click()
    chat.page.get_by_role("textbox", name="Edit message").fill(INSTEAD)
    chat.page.keyboard.press("Enter")
    dialog = chat.page.get_by_role("alertdialog", name="The agent is still working")
    expect(dialog).to_be_visible()
    assert find_serious(chat.page) == []
    dialog.get_by_role("button", name=choice).click()
    expect(heading(chat.turns.first)).to_have_text(INSTEAD)
    if choice == "Let it run on":
        expect(chat.page.get_by_role("img", name="Another branch is running")).to_be_visible()
    chat.await_idle()
    expect(chat.page.get_by_role("img", name="Another branch is running")).to_have_count(0)
    chat.open(f"/c/{origin}")
    chat.await_idle()
    expect(chat.turns).to_have_count(2)
    assert ("stopped" in chat.turns.last.locator(".foot").inner_text()) == (choice == "Stop it")


def test_a_fork_is_a_conversation_of_its_own_and_both_link_to_each_other(chat):
    for text in FIVE[:2]:
        chat.take_turn(text)
    origin = chat.conversation
    chat.turns.first.get_by_role("button", name="Fork from here").click()
    dialog = chat.page.get_by_role("alertdialog", name="Fork from here")
    expect(dialog).to_contain_text("up to the end of turn 1. Files are shared, nothing is copied.")
    dialog.get_by_role("button", name="Fork", exact=True).click()
    expect(chat.page).not_to_have_url(re.compile(origin))
    expect(chat.turns).to_have_count(1)
    fork = chat.conversation
    expect(chat.page.get_by_role("heading", level=1)).to_contain_text("(fork)")
    expect(chat.page.locator("nav .rows a")).to_have_count(2)
    chat.page.locator(".fork-of a").click()
    expect(chat.page).to_have_url(re.compile(f"/c/{origin}/t/turn_"))
    mark = chat.turns.first.locator(".forks a")
    expect(mark).to_have_attribute("href", f"/c/{fork}")
    chat.page.get_by_role("link", name="Timeline").click()
    chat.page.locator(".bench").wait_for()
    expect(chat.page.locator(".bench .picks [role=img][aria-label='1 fork']")).to_be_visible()
    chat.page.get_by_role("button", name="Fork from here").click()
    expect(chat.page.get_by_role("alertdialog")).to_contain_text(re.compile(r"round \d+ of turn \d"))
    chat.page.keyboard.press("Escape")


def test_a_conversation_is_deleted_with_its_branches_and_with_forks_only_if_the_user_says_so(chat):
    chat.take_turn(FIVE[0])
    origin = chat.conversation
    edit_button = chat.turns.first.get_by_role("button", name="Edit this message")
    edit_button.focus()
    edit(chat, chat.turns.first, INSTEAD)
    expect(heading(chat.turns.first)).to_have_text(INSTEAD)
    chat.await_idle()
    branch = chat.conversation
    chat.turns.first.get_by_role("button", name="Fork from here").click()
    chat.page.get_by_role("alertdialog").get_by_role("button", name="Fork", exact=True).click()
    expect(chat.page).not_to_have_url(re.compile(branch))
    fork = chat.conversation
    chat.open(f"/c/{branch}")
    expect(switch(chat.turns.first)).to_contain_text("2 / 2")
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Delete this conversation…").click()
    dialog = chat.page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("Its 1 branch will be deleted, too.")
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(chat.page.get_by_role("alertdialog", name="Delete its forks, too?")).to_be_visible()
    chat.page.get_by_role("alertdialog").get_by_role("button", name="Delete all").click()
    expect(chat.page.locator(".blank").get_by_text("This conversation was deleted.")).to_be_visible()
    over_http = chat.stage.over_http(chat.user)
    for name in (origin, branch, fork):
        assert over_http.ask("GET", f"/v1/conversations/{name}").status_code == 404
    expect(row_of(chat, origin)).to_have_count(0)
