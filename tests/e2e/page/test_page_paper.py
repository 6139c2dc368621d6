"""An answer at every width and a thread on paper: words and numbers whole, nothing left out, or said."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.page.chat_page import WIDE
from tests.e2e.page.long_talk import move_in
from tests.e2e.stage import a_word
from tests.support.generation import answered, coded

pytestmark = pytest.mark.emulator

PAPER = {"width": 718, "height": 1047}
"""A4 at 96 dots an inch, less its margins."""
SHRINKS = 2
"""A browser prints a page that is too wide in up to so much smaller letters."""
COLUMNS = (3, 8, 24)
CODE_LINES = 90

BROKEN = """() => {
  const broken = [];
  for (const cell of document.querySelectorAll(".md :is(th, td)")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      for (const { 0: word, index } of texts.currentNode.data.matchAll(/\\S+/g)) {
        const range = document.createRange();
        range.setStart(texts.currentNode, index);
        range.setEnd(texts.currentNode, index + word.length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word);
      }
    }
  }
  return broken;
}"""
OUTSIDE = """() => [...document.querySelectorAll(".md .grid")]
  .filter((grid) => grid.getBoundingClientRect().right > document.documentElement.clientWidth)
  .length"""


def table(columns):
    cells = [
        "Straßenverkehrsamt",
        "1,234,567.89",
        "-12.5 %",
        "2026-11-27",
        "`a.long_name`",
        "plain words here",
    ]
    rows = [
        [f"Column{at}" for at in range(columns)],
        ["---"] * columns,
        *[[cells[(at + row) % len(cells)] for at in range(columns)] for row in range(4)],
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@pytest.fixture
def answer_page(chat):
    """A conversation with three tables, a long piece of code and a program."""
    word = a_word()
    code = "\n".join(f"line {at}" for at in range(CODE_LINES))
    text = "\n\n".join([*map(table, COLUMNS), f"```text\n{code}\n```"])
    program = (
        "\n".join(f"print({at})" for at in range(CODE_LINES)) + "\nopen('outputs/a.txt', 'w').write('a')"
    )
    chat.stage.fault(kind="fixture", match=word, text=coded(program, "outputs/a.txt", notes="I compute."))
    chat.stage.fault(kind="fixture", match=word, text=answered(text), token_delay_ms=0)
    chat.take_turn(f"Show {word}.")
    expect(chat.page.locator(".md table")).to_have_count(len(COLUMNS))
    return chat


def test_tables_keep_words_and_numbers_whole_and_scroll_inside_the_page(answer_page):
    for width in (360, 720, 1120, 2200):
        answer_page.page.set_viewport_size({**WIDE, "width": width})
        assert answer_page.page.evaluate(BROKEN) == [], width
        assert answer_page.page.evaluate(OUTSIDE) == 0, width
    assert answer_page.page.locator(".md .grid").last.evaluate("grid => grid.scrollWidth > grid.clientWidth")


def test_code_and_tables_are_on_paper_whole(answer_page):
    answer_page.page.set_viewport_size(PAPER)
    answer_page.page.emulate_media(media="print")
    code = answer_page.page.locator(".md .code .source")
    expect(code).to_be_visible()
    heights = code.evaluate(
        "e => [e.getBoundingClientRect().height, e.parentElement.clientHeight, e.scrollHeight]"
    )
    assert heights[1] >= heights[2] > CODE_LINES * 10
    widths = [
        table.evaluate("e => e.getBoundingClientRect().right")
        for table in answer_page.page.locator(".md table").all()
    ]
    assert max(widths) <= PAPER["width"] * SHRINKS
    assert answer_page.page.evaluate(BROKEN.replace(".md", ".md table:not(:has(th:nth-child(11)))")) == []


PRINTED = "window.print = () => { document.body.id = `printed-${document.querySelectorAll('.turn').length}` }"


def test_printing_brings_every_turn_and_a_print_that_cannot_wait_says_how_many_it_lacks(chat, tmp_path):
    name = move_in(chat.stage, f"e2e-{a_word()}", 25, tmp_path)
    chat.page.add_init_script(PRINTED)
    chat.page.route("**/events?before=*", lambda route: route.abort())
    chat.open(f"/c/{name}")
    expect(chat.readout).to_have_text("idle · 25 turns")
    expect(chat.turns).to_have_count(20)
    chat.page.emulate_media(media="print")
    expect(chat.page.get_by_text("5 earlier turns are not printed.")).to_be_visible()
    chat.page.emulate_media(media="screen")
    chat.page.unroute("**/events?before=*")
    chat.field.press("Control+p")
    expect(chat.page.locator("body")).to_have_id("printed-25")
    expect(chat.turns.first.locator(".say")).to_have_text("Answer 1.")
    chat.page.emulate_media(media="print")
    expect(chat.page.get_by_text("not printed")).to_have_count(0)
