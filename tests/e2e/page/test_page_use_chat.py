"""The AI SDK's `useChat` in a browser: the page of examples/vite_chat, with React in StrictMode, on the stage."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.mode import approvals
from tests.e2e.page.chat_page import BRIEF, TURN_S, ChatPage
from tests.e2e.page.example_page import build, install, opened
from tests.e2e.page.same_text import check_same_text
from tests.e2e.page.test_page_turn import PLAN, SEARCH
from tests.e2e.page.use_chat_page import HARNESS, PLACE, UseChatPage
from tests.e2e.stage import Stage, a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

ASKED = "Tell me about the word {word}."
BRISK_MS, SLOW_MS = 15, 60
TOOL = "react.memsearch"


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """The installed example."""
    return install(tmp_path_factory.mktemp("use-chat"), "vite_chat")


@pytest.fixture(scope="session")
def files(project, tmp_path_factory):
    """The built page, with the harness."""
    return build(project, tmp_path_factory.mktemp("built") / "page", HARNESS, f"/{PLACE}/")


@pytest.fixture
def own_page(chromium, project, scripted):
    """The example as its page starts it, at an origin of its own."""
    with opened(chromium, project, scripted) as page:
        yield page


def test_the_example_answers_at_an_origin_of_its_own_and_keeps_its_conversation(own_page):
    word = a_word()
    own_page.get_by_label("Message").fill(PLAN.format(word=word))
    own_page.get_by_role("button", name="Send", exact=True).click()
    answer = own_page.locator("article.assistant")
    expect(answer).to_contain_text(word, timeout=TURN_S * 1000)
    expect(own_page.locator("main")).to_have_attribute("data-status", "ready", timeout=TURN_S * 1000)
    text = answer.text_content()
    own_page.reload()
    expect(answer).to_have_text(text)


@pytest.fixture
def open_tab(chromium, files, scripted, conversation):
    """Open a tab of one user at one conversation; at the end nothing that it reported may be left."""
    context, tabs = chromium.new_context(), []
    # The files of a test have no address, and a page without one asks before it reaches this machine.
    context.grant_permissions(["local-network-access"])

    def open_one(**query):
        tabs.append(UseChatPage(context, files, scripted, conversation))
        return tabs[-1].open(**query)

    yield open_one
    context.close()
    for tab in tabs:
        tab.check()


@pytest.fixture
def page(open_tab):
    """A tab at a new conversation."""
    return open_tab()


@pytest.fixture
def slow(scripted):
    """Lets the model write slowly about a new word, the first time it is asked."""

    def begin(delay_ms=BRISK_MS):
        word = a_word()
        scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=delay_ms)
        return word

    return begin


def answers(page):
    return [data["answer"] for data in page.events("chat.complete")]


def reasons(page):
    return [data["reason"] for data in page.events("chat.complete")]


def assistants(page):
    return [message for message in page.has("chat.messages") if message["role"] == "assistant"]


def check_growing(page, answer):
    """Assert that each shown text is a beginning of the answer, none is shorter than one before, and the last is whole."""
    texts = [text for text in page.has("texts") if text]
    assert texts[-1] == answer
    assert [text for text in texts if not answer.startswith(text)] == []
    assert texts == sorted(texts, key=len)


def take_turn(page, text, button="Send"):
    """Say something, and wait for the end of its turn."""
    ended = len(answers(page))
    page.say(text, button)
    page.await_idle(ended + 1)


def test_a_reload_in_mid_stream_and_a_second_tab_lose_and_repeat_nothing(page, open_tab, slow):
    word = slow(SLOW_MS)
    page.say(ASKED.format(word=word))
    page.await_text(word)
    expect(page.main).to_have_attribute("data-status", "streaming")
    page.reload()
    expect(page.main).to_have_attribute("data-status", "streaming")
    page.await_text(word)
    second = open_tab()
    second.await_text(word)
    page.await_status("ready")
    second.await_status("ready")
    (answer,) = answers(page)
    assert page.text.text_content() == answer
    check_growing(page, answer)
    check_growing(second, answer)
    assert second.has("chat.messages") == page.has("chat.messages")
    assert [message["role"] for message in page.has("chat.messages")] == ["user", "assistant"]


def test_stop_ends_the_turn_and_the_log_says_so(page, open_tab, slow):
    word = slow(SLOW_MS)
    page.say(ASKED.format(word=word))
    page.await_text(word)
    second = open_tab()
    second.await_text(word)
    second.press("Stop")
    second.await_status("ready")
    page.await_status("ready")
    page.await_end(1)
    assert reasons(page) == ["stop"]
    assert page.text.text_content() == answers(page)[0]
    assert page.has("chat.lastMessage.metadata.reason") == "stop"
    page.reload()
    assert page.text.text_content() == answers(page)[0]
    take_turn(page, BRIEF)
    assert reasons(page) == ["stop", "complete"]


def test_a_message_that_is_stopped_at_once_is_not_in_the_log(page):
    take_turn(page, BRIEF)
    page.has("void chat.sendMessage({ text: 'too late' }), chat.stop()")
    page.await_status("ready")
    take_turn(page, BRIEF)
    assert [data["text"] for data in page.events("chat.conversation.accepted")] == [BRIEF, BRIEF]


def test_a_turn_is_stopped_before_its_first_text(page, scripted):
    word = a_word()
    scripted.fault(kind="overloaded", match=word, retry_after_s=20)
    page.say(f"Say {word}.")
    expect(page.answer).to_be_attached()
    page.press("Stop")
    page.await_status("ready")
    page.await_end(1)
    assert reasons(page) == ["stop"]
    assert page.messages.count() == 2


def test_a_component_that_is_removed_ends_no_turn_of_a_chat_from_outside(page, slow):
    word = slow()
    page.say(ASKED.format(word=word))
    page.await_text(word)
    page.press("Leave")
    expect(page.main).to_have_count(0)
    page.press("Come back")
    page.await_text(word)
    page.await_status("ready")
    assert reasons(page) == ["complete"]
    assert page.text.text_content() == answers(page)[0]
    check_growing(page, answers(page)[0])


def test_a_chat_of_its_component_begins_once_in_strict_mode_resumes_and_ends_with_it(open_tab, slow):
    word = slow(SLOW_MS)
    page = open_tab(own=ASKED.format(word=word))
    page.press("Send")
    page.await_text(word)
    page.reload()
    page.await_text(word)
    expect(page.main).to_have_attribute("data-status", "streaming")
    assert page.messages.count() == 2
    page.press("Leave")
    page.await_end(1)
    assert reasons(page) == ["stop"]
    assert [data["kind"] for data in page.events("chat.conversation.accepted")] == ["prompt", "steer"]


def test_a_steer_and_a_followup_are_shown_where_they_were_read(page, slow):
    word, other = slow(SLOW_MS), a_word()
    page.say(ASKED.format(word=word))
    page.await_text(word)
    page.say("Be brief.", "Redirect")
    expect(page.answer.locator("blockquote")).to_have_text("Be brief.")
    page.await_end(1)
    page.await_status("ready")
    word = slow()
    page.say(ASKED.format(word=word))
    page.await_text(word)
    page.say(f"And the word {other}?")
    expect(page.answer.locator("blockquote")).to_contain_text(other)
    page.await_status("ready")
    page.await_text(other)
    assert reasons(page) == ["steer", "complete"]
    assert page.text.text_content() == answers(page)[-1]
    read = assistants(page)
    page.reload()
    assert assistants(page) == read


@pytest.fixture(scope="module")
def asking(deployed_script):
    """Let the stage ask a person before it searches a memory."""
    with approvals(Stage(deployed_script), {TOOL: "always"}):
        yield


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize(
    ("button", "state", "result"),
    [
        ("Approve", "output-available", ("ok", "")),
        ("Deny", "output-denied", ("error", "denied")),
    ],
)
def test_a_call_is_approved_or_denied_after_a_reload(page, scripted, button, state, result):
    word = a_word()
    scripted.fault(kind="fixture", match=word, text=called(TOOL, {"query": word}, notes="I look it up."))
    page.say(f"Do it: {word}")
    expect(page.call).to_have_attribute("data-state", "approval-requested")
    page.await_status("ready")
    page.reload()
    expect(page.call).to_contain_text(word)
    scripted.fault(kind="fixture", match=word, text=answered(f"Done: {word}."))
    page.press(button)
    page.await_text(f"Done: {word}.")
    page.await_status("ready")
    expect(page.call).to_have_attribute("data-state", state)
    assert [(e["status"], e.get("code", "")) for e in page.events("react.tool.result")] == [result]
    assert len(page.has("chat.messages")) == 2
    if button == "Deny":
        assert "Not now." in str(scripted.model_requests(word)[-1]["body"])


def test_files_go_both_ways_and_are_there_after_a_reload(page, scripted):
    word = a_word()
    table = {"name": f"{word}.csv", "mimeType": "text/csv", "buffer": f"month,tons\n{word},1\n".encode()}
    page.page.get_by_label("Files").set_input_files(table)
    take_turn(page, PLAN.format(word=word))
    assert f"user.attachments/{word}.csv" in str(scripted.model_requests(word)[-1]["body"])
    assert f"Word: {word}" in text_of(page, "plan.md")
    page.reload()
    assert f"{word},1" in text_of(page, f"{word}.csv")
    assert f"Word: {word}" in text_of(page, "plan.md")


def text_of(page, name):
    """Return what the browser shows at the address of a file, which is opened by a click."""
    with page.page.expect_popup() as opening:
        page.press(name)
    opening.value.wait_for_load_state()
    return opening.value.locator("body").inner_text()


def test_sources_and_plans_are_parts_and_lanes_are_passing_data(open_tab, page):
    word = a_word()
    take_turn(page, SEARCH)
    (source, *_) = page.parts("source-url") or page.parts("source-document")
    assert source["title"]
    take_turn(page, PLAN.format(word=word))
    expect(page.answer.locator("ol").last.locator("li")).to_have_count(3)
    own = open_tab(own=PLAN.format(word=a_word()))
    own.press("Send")
    own.await_end(3)
    own.await_status("ready")
    assert {"data-stepline-lane", "data-stepline-event", "data-stepline-plan"} <= {*own.has("passing")}


def test_an_answer_is_asked_again_and_a_message_is_edited(page):
    word, other = a_word(), a_word()
    take_turn(page, f"Say {word}.")
    page.press("Again")
    page.await_idle(2)
    assert page.messages.count() == 2
    edited = page.has("chat.messages[0].id")
    page.has(f"void chat.sendMessage({{ text: 'Say {other}.', messageId: '{edited}' }})")
    page.await_idle(3)
    assert page.messages.count() == 2
    page.await_text(other)
    said = [data["text"] for data in page.events("chat.conversation.accepted")]
    assert said == [f"Say {word}.", f"Say {word}.", f"Say {other}."]


def test_an_error_is_cleared_and_an_unknown_history_is_continued(page):
    tool = {"name": "tool.exe", "mimeType": "application/octet-stream", "buffer": b"MZ\x90\x00" + bytes(60)}
    page.page.get_by_label("Files").set_input_files(tool)
    page.say("Read it.")
    page.await_status("error")
    expect(page.page.get_by_role("alert")).to_be_visible()
    assert page.has("chat.error.code") == "type_not_allowed"
    page.expected("status of 4")
    page.press("Close")
    page.await_status("ready")
    take_turn(page, BRIEF)
    history = [("x", "user"), ("y", "assistant")]
    parts = [{"type": "text", "text": "from elsewhere"}]
    page.has(f"chat.messages = {[{'id': name, 'role': role, 'parts': parts} for name, role in history]}")
    take_turn(page, BRIEF)
    assert [message["role"] for message in page.has("chat.messages")] == ["user", "assistant"] * 2
    page.has("chat.messages = []")
    take_turn(page, BRIEF)
    assert [message["role"] for message in page.has("chat.messages")] == ["user", "assistant"]


def test_a_steer_of_no_turn_is_an_error_and_not_silence(page):
    take_turn(page, BRIEF)
    page.say("Be brief.", "Redirect")
    expect(page.page.get_by_role("alert")).to_contain_text("nothing_to_steer")
    page.press("Close")
    take_turn(page, BRIEF)


def test_the_chat_page_the_terminal_and_use_chat_agree(page, chromium, scripted, slow):
    take_turn(page, BRIEF)
    ours = ChatPage(chromium, scripted)
    ours.sign_in(f"/c/{page.conversation}")
    word, other = slow(SLOW_MS), a_word()
    ours.say(ASKED.format(word=word))
    ours.await_answer(word)
    page.say(f"And the word {other}?")
    ours.await_idle()
    page.await_status("ready")
    expect(page.answer.locator("blockquote")).to_contain_text(other)
    scripted.command("send", BRIEF, "--conversation", page.conversation, "--user", scripted.user, "--json")
    take_turn(page, f"Say {word}.")
    page.reload()
    page.await_text(word)
    ours.await_idle()
    texts = answers(page)
    assert page.page.locator("article.assistant p:last-child").all_text_contents() == texts
    expect(ours.turns).to_have_count(len(texts))
    check_same_text(ours)
    ours.close()
    ours.check()
