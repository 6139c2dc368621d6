"""The accessibility of the chat page: axe in every state, light and dark, wide and narrow; zoom, forced colours, less motion."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.mode import approvals
from tests.e2e.page.axe import find_serious
from tests.e2e.page.chat_page import NARROW, WIDE
from tests.e2e.page.stranger import is_within
from tests.e2e.stage import a_word
from tests.support.generation import answered, called, coded

pytestmark = pytest.mark.emulator

ANSWER = """## Found

A [source](https://example.org/a) and `code`.

- one
- two

| a | b |
|---|---|
| 1 | 2 |

```python
print("a long line of a program that is wider than its place on a narrow window, by far and by more")
```
"""
TOOL = "react.memsearch"
VIEWS = ["request", "diff", "reply", "costs"]


def check_both(chat, state, found):
    """Look at a state, light and dark, wide and narrow."""
    for size in (WIDE, NARROW):
        chat.page.set_viewport_size(size)
        for scheme in ("light", "dark"):
            chat.page.emulate_media(color_scheme=scheme)
            found += [f"{state}, {size['width']} px, {scheme}: {rule}" for rule in find_serious(chat.page)]
        if not is_within(chat.page):
            found.append(f"{state}, {size['width']} px: wider than the window")
    chat.page.set_viewport_size(WIDE)


def let_work(chat, word):
    """Let the model plan, write, run a program that prints, fail a call, search and answer."""
    rounds = [
        called("react.plan", {"mode": "new", "steps": ["Look", "Write", "Tell"]}, notes="I make a plan."),
        called(
            "react.write",
            {"path": "outputs/a.md", "content": "# A\n\nText.", "kind": "file"},
            notes="I write.",
        ),
        coded(
            "open('outputs/b.txt', 'w').write('b'); print('-0', 'a' * 200)",
            "outputs/b.txt",
            notes="I compute.",
        ),
        called("react.read", {"paths": ["fi:turn_x.outputs/none.md"]}, notes="I read."),
        called("web_tools.web_search", {"queries": ["caching"]}, notes="I search."),
        answered(ANSWER, followups=["What else?"]),
    ]
    for text in rounds:
        chat.stage.fault(kind="fixture", match=word, text=text, token_delay_ms=0)


def test_axe_finds_nothing_serious_before_the_first_message_and_signed_out(open_page):
    chat, found = open_page(), []
    chat.sign_in()
    check_both(chat, "first run", found)
    chat.page.keyboard.press("Tab")
    chat.page.get_by_role("button", name="More").click()
    check_both(chat, "menu", found)
    chat.page.get_by_role("button", name="Keyboard").click()
    check_both(chat, "list of keys", found)
    chat.page.keyboard.press("Escape")
    for name in ("a.csv", "b.exe"):
        file = {"name": name, "mimeType": "", "buffer": b"MZ\x90\x00" if name == "b.exe" else b"a,b\n1,2\n"}
        chat.page.locator("form.composer input[type=file]").set_input_files(file)
    expect(chat.page.locator("li.upload.refused")).to_have_count(1)
    expect(chat.page.locator("li.upload.ready")).to_have_count(1)
    check_both(chat, "attachments", found)
    chat.page.on("dialog", lambda dialog: dialog.accept())
    chat.page.get_by_role("button", name="More").click()
    chat.page.get_by_role("button", name="Sign out").click()
    chat.page.wait_for_url("**/signed-out")
    check_both(chat, "signed out", found)
    assert found == []


def test_axe_finds_nothing_serious_in_a_thread_its_files_its_search_and_its_timeline(chat):
    found, word = [], a_word()
    let_work(chat, word)
    turn = chat.take_turn(f"Do all of it: {word}")
    check_both(chat, "idle", found)
    for line in turn.locator("li.round button.line").all():
        if line.get_attribute("aria-expanded") != "true":
            line.click()
    turn.get_by_role("button", name=re.compile("token units")).click()
    turn.get_by_role("button", name="Bad answer").click()
    check_both(chat, "everything open", found)
    chat.margin.get_by_role("link", name="a.md").click()
    expect(chat.page.get_by_role("region", name="Preview of a.md")).to_contain_text("Text.")
    check_both(chat, "file", found)
    chat.page.get_by_role("button", name="Close").click()
    chat.page.set_viewport_size(NARROW)
    for name in ("Show conversations", "Plan, files, sources"):
        chat.page.get_by_role("button", name=name).click()
        found += [f"{name}: {rule}" for rule in find_serious(chat.page)]
        chat.page.keyboard.press("Escape")
    chat.page.set_viewport_size(WIDE)
    check_timeline(chat, found)
    chat.use_letters()
    chat.page.keyboard.press("/")
    chat.page.keyboard.type(word)
    expect(chat.page.get_by_role("region", name="Search")).to_contain_text(word)
    check_both(chat, "search", found)
    assert found == []


def check_timeline(chat, found):
    chat.page.get_by_role("navigation", name="Views").get_by_role("link", name="Timeline").click()
    address = chat.page.url.partition("?")[0]
    for view in VIEWS:
        chat.page.evaluate(
            "address => { history.pushState(null, '', address); dispatchEvent(new PopStateEvent('popstate')) }",
            f"{address}?view={view}",
        )
        expect(chat.page.locator(".bench")).to_be_visible()
        expect(chat.page.locator("[aria-busy=true]")).to_have_count(0)
        check_both(chat, f"timeline, {view}", found)
    chat.page.get_by_role("navigation", name="Views").get_by_role("link", name="Chat").click()


def test_axe_finds_nothing_serious_while_a_turn_runs(chat):
    found, word = [], a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=60)
    chat.say(f"Tell me about the word {word}.")
    chat.await_answer()
    check_both(chat, "running", found)
    assert "idle" not in chat.readout.inner_text()
    chat.stop()
    chat.await_idle()
    assert found == []


def test_axe_finds_nothing_serious_while_a_call_waits_for_a_person(chat):
    found, word = [], a_word()
    with approvals(chat.stage, {TOOL: "always"}):
        chat.stage.fault(kind="fixture", match=word, text=called(TOOL, {"query": word}), token_delay_ms=0)
        chat.say(f"Do it: {word}")
        card = chat.turns.last.get_by_role("region", name=f"Allow {TOOL}?")
        expect(card.get_by_role("button", name="Approve")).to_be_enabled()
        check_both(chat, "waits", found)
        for name in ("Deny", "Edit"):
            card.get_by_role("button", name=name).press("Enter")
            expect(card.get_by_role("textbox")).to_be_focused()
            check_both(chat, name, found)
            chat.page.keyboard.press("Escape")
            expect(card.locator(":focus")).to_have_count(1)
        card.get_by_role("button", name="Deny").press("Enter")
        chat.page.keyboard.press("Enter")
        chat.await_idle()
    assert chat.page.evaluate("document.activeElement !== document.body")
    assert found == []


def test_a_page_at_320_pixels_and_at_twice_the_size_is_read_without_scrolling_sideways(open_page):
    chat = open_page(viewport={"width": 320, "height": 640})
    chat.sign_in()
    word = a_word()
    let_work(chat, word)
    turn = chat.take_turn(f"Do all of it: {word}")
    for line in turn.locator("li.round button.line").all():
        if line.get_attribute("aria-expanded") != "true":
            line.click()
    for width, text in ((320, "16px"), (640, "32px"), (1360, "32px")):
        chat.page.set_viewport_size({"width": width, "height": 640})
        chat.page.evaluate("size => { document.documentElement.style.fontSize = size }", text)
        assert beside(chat.page) == [], (width, text)
        assert is_within(chat.page)
        expect(chat.field).to_be_in_viewport()


def beside(page):
    """Return the elements outside of the window that no scrolling container reaches."""
    return page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter(element => {
          const box = element.getBoundingClientRect();
          if (box.width === 0 || box.right <= innerWidth + 1) return false;
          for (let over = element.parentElement; over; over = over.parentElement)
            if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(over).overflowX) && over.clientWidth < innerWidth)
              return false;
          return true;
        }).slice(0, 5).map(element => `${element.tagName}.${element.className}`)"""
    )


def test_forced_colours_keep_the_nodes_and_less_motion_has_none(open_page):
    chat = open_page(forced_colors="active", reduced_motion="reduce")
    chat.sign_in()
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=40)
    chat.say(f"Tell me about the word {word}.")
    chat.await_answer()
    moving = chat.page.evaluate(
        "document.getAnimations().filter(one => one.effect.getComputedTiming().activeDuration > 1).length"
    )
    assert moving == 0
    chat.stop()
    chat.await_idle()
    nodes = chat.page.locator("li.round .node")
    assert nodes.count() >= 1
    styles = nodes.evaluate_all(
        "all => all.map(e => getComputedStyle(e).borderTopStyle + getComputedStyle(e).borderTopWidth)"
    )
    assert all(style not in ("none0px", "solid0px") for style in styles), styles
    assert find_serious(chat.page) == []
