"""The test kit: whole turns of a bundle with a scripted list of decisions."""

import json

import pytest

from bundles.default import WORKFLOW
from stepline import BaseWorkflow, InputError, NotFoundError, Tool, ToolError, ToolOutput, ToolSpec
from stepline.ports.model import ModelRequest, Part
from stepline.testing import Conversation, answer, call_tool, run_turn, together

SPEC = ToolSpec(
    tool_id="shop.price",
    purpose="Look up what something costs.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["name"],
        "properties": {"name": {"type": "string", "description": "what to look up"}},
    },
    returns="the price",
    effect="pure",
    read_only=True,
    strategies=("exploration",),
    reads="parameters",
)
LAMP = call_tool("shop.price", {"name": "lamp"})


def price(params, context):
    match params["name"]:
        case "lamp" | "chair" as name:
            context.emit("shop.looked", {"name": name})
            return ToolOutput(blocks=(context.result(SPEC.tool_id, {"status": "ok", "eur": 12.5}),))
        case "word":
            asked = ModelRequest(role="shop", system=(), content=(Part(text="a word?"),), max_tokens=9)
            with context.services.model.stream(asked) as stream:
                return ToolOutput(blocks=(context.result(SPEC.tool_id, "".join(stream)),))
        case "bug":
            raise ZeroDivisionError
        case other:
            raise ToolError(f"there is no {other}", code="not_sold")


TOOLS = (Tool(spec=SPEC, run=price),)


class Shop(BaseWorkflow):
    tools_module = __name__

    @staticmethod
    def pre_run_hook(hook):
        hook.contribute([{"text": f"{hook.user} is a customer."}])

    @staticmethod
    def post_run_hook(hook):
        if hook.closed.answer == "Break.":
            raise ZeroDivisionError


def run(*decisions, **fields):
    return run_turn(Shop, "What does the lamp cost?", decisions=decisions, **fields)


def code_of(*decisions, **fields):
    with pytest.raises(InputError) as caught:
        run(*decisions, **fields)
    return caught.value.reason


def test_a_turn_has_its_answer_its_results_its_blocks_and_its_events():
    turn = run(LAMP, answer("12.50 euros.", followups=["When does it come?"]))
    assert turn.answer == "12.50 euros."
    assert turn.ended.followups == ("When does it come?",)
    assert turn.result("shop.price").data == {"status": "ok", "eur": 12.5}
    assert [block.type for block in turn.blocks if block.tool_id == "shop.price"] == [
        "react.tool.call",
        "react.tool.result",
    ]
    kinds = [event.type for event in turn.events]
    assert [one for one in kinds if one in ("chat.start", "react.tool.event", "chat.complete")] == [
        "chat.start",
        "react.tool.event",
        "chat.complete",
    ]


def test_the_bundles_hook_runs_and_the_model_reads_its_text():
    turn = run(answer("Hello."), user="ada")
    assert "ada is a customer." in turn.requests[0]
    assert "shop.price" in turn.requests[0]


def test_a_refusal_of_a_tool_is_an_error_with_its_code():
    turn = run(call_tool("shop.price", {"name": "moon"}), answer("We do not sell it."))
    assert turn.result("shop.price").error["code"] == "not_sold"
    assert turn.result("shop.price").status == "error"
    assert "there is no moon" in turn.requests[1]


def test_a_decision_that_the_protocol_refuses_runs_nothing_and_has_its_notice():
    turn = run(call_tool("shop.price", {"nam": "lamp"}), answer("I cannot."))
    assert [notice.code for notice in turn.notices] == ["bad_params"]
    assert turn.results == ()
    with pytest.raises(NotFoundError) as caught:
        turn.result("shop.price")
    assert caught.value.reason == "tool_not_called"


def test_a_text_is_a_generation_as_it_is():
    turn = run("I feel like talking.", answer("Hello."))
    assert [notice.code for notice in turn.notices] == ["decision_preamble_before_first_channel"]


def test_a_tool_that_asks_the_model_takes_the_next_of_the_list():
    turn = run(call_tool("shop.price", {"name": "word"}), "kumquat", answer("A word."))
    assert turn.result("shop.price").data == "kumquat"
    assert turn.requests[1] == "a word?"


def test_several_turns_are_one_conversation():
    with Conversation(Shop) as conversation:
        first = conversation.run("What does the lamp cost?", decisions=[LAMP, answer("12.50 euros.")])
        second = conversation.run({"text": "And two?"}, decisions=[answer("25 euros.")])
    assert "12.50 euros." in second.requests[0]
    assert second.results == ()
    assert second.ended.turn_id != first.ended.turn_id
    assert {block.turn_id for block in second.blocks} == {second.ended.turn_id}


def test_a_source_that_a_tool_found_has_its_number():
    search = call_tool("web_tools.web_search", {"queries": "prompt caching"})
    turn = run_turn(WORKFLOW, "How long?", decisions=[search, answer("Five minutes [[S:1]].")])
    assert turn.sources[1].url.startswith("https://")
    assert [cited.sid for cited in turn.ended.sources] == [1]


def test_settings_reach_the_agent():
    both = together(LAMP, call_tool("shop.price", {"name": "chair"}))
    several = {"AI_REACT_AGENT_MULTI_ACTION": "safe_fanout"}
    assert len(run(both, answer("25."), settings=several).results) == 2
    assert len(run(both, answer("25.")).results) == 1


def test_a_bundle_is_named_by_its_package_too():
    assert run_turn("bundles.default", "Hello.", decisions=[answer("Hello.")]).answer == "Hello."
    with pytest.raises(InputError) as caught:
        Conversation("bundles.shpo")
    assert caught.value.reason == "bundle_not_found"


def test_a_list_that_runs_out_and_one_that_is_left_over_are_errors():
    assert code_of(LAMP) == "decisions_exhausted"
    assert code_of(answer("12.50 euros."), LAMP) == "decisions_left"


def test_an_unknown_tool_is_an_error_that_names_those_there_are():
    with pytest.raises(InputError, match=r"There are .*shop\.price") as caught:
        run(call_tool("shop.prize"), answer("Hello."))
    assert caught.value.reason == "unknown_tool_id"


def test_an_exception_of_a_tool_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        run(call_tool("shop.price", {"name": "bug"}))


def test_an_exception_of_a_hook_is_raised_though_the_turn_has_its_answer():
    with pytest.raises(ZeroDivisionError):
        run(answer("Break."))


def test_the_conversation_continues_after_a_failed_turn():
    with Conversation(Shop) as conversation:
        with pytest.raises(ZeroDivisionError):
            conversation.run("Hello.", decisions=[call_tool("shop.price", {"name": "bug"})])
        again = conversation.run("Again.", decisions=[LAMP, answer("12.50 euros.")])
    assert [result.status for result in again.results] == ["ok"]


ASKING = {"STEPLINE_APPROVALS": '{"shop.*": "always"}'}


def test_a_call_that_waits_for_a_person_is_answered_in_the_test():
    with Conversation(Shop, settings=ASKING) as conversation:
        asked = conversation.run("What does the lamp cost?", decisions=[LAMP])
        approved = conversation.answer_call("approved", decisions=[LAMP])
        denied = conversation.answer_call("denied", text="Once is enough.", decisions=[answer("12.50.")])
    assert [turn.ended.outcome for turn in (asked, approved, denied)] == ["parked", "parked", "completed"]
    assert approved.result("shop.price").data["eur"] == 12.5
    assert denied.result("shop.price").error["code"] == "denied"
    assert "Once is enough." in denied.requests[0]


def test_an_answer_without_a_call_that_waits_is_an_error():
    with Conversation(Shop) as conversation, pytest.raises(InputError) as caught:
        conversation.answer_call("approved", decisions=[])
    assert caught.value.reason == "approval_not_pending"


def test_a_decision_is_written_in_the_channels_of_the_protocol():
    thinking, decided = LAMP.text.splitlines()
    assert thinking == "<channel:thinking>Let me see.</channel:thinking>"
    body = decided.removeprefix("<channel:ReactDecisionOutV2>").removesuffix("</channel:ReactDecisionOutV2>")
    assert json.loads(body)["tool_call"] == {"tool_id": "shop.price", "params": {"name": "lamp"}}
