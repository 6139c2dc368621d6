"""The inspector of the chat page: its figures are the usage events', and it shows what a round read, said and recorded."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.e2e.page.long_talk import move_in
from tests.e2e.session_client import Device
from tests.e2e.stage import Stage, a_word

pytestmark = pytest.mark.emulator

PLAN = "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
FIGURES = re.compile(r"([\d,]+) read, ([\d,]+) written, ([\d,]+) plain, ([\d,]+) output")


class Talk:
    """A conversation of two turns: a plan in four rounds, and a word that ends at once."""

    def __init__(self, stage, conversation):
        self.stage, self.conversation, self.word = stage, conversation, a_word()
        with Device(stage, conversation) as device:
            for text in (PLAN.format(word=self.word), "Hello there."):
                device.session.say(text)
                device.until_settled()
            self.decisions = device.happened("solver.react.decision")
            self.usages = [event.data for event in device.happened("accounting.usage")]
        self.turn_id = self.decisions[0].turn_id

    def address(self, iteration, view=""):
        place = f"/c/{self.conversation}/timeline/{self.turn_id}/{iteration + 1}"
        return f"{place}?view={view}" if view else place


@pytest.fixture(scope="module")
def taken_turn(deployed_script):
    return Talk(Stage(deployed_script), f"e2e-{a_word()}")


@pytest.fixture
def bench(scripted, taken_turn, open_page):
    """Opens the inspector at a round of the first turn."""

    def begin(iteration, view=""):
        chat = open_page(user=taken_turn.stage.user)
        chat.sign_in(taken_turn.address(iteration, view))
        return chat

    return begin


def column(chat, name):
    return chat.page.get_by_role("region", name=name)


def figures_of(usage):
    """Return read, written, plain and output tokens of a usage."""
    written = usage["cache_write_5m_tokens"] + usage["cache_write_1h_tokens"]
    return (usage["cache_read_tokens"], written, usage["input_tokens"], usage["output_tokens"])


def test_the_figures_of_each_round_are_those_of_the_usage_events(bench, taken_turn):
    chat = bench(3)
    rows = column(chat, "Turns and rounds").locator("a.pick")
    expect(rows).to_have_count(4)
    shown = [numbers(row.locator(".vh").last.text_content()) for row in rows.all()]
    rounds = [event.data["usage"] for event in taken_turn.decisions if event.turn_id == taken_turn.turn_id]
    assert shown == [figures_of(usage) for usage in rounds]
    assert tuple(map(sum, zip(*shown, strict=True))) == figures_of(taken_turn.usages[0])
    read, written, plain, _ = shown[3]
    strip = chat.page.locator(".strip")
    expect(strip).to_contain_text(f"{read + written + plain:,}")
    expect(column(chat, "What the model saw").locator("p.key").first).to_contain_text(
        re.compile(rf"cache {read:,}\D*written {written:,}\D*plain {plain:,}")
    )


def numbers(row):
    return tuple(int(figure.replace(",", "")) for figure in FIGURES.search(row).groups())


def test_a_request_is_shown_byte_for_byte_with_the_marks_of_its_cache(bench, taken_turn):
    chat = bench(2)
    seen = column(chat, "What the model saw")
    expect(seen.locator(".proof")).to_contain_text("These are the bytes that were sent")
    marks = seen.locator("p.cachemark")
    expect(marks.first).to_contain_text("mark 1")
    view = taken_turn.stage.over_http(taken_turn.stage.user).get(
        f"/v1/conversations/{taken_turn.conversation}/requests/{decided_n(taken_turn, 2)}"
    )
    assert marks.count() == sum(bool(part["mark"]) for part in view["parts"])
    expect(seen).to_contain_text("the system part")
    expect(seen).to_contain_text("USER MESSAGE")
    expect(seen).to_contain_text(PLAN.format(word=taken_turn.word))


def decided_n(taken_turn, iteration):
    turns = taken_turn.stage.over_http(taken_turn.stage.user).get(
        f"/v1/conversations/{taken_turn.conversation}/timeline"
    )["turns"]
    return turns[0]["rounds"][iteration]["decided_n"]


def test_two_requests_are_compared_and_the_first_difference_is_marked(bench, taken_turn):
    chat = bench(2, "diff")
    seen = column(chat, "What the model saw")
    expect(seen.get_by_label("Compare with")).to_have_value("1")
    expect(seen).to_contain_text("From turn 1, round 2 to turn 1, round 3")
    expect(seen.get_by_text("The cache ends here.")).to_be_visible()
    expect(seen.locator("[data-op=added]").filter(has_text="TOOL RESULT").first).to_be_visible()
    seen.get_by_label("Compare with").select_option(label="turn 2, round 1")
    expect(seen).to_contain_text("From turn 1, round 3 to turn 2, round 1")
    assert chat.page.url.endswith(".1")


def test_a_reply_and_the_log_beside_it_are_those_that_are_recorded(bench, taken_turn):
    chat = bench(3, "reply")
    reply = column(chat, "What the model saw").locator(".reply")
    expect(reply).to_contain_text("complete, accepted")
    expect(reply).to_contain_text(taken_turn.word)
    batches = taken_turn.stage.log(taken_turn.conversation)
    rows = column(chat, "The log").locator("li[data-n]")
    expect(rows).to_have_count(len(batches))
    assert [row.get_attribute("data-n") for row in rows.all()] == [str(batch["n"]) for batch in batches]
    decided = column(chat, "The log").locator("li[aria-current=true]")
    expect(decided).to_have_attribute("data-n", str(decided_n(taken_turn, 3)))
    expect(decided).to_contain_text("round 4")


def test_a_replay_of_a_round_is_shown_beside_the_recorded_reply_and_changes_nothing(bench, taken_turn):
    chat = bench(3, "replay")
    seen = column(chat, "What the model saw")
    before = taken_turn.stage.log(taken_turn.conversation)
    expect(seen.get_by_role("region", name="Recorded", exact=True)).to_contain_text(taken_turn.word)
    seen.get_by_label("Effort").select_option("low")
    seen.get_by_role("button", name="Replay this round").press("Enter")
    replayed = seen.get_by_role("region", name="1: effort low", exact=True)
    expect(replayed).to_contain_text("complete, accepted", timeout=60_000)
    expect(replayed).to_contain_text(taken_turn.word)
    chat.page.set_viewport_size({"width": 380, "height": 800})
    expect(chat.page.get_by_role("region", name="1: effort low", exact=True)).to_be_visible()
    assert chat.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert taken_turn.stage.log(taken_turn.conversation) == before


def test_t_leads_to_the_same_round_of_the_chat_and_back(bench, taken_turn):
    chat = bench(1)
    expect(chat.page.locator(".strip")).to_contain_text("turn 1 · round 2")
    chat.use_letters()
    chat.page.keyboard.press("t")
    aimed = chat.turns.first.locator("li.round[data-round='2']")
    expect(aimed.get_by_role("region", name="react.write")).to_be_visible()
    assert chat.page.url.endswith(f"/t/{taken_turn.turn_id}/r/2")
    aimed.locator("button.line").focus()
    chat.page.keyboard.press("t")
    expect(chat.page.locator(".strip")).to_contain_text("turn 1 · round 2")
    chat.page.keyboard.press("j")
    expect(chat.page.locator(".strip")).to_contain_text("turn 1 · round 3")


@pytest.mark.parametrize("turns", [25, 250])
def test_a_long_conversation_opens_at_the_top_with_one_scrollbar_a_panel(chat, tmp_path, turns):
    name = move_in(chat.stage, f"e2e-{a_word()}", turns, tmp_path)
    chat.open(f"/c/{name}")
    chat.page.get_by_role("link", name="Timeline", exact=True).click()
    current = column(chat, "Turns and rounds").locator("a.pick[aria-current]")
    expect(current).to_contain_text(f"turn {turns}, round 1")
    expect(current).to_be_in_viewport()
    expect(column(chat, "The log").locator("li[aria-current=true]")).to_be_in_viewport()
    assert chat.page.evaluate("[scrollY, document.documentElement.scrollHeight - innerHeight]") == [0, 0]
    expect(chat.page.locator(".bar")).to_be_in_viewport(ratio=1)


def test_a_running_round_has_a_row_and_its_log_until_its_figures_arrive(chat):
    word = a_word()
    chat.stage.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=60)
    chat.say(f"Tell me about the word {word}.")
    chat.await_answer(word)
    chat.page.get_by_role("link", name="Timeline", exact=True).click()
    rows, log = column(chat, "Turns and rounds").locator("a.pick"), column(chat, "The log")
    expect(rows).to_contain_text(re.compile("turn 1, round 1: .*round 1 · deciding.*running"))
    expect(log.locator("li[data-n]").last).to_contain_text("opened")
    chat.await_idle()
    expect(rows).to_contain_text(re.compile(r"[\d,]+ read, [\d,]+ written"))
    expect(log.locator("li[aria-current=true]")).to_contain_text("round 1")
    expect(log.locator("li[data-n]").last).to_contain_text("answer:")
    expect(column(chat, "What the model saw").locator(".proof")).to_be_visible()
