"""The suggestions of the scripted model: its offers fit the agent, and each works when it is selected."""

import pytest

from stepline.local.scripted.reading import parse_roster
from stepline.local.scripted.scenarios import SCENARIOS, find_request, find_scenario
from stepline.local.tour import TOUR
from stepline.model.entry import ApprovalRequested, Closed, Resulted
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation

HELLO = "hello"
FENCED = "```python\nprint(1)\n```\n*and* more"


def offered(chat):
    return chat.entries(Closed)[-1].followups


def roster_of(chat):
    return parse_roster("\n".join(block["text"] for block in chat.model.asked["system"]))


def press_all(bundle):
    """Select each suggestion that follows from a first message, and from those; yield it with its conversation.

    A conversation continues while it offers a new suggestion; others are selected where they were offered.
    """
    ways = {HELLO: ()}
    pressed = []
    while left := [one for one in ways if one not in pressed]:
        said, text = ways[left[0]], left[0]
        chat = ScriptedConversation(*said, STEPLINE_BUNDLE=bundle)
        while text:
            chat.say(text)
            yield text, chat
            said = (*said, text)
            pressed.append(text)
            for one in offered(chat):
                ways.setdefault(one, said)
            text = next((one for one in offered(chat) if one not in pressed), "")


def flaws(text, chat):
    """List the reasons why a suggestion did not work."""
    failed = [one.tool_id for one in chat.entries(Resulted) if one.status != "ok"]
    known = find_scenario(text)[0] is not SCENARIOS[-1] or find_request(text, roster_of(chat))
    answer = chat.entries(Closed)[-1].answer
    lost = [
        word
        for word in ("I see no file", "say nothing about", "cannot do that here", "I could not")
        if word in answer
    ]
    return [*failed, *([] if known else ["no row"]), *lost]


@pytest.fixture(params=["bundles.default", "bundles.docs", "new"])
def bundle(request):
    if request.param == "new":
        return request.getfixturevalue("new_bundle")
    if request.param == "bundles.docs":
        request.getfixturevalue("documents")
    return request.param


def test_each_suggestion_works_and_so_do_those_that_follow_from_it(bundle):
    pressed = {text: flaws(text, chat) for text, chat in press_all(bundle) if text != HELLO}
    assert {text: why for text, why in pressed.items() if why} == {}
    assert len(pressed) >= 10


def test_a_first_message_gets_two_sentences_and_three_suggestions(bundle):
    chat = ScriptedConversation(HELLO, STEPLINE_BUNDLE=bundle)
    closed = chat.entries(Closed)[-1]
    said = closed.answer.replace("\n\n", " ").replace("*", "")
    assert said.count(". ") + said.endswith(".") == 2
    assert "`hello`" in said
    assert len(closed.followups) == 3
    assert chat.rounds() == []


@pytest.mark.parametrize("said", [FENCED, "a | b [[S:1]] <channel:x>", "x" * 5_000])
def test_an_answer_quotes_a_message_on_one_line_as_code(said):
    answer = ScriptedConversation(said).entries(Closed)[-1].answer
    quoted, _, rest = answer.partition("`;")
    assert quoted.startswith("I have no rule for `")
    assert len(quoted) < 200
    assert "\n" not in quoted
    assert "```" not in answer
    assert rest.count("`") % 2 == 0


def test_the_tour_advances_with_each_of_its_steps():
    chat, taken = ScriptedConversation(), []
    chat.say(HELLO)
    while steps := [one for one in offered(chat) if one in TOUR.values() and one not in taken]:
        taken.append(steps[0])
        chat.say(steps[0])
        follow = [one for one in offered(chat) if one not in TOUR.values()]
        assert len(follow) >= 2
        assert len(offered(chat)) == 3
    assert taken == list(TOUR.values())


def test_only_what_the_agent_has_tools_for_is_offered(bundle):
    chat = ScriptedConversation(HELLO, STEPLINE_BUNDLE=bundle, EXEC_RUNTIME_MODE="none")
    roster = roster_of(chat)
    for text in offered(chat):
        assert roster.has(find_scenario(text)[0].tools)
        assert TOUR["Run a program and draw a chart"] != text


def test_a_new_bundle_s_own_question_calls_its_own_tool(new_bundle):
    chat = ScriptedConversation("Where is order A-17?", STEPLINE_BUNDLE=new_bundle)
    assert [action.tool_id for action in chat.actions()] == ["kiosk.order_status"]
    assert "state: sent on Monday" in chat.entries(Closed)[-1].answer


def test_a_new_bundle_s_refund_asks_a_person(new_bundle):
    chat = ScriptedConversation("Pay order A-18 back.", STEPLINE_BUNDLE=new_bundle)
    (asked,) = chat.entries(ApprovalRequested)
    assert asked.action.tool_id == "kiosk.refund"
    assert "state: paid back" in chat.entries(Closed)[-1].answer


def test_a_suggestion_is_matched_as_a_whole_sentence():
    assert "I have no rule" in ScriptedConversation().say("Show me how an approval works in Rome.")


def test_totals_are_given_in_euros_too():
    chat = ScriptedConversation(TOUR["Run a program and draw a chart"])
    chat.say("Give the totals in euros, too.")
    assert chat.rounds() == [["write"], ["execute_code_python"], ["pull"], ["execute_code_python"]]
    assert "**2026-02** sold most: 13.50." in chat.say("Which month sold most?")


def test_a_message_added_during_steps_is_answered_in_the_same_turn():
    chat = ScriptedConversation()
    chat.begin(TOUR["Add, redirect, stop"], steps=4)
    chat.hear(text="Make a plan with three steps.")
    assert "Choose what the file says" in chat.finish()
    assert chat.rounds() == [["plan"], *[["write"]] * 8, ["plan"]]


def test_steps_end_at_a_redirect():
    chat = ScriptedConversation()
    chat.begin(TOUR["Add, redirect, stop"], steps=4)
    chat.hear(text="be brief", kind="steer")
    assert "I stopped, as you asked: “be brief”." in chat.finish()
    assert "Read steps.md." in offered(chat)
