"""Positions of elements: in the middle, at the side where a text begins, and unchanged after something was loaded."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import BRIEF, NARROW
from tests.e2e.stage import a_word
from tests.support.generation import answered

pytestmark = pytest.mark.emulator

WIDEST = {"width": 1800, "height": 900}
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""
MIDDLE = """element => {
  const box = element.getBoundingClientRect(), room = element.closest(".desk").getBoundingClientRect();
  return Math.abs((box.left + box.right) / 2 - (room.left + room.right) / 2);
}"""
ANSWER = """Of $x_1$ and $5 or $10[^1]:

$$\\int_0^1 x^2\\,dx = \\frac{1}{3}$$

- ראשון
- שני

[^1]: In *dollars*.
"""


def shifted(chat):
    return chat.page.evaluate("window.shifted")


def test_a_new_conversation_is_centred_and_nothing_moves_while_the_page_is_loaded(open_page):
    chat = open_page(viewport=WIDEST)
    chat.context.add_init_script(SHIFTS)
    chat.sign_in()
    expect(chat.page.locator("nav .rows .empty")).to_be_visible()
    expect(chat.page.locator("[role=status].vh")).to_be_attached()
    for part in (chat.page.locator(".first"), chat.page.locator(".composer")):
        assert part.evaluate(MIDDLE) < 2
    assert shifted(chat) < 0.05
    chat.take_turn(BRIEF)
    chat.page.reload()
    expect(chat.turns.last.locator(".foot")).to_be_visible()
    expect(chat.page.locator("nav .rows a")).to_have_count(1)
    assert shifted(chat) < 0.05


def test_formulas_and_footnotes_are_drawn_and_lists_keep_their_side(open_page):
    chat, word = open_page(viewport=WIDEST), a_word()
    chat.sign_in()
    chat.stage.fault(kind="fixture", match=word, text=answered(ANSWER))
    turn = chat.take_turn(f"Write: {word}")
    expect(turn.locator("math")).to_have_count(2)
    fraction = turn.locator("mfrac").bounding_box()
    assert fraction["height"] > 1.5 * turn.locator("mfrac > mn").first.bounding_box()["height"]
    expect(turn.locator(".say")).to_contain_text("$5 or $10")
    items = turn.locator("ul[dir=rtl]")
    assert items.evaluate(
        "list => [getComputedStyle(list).paddingRight, getComputedStyle(list).paddingLeft]"
    ) == ["22px", "0px"]
    turn.locator("sup a").click()
    expect(turn.locator(".footnote")).to_be_focused()
    turn.get_by_role("button", name="Back to footnote 1").click()
    expect(turn.locator("sup a")).to_be_focused()
    text, field = (chat.page.locator(one).bounding_box() for one in ("article .say", ".composer"))
    assert abs(text["x"] - field["x"]) < 2
    room = chat.page.locator(".sheet").bounding_box()
    assert text["x"] - room["x"] > 250


def test_each_answer_can_be_rated_and_a_phone_has_both_views_and_the_search_none(open_page):
    chat = open_page(viewport=NARROW, has_touch=True)
    chat.sign_in()
    for _ in range(2):
        chat.take_turn(BRIEF)
    expect(chat.turns.get_by_role("button", name="Copy")).to_have_count(2)
    expect(chat.turns.first.locator(".foot [aria-pressed]").first).to_be_visible()
    views = chat.page.get_by_role("navigation", name="Views")
    views.get_by_role("link", name="Timeline").tap()
    expect(chat.page).to_have_url(re.compile("/timeline/"))
    views.get_by_role("link", name="Chat").tap()
    expect(chat.turns).to_have_count(2)
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chat.open("/search?q=a")
    chat.page.locator("section.hits").wait_for()
    expect(views).to_have_count(0)
