"""The client of AG-UI in examples/copilot, in a browser: it sends, resumes, answers, steers and stops as the log says."""

from __future__ import annotations

import re
import secrets

import pytest
from playwright.sync_api import expect

from tests.e2e.mode import approvals
from tests.e2e.page.ag_ui_page import FOLDER, HARNESS, TURN_MS, AgUiPage
from tests.e2e.page.chat_page import BRIEF
from tests.e2e.page.example_page import build, install, opened
from tests.e2e.page.same_text import bare
from tests.e2e.page.test_page_link import ASKED, Wires
from tests.e2e.stage import Stage, a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

PLAN_AND_FILE = (
    "Make a plan with three steps, write it to a file with the word {word} in it and read it back."
)
TOOL = "react.memsearch"
SLOW_MS = 120


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """The installed example."""
    return install(tmp_path_factory.mktemp("ag_ui"), "copilot")


@pytest.fixture(scope="module")
def built(project, tmp_path_factory):
    """The built page, with the harness."""
    return build(project, tmp_path_factory.mktemp("built") / "page", HARNESS, FOLDER)


@pytest.fixture
def own_page(chromium, project, scripted):
    """The example as its page starts it, at an origin of its own."""
    with opened(chromium, project, scripted) as page:
        yield page


def test_the_example_answers_at_an_origin_of_its_own_and_keeps_its_conversation(own_page):
    word = a_word()
    own_page.get_by_label("Message").fill(PLAN_AND_FILE.format(word=word))
    own_page.get_by_role("button", name="Send", exact=True).click()
    said = own_page.locator("li[data-role=assistant]")
    expect(said.last).to_contain_text(word, timeout=TURN_MS)
    expect(own_page.locator("output")).to_have_text("complete", timeout=TURN_MS)
    texts = said.all_text_contents()
    own_page.reload()
    expect(said).to_have_text(texts)


@pytest.fixture
def client(chromium, scripted, built):
    """The page with a new conversation of a fresh user, connected."""
    context = chromium.new_context()
    page = AgUiPage(context.new_page(), scripted, f"ag-ui-{secrets.token_hex(6)}", built)
    yield page.open().await_connection()
    context.close()
    page.check()


@pytest.fixture
def word(scripted):
    """A word that the model takes some seconds to write about."""
    word = a_word()
    scripted.fault(kind="slow_tokens", match=word, count=1, token_delay_ms=SLOW_MS)
    return word


def ends(client):
    """Return the recorded ends of the turns."""
    page = client.stage.over_http().get(f"/v1/conversations/{client.conversation}/events")
    events = [event for frame in page["events"] for event in frame["events"]]
    return [event["data"] for event in events if event["type"] == "chat.complete"]


def check_same_messages(client, built, *others):
    """Assert that pages have the messages and the state of a page that is opened now."""
    fresh = client.twin(built).open().await_connection()
    expected = fresh.evaluate("[agent.messages, agent.state]")
    for one in (client, *others):
        assert one.evaluate("[agent.messages, agent.state]") == expected
    fresh.page.close()


def test_a_message_is_answered_piece_by_piece_and_the_messages_are_those_of_the_log(client, built, word):
    client.say(ASKED.format(word=word))
    client.await_answer(word)
    client.await_status("complete")
    (end,) = ends(client)
    assert client.texts()[-1] == end["answer"]
    assert client.kinds().count("TEXT_MESSAGE_CONTENT") > 5
    assert client.kinds()[-1] == "RUN_FINISHED"
    client.say(BRIEF)
    client.await_idle(prompts=2)
    assert client.texts()[-1] == ends(client)[-1]["answer"]
    check_same_messages(client, built)


def test_a_reload_and_a_second_tab_in_mid_answer_lose_and_repeat_nothing(client, built, word):
    client.say(ASKED.format(word=word))
    client.await_answer(word)
    client.open()
    twin = client.twin(built).open()
    for one in (client, twin):
        one.await_answer(word)
        one.await_status("complete")
        assert "TEXT_MESSAGE_CONTENT" in one.kinds()  # it did not come too late
    (end,) = ends(client)
    assert client.texts()[-1] == twin.texts()[-1] == end["answer"]
    check_same_messages(client, built, twin)


def test_a_connection_that_is_cut_resumes_by_its_sequence_numbers(chromium, scripted, built, word):
    context = chromium.new_context()
    page = context.new_page()
    wires = Wires(page)
    client = AgUiPage(page, scripted, f"ag-ui-{secrets.token_hex(6)}", built).open().await_connection()
    client.say(ASKED.format(word=word))
    client.await_answer(word)
    made = wires.made
    wires.cut()
    client.await_status("complete")
    assert wires.made > made
    (end,) = ends(client)
    assert client.texts()[-1] == end["answer"]
    said = client.evaluate(
        "events.filter(({ type }) => type === 'TEXT_MESSAGE_CONTENT').map(({ delta }) => delta).join('')"
    )
    assert said.count(end["answer"]) == 1
    numbers = client.evaluate("events.flatMap(({ metadata }) => metadata?.stepline?.n ?? [])")
    assert numbers == sorted(numbers)
    check_same_messages(client, built)
    context.close()


def test_a_stop_ends_the_turn_and_its_answer_is_what_was_shown(client, scripted, built, word):
    client.say(ASKED.format(word=word))
    client.await_answer(word)
    client.press("Stop")
    client.await_status("stopped")
    shown = client.texts()[-1]
    client.page.wait_for_function(
        "async () => (await agent.connectAgent(), agent.state.turn.status === 'stopped')"
    )
    (end,) = ends(client)
    assert end["reason"] == "stop"
    assert end["answer"].startswith(shown)
    assert len(scripted.model_requests(word)) == 1
    assert client.evaluate("events.find(({ outcome }) => outcome)?.outcome") == {"type": "cancelled"}
    assert client.texts()[-1] == end["answer"]
    check_same_messages(client, built)


def test_a_steer_and_a_message_within_the_turn_are_messages_of_the_user(client, built, word):
    more = a_word()
    client.say(ASKED.format(word=word))
    client.await_answer(word)
    client.fill(f"And the word {more}?")
    client.press("Add")
    client.fill("Be brief.")
    client.press("Steer")
    client.await_status("complete")
    assert "Be brief." in client.texts("user")
    assert f"And the word {more}?" in client.texts("user")
    assert client.texts()[-1] == ends(client)[-1]["answer"]
    check_same_messages(client, built)


def test_a_plan_is_in_the_state_and_files_go_both_ways(client, built):
    word = a_word()
    table = {"name": "tons.csv", "mimeType": "text/csv", "buffer": f"month,tons\n{word},1\n".encode()}
    client.say(PLAN_AND_FILE.format(word=word), table)
    client.await_status("complete")
    assert word in client.texts()[-1]
    plan = client.evaluate("agent.state.plan")
    assert len(plan["steps"]) == 3
    assert plan == client.evaluate("agent.messages.find(({ role }) => role === 'activity').content")
    made = client.page.get_by_label("Files").get_by_role("link", name="plan.md")
    expect(made).to_have_count(1)
    answer = client.page.request.get(made.get_attribute("href"))
    assert word in answer.text()
    client.open().await_connection()
    expect(made).to_have_count(1)
    sent = str(client.stage.model_requests(word)[0]["body"])
    assert "tons.csv" in sent
    check_same_messages(client, built)


@pytest.fixture(scope="module")
def asking(deployed_script):
    """A stage that asks a person before it searches a memory."""
    with approvals(Stage(deployed_script), {TOOL: "always"}):
        yield


@pytest.mark.parametrize("verdict", ["Approve", "Deny", "Edit"])
@pytest.mark.usefixtures("asking")
def test_a_call_that_waits_is_an_interrupt_which_a_later_page_answers(client, built, verdict):
    word, other = a_word(), a_word()
    client.stage.fault(kind="fixture", match=word, text=called(TOOL, {"query": word}, notes="I look it up."))
    client.say(f"Do it: {word}")
    client.await_status("waiting")
    client.stage.fault(kind="fixture", match=word, text=answered(f"Done: {word}."))
    client.open().await_connection()
    client.await_status("waiting")
    assert client.evaluate("agent.state.approvals.map(({ tool_id }) => tool_id)") == [TOOL]
    client.fill({"Approve": "", "Deny": "Not today.", "Edit": f'{{"query": "{other}"}}'}[verdict])
    client.press(verdict)
    client.await_status("complete")
    assert re.match(f"Done: {word}", client.texts()[-1])
    said = str(client.stage.model_requests(word)[-1]["body"])
    assert {"Approve": word, "Deny": "Not today.", "Edit": other}[verdict] in said
    check_same_messages(client, built)


def test_the_stages_own_page_and_a_client_of_ag_ui_agree(open_page, built, word):
    chat = open_page()
    chat.sign_in()
    chat.say(ASKED.format(word=word))
    chat.await_answer(word)
    client = AgUiPage(chat.open_tab(), chat.stage, chat.conversation, built).open()
    client.await_answer(word)
    client.await_status("complete")
    chat.await_idle()
    client.say(BRIEF)
    client.await_idle(prompts=2)
    expect(chat.turns).to_have_count(2)
    chat.await_idle()
    assert [end["answer"] for end in ends(client)] == client.texts()
    assert bare(chat.answer_of(chat.turns.last)) in bare(client.texts()[-1])
    check_same_messages(client, built)
