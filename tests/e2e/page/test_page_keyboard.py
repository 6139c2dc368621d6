"""The chat page by keyboard alone: every act has keys, the focus is seen and never lost."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.stage import a_word
from tests.support.generation import answered, called, coded

pytestmark = pytest.mark.emulator

SEEN = """() => {
  const e = document.activeElement;
  if (!e || e === document.body) return "nowhere";
  const style = getComputedStyle(e), box = e.getBoundingClientRect();
  const frame = e.matches("textarea, input") && e.closest(".composer, .find");
  const drawn = [style, ...(frame ? [getComputedStyle(frame)] : [])].some(s => s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 || s.boxShadow !== "none");
  const name = `${e.tagName}.${e.className} ${e.getAttribute("aria-label") ?? e.textContent.slice(0, 20)}`;
  if (!drawn) return `no ring: ${name}`;
  const within = box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth;
  return within ? "" : `out of view: ${name}`;
}"""


def press(chat, *keys):
    for key in keys:
        chat.page.keyboard.press(key)


def open_by_keys(chat, name, role="button", key="Tab"):
    """Go to a control by keys and press it."""
    chat.tab_to(chat.page.get_by_role(role, name=name), key)
    press(chat, "Enter")


def focus_is_somewhere(chat):
    """Assert that the focus is on something that shows it."""
    chat.page.wait_for_function(f"() => ({SEEN})() !== 'nowhere'")
    assert chat.page.evaluate(SEEN) == ""


def let(chat, word, *texts, **fault):
    for text in texts:
        chat.stage.fault(kind="fixture", match=word, text=text, **fault)


@pytest.fixture
def worked(chat):
    """A thread with a plan, a program, a file and an answer; the focus is in the field."""
    word = a_word()
    let(
        chat,
        word,
        called("react.plan", {"mode": "new", "steps": ["Look", "Tell"]}, notes="I make a plan."),
        coded("open('outputs/a.txt', 'w').write('a'); print('-0')", "outputs/a.txt", notes="I compute."),
        called("web_tools.web_search", {"queries": ["caching"]}, notes="I search."),
        answered("Done."),
        token_delay_ms=0,
    )
    chat.field.focus()
    chat.page.keyboard.type(f"Work: {word}")
    press(chat, "Enter")
    expect(chat.turns).to_have_count(1)
    chat.await_idle()
    expect(chat.field).to_be_focused()
    return chat


def test_everything_that_can_be_reached_by_tab_shows_the_focus_in_view(worked):
    chat = worked
    chat.page.locator("a.skip").first.focus()
    seen = set()
    for _ in range(60):
        press(chat, "Tab")
        place = chat.page.evaluate(
            "() => { const e = document.activeElement; return e.tagName + (e.getAttribute('aria-label') ?? e.textContent) }"
        )
        if place.startswith("BODY") or place in seen:
            break
        seen.add(place)
        assert chat.page.evaluate(SEEN) == ""
    assert len(seen) > 15


def test_a_turn_is_sent_added_to_redirected_and_stopped(chat):
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=3, token_delay_ms=60)
    chat.field.focus()
    chat.page.keyboard.type("Tell me about")
    press(chat, "Shift+Enter")
    chat.page.keyboard.type(f"the word {word}.")
    press(chat, "Enter")
    chat.await_answer()
    chat.page.keyboard.type("One more thing.")
    press(chat, "Enter")
    expect(chat.line_of("One more thing.")).to_be_visible()
    chat.page.keyboard.type("Be brief.")
    press(chat, "Control+Enter")
    expect(chat.line_of("Be brief.")).to_be_visible()
    press(chat, "Escape")
    expect(chat.page.locator("#composer-stop")).to_be_focused()
    focus_is_somewhere(chat)
    press(chat, "Escape")
    chat.await_idle()
    focus_is_somewhere(chat)
    press(chat, "ArrowUp") if chat.field.evaluate("e => e === document.activeElement") else chat.field.press(
        "ArrowUp"
    )
    expect(chat.field).not_to_have_value("")


def test_rounds_tabs_and_feedback_are_worked_by_keys(worked):
    chat = worked
    turn = chat.turns.last
    line = turn.locator("li.round button.line").filter(has_text="I compute.")
    chat.tab_to(line, "Shift+Tab")
    press(chat, "ArrowLeft")
    expect(line).to_have_attribute("aria-expanded", "false")
    press(chat, "ArrowRight")
    expect(line).to_have_attribute("aria-expanded", "true")
    press(chat, "Enter")
    expect(line).to_have_attribute("aria-expanded", "false")
    press(chat, "Enter")
    card = turn.get_by_role("region", name=re.compile("Program"))
    chat.tab_to(card.get_by_role("tab", name="Program"))
    press(chat, "ArrowRight")
    expect(card.get_by_role("tab", name="Log")).to_be_focused()
    expect(card.get_by_role("tabpanel")).to_contain_text("-0")
    press(chat, "End")
    expect(card.get_by_role("tabpanel")).to_contain_text("a.txt")
    open_by_keys(chat, "Bad answer")
    expect(turn.get_by_role("textbox")).to_be_focused()
    chat.page.keyboard.type("nj/?")
    press(chat, "Enter")
    expect(turn.locator(".feedback-said").first).to_have_text("Thanks for the feedback.")
    focus_is_somewhere(chat)
    assert turn.locator("q.feedback-text").inner_text() == "nj/?"


def test_letters_move_through_the_page_and_escape_leads_back(worked):
    chat = worked
    address = chat.page.url
    press(chat, "Shift+Tab", "k", "n", "/", "t", "?")
    expect(chat.page.get_by_role("dialog", name="Keyboard")).to_have_count(0)
    assert chat.page.url == address
    chat.use_letters()
    press(chat, "k")
    expect(chat.turns.last).to_be_focused()
    for letter, part in (("p", "plan"), ("f", "files"), ("s", "sources")):
        press(chat, letter)
        expect(chat.margin.locator(f"[data-part={part}]")).to_be_focused()
        focus_is_somewhere(chat)
    press(chat, "t")
    chat.page.wait_for_url("**/timeline/**")
    expect(chat.page.locator(".bench")).to_be_visible()
    press(chat, "t")
    chat.page.wait_for_url("**/t/**/r/*")
    press(chat, "/")
    expect(chat.page.get_by_role("searchbox")).to_be_focused()
    chat.page.keyboard.type("njt")
    expect(chat.page.get_by_role("searchbox")).to_have_value("njt")
    press(chat, "Escape")
    expect(chat.page).not_to_have_url(re.compile("/search"))
    focus_is_somewhere(chat)
    press(chat, "Shift+Tab")
    press(chat, "?")
    keys = chat.page.get_by_role("dialog", name="Keyboard")
    expect(keys).to_be_visible()
    press(chat, "n")
    expect(keys).to_be_visible()
    chat.tab_to(keys.get_by_role("checkbox", name="Single-letter shortcuts"))
    press(chat, "Space", "Escape")
    expect(keys).to_have_count(0)
    press(chat, "n", "/", "t")
    assert chat.page.url.partition("/t/")[0] == address
    chat.use_letters()
    press(chat, "n")
    expect(chat.turns).to_have_count(0)
    expect(chat.field).to_be_focused()


def test_the_menu_renaming_and_a_file_are_left_by_escape_and_give_the_focus_back(worked):
    chat = worked
    more = chat.page.get_by_role("button", name="More")
    chat.tab_to(more, "Shift+Tab")
    press(chat, "Enter", "Escape")
    expect(more).to_be_focused()
    press(chat, "Enter")
    chat.tab_to(chat.page.get_by_role("button", name="Rename"))
    press(chat, "Enter")
    title = chat.page.get_by_role("textbox", name="Title")
    expect(title).to_be_focused()
    press(chat, "Escape")
    expect(title).to_have_count(0)
    focus_is_somewhere(chat)
    chat.tab_to(more)
    press(chat, "Enter")
    chat.tab_to(chat.page.get_by_role("button", name="Rename"))
    press(chat, "Enter", "Control+A")
    chat.page.keyboard.type("Named jnk")
    press(chat, "Enter")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("Named jnk")
    focus_is_somewhere(chat)
    chat.tab_to(chat.margin.get_by_role("link", name="a.txt"))
    press(chat, "Enter")
    preview = chat.page.get_by_role("region", name="Preview of a.txt")
    expect(preview).to_be_visible()
    press(chat, "Escape")
    expect(preview).to_have_count(0)
    focus_is_somewhere(chat)


def test_a_file_is_attached_and_removed(chat):
    expect(chat.field).to_be_focused()
    chat.page.on("filechooser", lambda _: None)  # the browser listens from here on
    with chat.page.expect_file_chooser() as choosing:
        chat.tab_to(chat.page.get_by_role("button", name="Attach files"))
        press(chat, "Enter")
    choosing.value.set_files({"name": "a.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"})
    expect(chat.page.locator("li.upload.ready")).to_have_count(1)
    open_by_keys(chat, "Remove a.csv", key="Shift+Tab")
    expect(chat.page.locator("li.upload")).to_have_count(0)
    focus_is_somewhere(chat)
