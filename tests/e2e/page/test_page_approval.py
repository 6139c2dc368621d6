"""A call that waits for a person on the chat page: approved, denied, edited, by keyboard alone, in one tab of two."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.mode import approvals
from tests.e2e.page.same_text import check_same_text
from tests.e2e.stage import Stage, a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

TOOL = "react.memsearch"
WAITS = f"Allow {TOOL}?"


@pytest.fixture(scope="module", autouse=True)
def _asking(deployed_script):
    """Let the stage ask a person before it searches a memory, which no other test of the page lets it do."""
    with approvals(Stage(deployed_script), {TOOL: "always"}):
        yield


@pytest.fixture
def asked(chat):
    """A turn that waits: the page, the word of its call, and the card."""
    word = a_word()
    chat.stage.fault(kind="fixture", match=word, text=called(TOOL, {"query": word}, notes="I look it up."))
    chat.say(f"Do it: {word}")
    card = chat.turns.last.get_by_role("region", name=WAITS)
    expect(card).to_contain_text(word)
    chat.stage.fault(kind="fixture", match=word, text=answered(f"Done: {word}."))
    return chat, word, card


def press(chat, card, name):
    """Put the focus on a button of the card by keys, and press it."""
    chat.tab_to(card.get_by_role("button", name=name), "Shift+Tab")
    chat.page.keyboard.press("Enter")


def results(chat):
    return [(e["data"]["status"], e["data"].get("code", "")) for e in chat.events() if is_result(e)]


def is_result(event):
    return event["type"] == "react.tool.result"


def finish(chat, word, verdict, *others):
    """Wait for the end of the turn, which says what became of the call; the round has folded by then."""
    chat.await_idle()
    assert chat.answer_of(chat.turns.last).startswith(f"Done: {word}.")
    check_same_text(chat, *others)
    chat.turns.last.locator("li.round[data-round='1'] button.line").click()
    expect(chat.turns.last.locator(".verdict").first).to_contain_text(verdict)


def test_an_approved_call_runs(asked):
    chat, word, card = asked
    expect(card).to_contain_text(TOOL)
    expect(card).to_contain_text("Approval is required every time.")
    assert results(chat) == []
    press(chat, card, "Approve")
    finish(chat, word, "approved")
    assert results(chat) == [("ok", "")]


def test_a_denied_call_never_runs_and_the_agent_reads_why(asked):
    chat, word, card = asked
    press(chat, card, "Deny")
    expect(card.get_by_role("textbox")).to_be_focused()
    chat.page.keyboard.type("Not today.")
    chat.page.keyboard.press("Enter")
    finish(chat, word, "denied")
    expect(chat.turns.last.locator(".verdict")).to_contain_text("Not today.")
    assert results(chat) == [("error", "denied")]
    assert "Not today." in str(chat.stage.model_requests(word)[-1]["body"])


def test_an_edited_call_runs_with_other_parameters(asked):
    chat, word, card = asked
    other = a_word()
    press(chat, card, "Edit")
    field = card.get_by_role("textbox")
    expect(field).to_be_focused()
    chat.page.keyboard.press("Control+A")
    chat.page.keyboard.type('{"query": ')
    chat.page.keyboard.press("Control+Enter")
    expect(card.get_by_role("alert")).to_contain_text("Not valid JSON")
    expect(field).to_be_focused()
    chat.page.keyboard.type(f'"{other}"}}')
    chat.page.keyboard.press("Control+Enter")
    finish(chat, word, "approved with changes")
    (call,) = [e["data"] for e in chat.events() if is_result(e) and e["data"]["status"] == "ok"]
    assert call["tool_id"] == TOOL
    assert other in str(chat.stage.model_requests(word)[-1]["body"])


def test_a_card_survives_a_reload_and_an_answer_in_one_tab_settles_it_in_both(asked):
    chat, word, card = asked
    chat.page.reload()
    expect(card.get_by_role("button", name="Approve")).to_be_enabled()
    twin = chat.beside(chat.open_tab())
    twin.page.goto(chat.page.url)
    twins = twin.turns.last.get_by_role("region", name=WAITS)
    twins.get_by_role("button", name="Approve").click()
    for one in (twin, chat):
        one.await_idle()
        expect(one.turns.last.get_by_role("region", name=WAITS)).to_have_count(0)
    finish(chat, word, "approved", twin)
    assert results(chat) == [("ok", "")]


HIDDEN = """
Object.defineProperty(document, "visibilityState", { get: () => (window.away ? "hidden" : "visible") });
window.shown = [];
const Real = Notification;
window.Notification = class extends Real {
  constructor(title, more) {
    super(title, more);
    shown.push([title, more.body]);
  }
};
"""
"""The page believes what a test says of its being seen, and notes the notifications that the browser takes."""


def test_a_call_that_waits_is_seen_from_everywhere_until_a_stop_cancels_it(chat):
    word = a_word()
    chat.context.grant_permissions(["notifications"])
    chat.page.add_init_script(HIDDEN)
    chat.page.reload()
    chat.page.get_by_role("button", name="More").click()
    desktop = chat.page.get_by_role("checkbox", name="Desktop notifications")
    desktop.click()
    expect(desktop).to_be_checked()  # as soon as the browser has granted it
    chat.page.keyboard.press("Escape")
    chat.page.evaluate("window.away = true")
    chat.stage.fault(kind="fixture", match=word, text=called(TOOL, {"query": word}, notes="I look it up."))
    chat.say(f"Do it: {word}")
    row = chat.page.locator("nav .rows a").filter(has_text=word)
    expect(row).to_contain_text("Needs approval")
    expect(chat.readout).to_have_class("readout ask")
    expect(chat.turns.last.get_by_role("region", name=WAITS)).to_contain_text("(in 7 days)")
    chat.page.wait_for_function("shown.length > 0")
    assert chat.page.evaluate("shown") == [[f"Do it: {word}", "Needs your approval"]]
    chat.page.get_by_role("link", name="New conversation").click()
    expect(chat.turns).to_have_count(0)
    expect(chat.page).to_have_title("● Needs approval · New conversation · Stepline")
    expect(row).to_contain_text("Needs approval")
    row.click()
    chat.turns.last.get_by_role("region", name=WAITS).wait_for()
    chat.stop()
    chat.await_idle()
    expect(row).not_to_contain_text("Needs approval")
    chat.turns.last.locator("li.round[data-round='1'] button.line").click()
    expect(chat.turns.last.locator(".verdict")).to_have_text(f"{TOOL} cancelled: you stopped the turn")
    expect(chat.turns.last.locator(".card.call")).to_have_count(0)
    assert "● " not in chat.page.title()
