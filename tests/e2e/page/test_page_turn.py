"""A turn on the chat page: its plan, tools, program, citations, files, receipt and feedback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from stepline.local.tour import TOUR
from tests.e2e.page.chat_page import BRIEF
from tests.e2e.sales import WRITE
from tests.e2e.session_client import Device
from tests.e2e.stage import Stage, a_word

pytestmark = pytest.mark.emulator

PLAN = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
TOTALS = "Compute the monthly totals of sales.csv and draw a chart."
SEARCH = "Search for prompt caching and tell me what you find."


@pytest.fixture(scope="module")
def stored_turn(deployed_script):
    """A user, and a conversation of one turn of another client: its name, and the word in its file."""
    stage, word = Stage(deployed_script), a_word()
    with Device(stage, f"e2e-{word}") as device:
        device.session.say(PLAN.format(word=word))
        device.until_settled()
    return stage.user, f"e2e-{word}", word


@pytest.fixture
def planned(stored_turn, open_page):
    """The page of that user at that conversation."""
    user, name, _ = stored_turn
    chat = open_page(user=user)
    chat.sign_in(f"/c/{name}")
    expect(chat.turns).to_have_count(1)
    return chat


def test_a_plan_a_file_and_the_answer_are_seen_and_come_back_after_a_reload(chat):
    word = a_word()
    turn = chat.take_turn(PLAN.format(word=word))
    expect(turn.locator("h2.said")).to_have_text(PLAN.format(word=word))
    expect(turn.locator("li.round")).to_have_count(4)
    assert word in chat.answer_of(turn)
    plan = chat.margin.locator("ol.plan li")
    expect(plan).to_have_count(3)
    expect(plan.locator("[role=img][aria-label=done]")).to_have_count(3)
    seen = chat.thread_text()
    chat.page.reload()
    chat.await_idle()
    expect(chat.turns).to_have_count(1)
    assert chat.thread_text() == seen


def test_a_file_that_was_written_is_opened_closed_and_saved(planned, stored_turn):
    chat, word = planned, stored_turn[-1]
    chat.margin.get_by_role("link", name="plan.md").click()
    preview = chat.page.get_by_role("region", name="Preview of plan.md")
    expect(preview).to_contain_text(f"Word: {word}")
    with chat.page.expect_download() as saving:
        preview.get_by_role("button", name="Download").click()
    assert f"Word: {word}" in Path(saving.value.path()).read_text()
    assert "/f/" in chat.page.url
    preview.get_by_role("button", name="Close").click()
    expect(preview).to_have_count(0)
    assert "/f/" not in chat.page.url


def test_a_program_is_seen_with_its_source_its_output_and_its_files(chat, computing):
    chat.take_turn(WRITE)
    turn = chat.take_turn(TOTALS)
    chat.open_round(turn, "exec_tools.execute_code_python")
    card = turn.get_by_role("region", name=re.compile("Program"))
    expect(card).to_contain_text("import pandas")
    for state in ("Started in", "Ran for", "Collected in"):
        expect(card.locator("dt", has_text=state)).to_be_visible()
    turn.get_by_role("button", name=re.compile("token units")).click()
    expect(turn.locator(".receipt")).to_contain_text(re.compile("s starting programs.* between steps"))
    summary = [event["data"] for event in chat.events() if event["type"] == "chat.turn.summary"][-1]
    elapsed_ms = summary.pop("elapsed_ms")
    assert sum(ms for name, ms in summary.items() if name.endswith("_ms")) == elapsed_ms
    card.get_by_role("tab", name="Log").click()
    expect(card.get_by_role("tabpanel")).to_contain_text("-0")
    card.get_by_role("tab", name="Files").click()
    expect(card.get_by_role("tabpanel")).to_contain_text(".png")
    expect(chat.margin.get_by_text(re.compile(r"\.png"))).to_be_visible()


def test_a_citation_of_the_answer_is_shown_as_a_source(chat):
    turn = chat.take_turn(SEARCH)
    chip = turn.locator("a.cite").first
    expect(chip).to_have_text("1")
    chip.focus()
    card = chat.page.locator(f"[id='{chip.get_attribute('aria-describedby')}']")
    expect(card).to_contain_text("prompt", ignore_case=True)
    expect(chat.margin).to_contain_text("Sources")


def test_the_receipt_has_the_tokens_of_the_usage_event_and_no_dollars(planned):
    chat, turn = planned, planned.turns.last
    usage = [e for e in chat.events() if e["type"] == "accounting.usage"][-1]["data"]
    turn.get_by_role("button", name=re.compile("token units")).click()
    expect(turn.locator(".receipt tfoot").first).to_be_visible()
    tokens = turn.locator(".receipt tfoot").first.locator("td").all_inner_texts()
    written = usage["cache_write_5m_tokens"] + usage["cache_write_1h_tokens"]
    figures = [usage["cache_read_tokens"], written, usage["input_tokens"], usage["output_tokens"]]
    assert [f"{figure:,}" for figure in figures] == tokens[-4:]
    models = turn.locator(".costs tbody").first.locator("td:last-child")
    assert models.all_inner_texts() == ["free" for _ in usage["lines"]]
    turn.get_by_role("button", name="What is a token unit?").focus()
    expect(turn.get_by_role("tooltip")).to_be_in_viewport(ratio=1)
    chat.page.keyboard.press("Escape")
    expect(turn.get_by_role("tooltip")).to_be_hidden()
    turn.get_by_role("button", name="What is a token unit?").click()
    expect(turn.get_by_role("tooltip")).to_contain_text("one plain input token")


def test_a_rating_with_a_comment_is_kept_and_withdrawn(chat):
    turn = chat.take_turn(BRIEF)
    turn.get_by_role("button", name="Bad answer").click()
    turn.get_by_role("textbox").fill("Too long.")
    chat.page.keyboard.press("Enter")
    expect(turn.locator(".feedback-said").first).to_have_text("Thanks for the feedback.")
    chat.page.reload()
    chat.await_idle()
    expect(chat.turns.last).to_contain_text("Too long.")
    bad = chat.turns.last.get_by_role("button", name="Bad answer")
    expect(bad).to_have_attribute("aria-pressed", "true")
    bad.click()
    expect(bad).to_have_attribute("aria-pressed", "false")
    given = [e["data"] for e in chat.wait_for_events("turn.feedback", 3)]
    assert [event["reaction"] for event in given] == ["not_ok", "not_ok", None]
    assert (given[1]["text"], given[2]["withdrawn"]) == ("Too long.", True)


def test_a_suggestion_fills_the_field_and_is_sent_with_shift(chat):
    chip = chat.take_turn(BRIEF).get_by_role("button", name=TOUR["Make a plan and save it"])
    chip.click()
    expect(chat.field).to_have_value(TOUR["Make a plan and save it"])
    expect(chat.field).to_be_focused()
    chip.click(modifiers=["Shift"])
    expect(chat.turns).to_have_count(2)
    chat.await_idle()
    assert "kumquat" in chat.answer_of(chat.turns.last)
