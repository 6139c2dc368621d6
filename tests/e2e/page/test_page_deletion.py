"""What goes for good: a conversation, from within it, from the list and from another device; and everything of a user."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.axe import find_serious
from tests.e2e.page.chat_page import BRIEF
from tests.e2e.page.test_page_list import row_of

pytestmark = pytest.mark.emulator

GONE = "This conversation was deleted."


def confirm(chat):
    chat.page.get_by_role("alertdialog").get_by_role("button", name="Delete").click()


def pick(chat, name):
    """Choose something from the menu."""
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name=name).click()


def test_a_conversation_is_deleted_from_its_menu_and_another_tab_hears_of_it(chat):
    chat.take_turn(BRIEF)
    name = chat.conversation
    other = chat.beside(chat.open_tab())
    other.open(f"/c/{name}")
    expect(other.turns).to_have_count(1)
    pick(chat, "Delete this conversation…")
    dialog = chat.page.get_by_role("alertdialog")
    expect(dialog).to_contain_text("This can't be undone.")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    assert find_serious(chat.page) == []
    confirm(chat)
    for tab in (chat, other):
        expect(tab.page.locator(".blank").get_by_text(GONE)).to_be_visible()
        expect(tab.page.get_by_role("alert")).to_have_text(GONE)
        expect(row_of(tab, name)).to_have_count(0)
    other.page.reload()
    expect(other.page.locator(".blank").get_by_text(GONE)).to_be_visible()
    expect(row_of(other, name)).to_have_count(0)


def test_a_conversation_is_deleted_from_the_list_by_keys_alone(chat):
    chat.take_turn(BRIEF)
    name = chat.conversation
    row = row_of(chat, name)
    row.focus()
    chat.page.keyboard.press("Delete")
    expect(chat.page.get_by_role("alertdialog")).to_be_visible()
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_role("alertdialog")).to_have_count(0)
    expect(row).to_be_focused()
    chat.page.get_by_role("button", name="More").focus()
    chat.page.keyboard.press("Enter")
    chat.tab_to(chat.page.get_by_role("button", name="Delete this conversation…"))
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_role("alertdialog")).to_be_visible()
    chat.page.keyboard.press("Escape")
    expect(chat.page.get_by_role("button", name="More")).to_be_focused()
    row.focus()
    chat.page.keyboard.press("Delete")
    expect(chat.page.get_by_role("alertdialog")).to_be_visible()
    chat.tab_to(chat.page.get_by_role("alertdialog").get_by_role("button", name="Delete"))
    chat.page.keyboard.press("Enter")
    expect(row).to_have_count(0)
    assert chat.stage.over_http(chat.user).ask("GET", f"/v1/conversations/{name}").status_code == 404


def test_a_draft_survives_a_deletion_by_another_device(chat):
    chat.take_turn(BRIEF)
    name = chat.conversation
    chat.field.fill("And what did I say after that?")
    device = chat.stage.over_http(chat.user)
    assert device.ask("DELETE", f"/v1/conversations/{name}").ok
    expect(chat.page.locator(".blank").get_by_text(GONE)).to_be_visible()
    assert find_serious(chat.page) == []
    chat.page.get_by_role("button", name="Start a new conversation with your draft").click()
    expect(chat.field).to_have_value("And what did I say after that?")
    chat.page.keyboard.press("Enter")
    expect(chat.turns).to_have_count(1)
    chat.await_idle()
    assert chat.conversation != name


def test_everything_of_a_user_is_one_file_and_then_gone(chat):
    chat.take_turn(BRIEF)
    name = chat.conversation
    chat.page.get_by_role("button", name="More").click()
    with chat.page.expect_download() as download:
        chat.page.get_by_role("button", name="Export all my data").click()
    assert name in download.value.path().read_text()
    chat.page.get_by_role("button", name="Delete all my data…").click()
    dialog = chat.page.get_by_role("alertdialog")
    expect(dialog.get_by_role("button", name="Delete all")).to_be_disabled()
    assert find_serious(chat.page) == []
    dialog.get_by_role("textbox").fill("delete")
    chat.page.keyboard.press("Enter")
    expect(chat.page.get_by_text("All your data is being deleted.")).to_be_visible()
    expect(row_of(chat, name)).to_have_count(0)
    expect(chat.page).to_have_url(re.compile(r"/$"))
