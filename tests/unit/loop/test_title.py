"""The gate before the first round, and titles."""

from __future__ import annotations

from typing import Any

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import Fail, MemoryModelClient
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.errors import ContextLimit, ModelRefused, ModelStreamBroken, ModelTimeout
from stepline.ingress.rename import rename
from stepline.loop.title import ROLE
from stepline.metrics import INPUT_TOKENS
from stepline.model.entry import Closed, Decided, Titled
from stepline.model.usage import estimate_tokens
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.tools.context import ReadCaps
from tests.support.conversation import LANE, USER, Conversation, durable, text_of
from tests.support.generation import answered, called, tagged

GATE = tagged("thinking", "They want a list.") + tagged("output", "Packing list for two days")
FANOUT = FanoutRule(mode="safe_fanout")


class Gated(Conversation):
    def __init__(self, *script: Any, **policy: Any) -> None:
        super().__init__(*script, **policy)
        self.agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), version="v2", fanout=FANOUT)


def summed(text: str, summary: str) -> str:
    return answered(text) + tagged("summary", summary)


def title(conversation: Conversation) -> str:
    (listing,) = conversation.log.conversations(LANE.tenant, LANE.project, USER)
    return listing.title


# --- the gate


def test_a_new_conversation_is_named_before_its_first_round():
    conversation = Gated(GATE, answered("done"))
    conversation.send("a packing list, please")
    conversation.run()
    conversation.model.assert_read()
    (named,) = conversation.entries(Titled)
    assert (named.title, named.text) == ("Packing list for two days", "They want a list.")
    assert [kinds for kinds in conversation.kinds() if "Titled" in kinds or "Decided" in kinds] == [
        ["Titled"],
        ["Decided"],
    ]
    gate, decision = conversation.model.requests
    assert (gate.role, gate.system[0].text.splitlines()[0]) == (ROLE, "You name a new conversation.")
    shown = text_of(gate)
    assert "a packing list, please" in shown
    assert "ANNOUNCE" not in shown
    assert "SOURCES POOL" not in shown
    assert "They want a list" not in text_of(decision)
    assert title(conversation) == "Packing list for two days"


def test_the_cost_of_the_gate_counts():
    conversation = Gated(GATE, answered("done"))
    conversation.send("a packing list, please")
    conversation.run()
    (named,), (decided,) = conversation.entries(Titled), conversation.entries(Decided)
    spent = named.usage.prompt_tokens + decided.usage.prompt_tokens
    assert conversation.entries(Closed)[0].usage.prompt_tokens == spent == conversation.state.input_tokens
    assert conversation.entries(Closed)[0].rounds == 1
    assert conversation.ports.meter.counts[INPUT_TOKENS] == spent


def test_the_cost_of_failed_gate_tries_counts():
    conversation = Gated(Fail(error=ModelStreamBroken("cut", code="stream_cut")), GATE, answered("done"))
    conversation.send("a packing list, please")
    conversation.decide()
    gate = sum(estimate_tokens(part.text) for part in _parts(conversation.model.requests[0]))
    (named,) = conversation.entries(Titled)
    assert named.usage.input_tokens == 2 * gate


def test_a_gate_that_fails_is_on_the_receipt():
    refused = Fail(error=ModelRefused("in the stream"), text="They", after_chars=4)
    conversation = Gated(refused, answered("done"))
    conversation.send("a packing list, please")
    conversation.decide()
    gate = sum(estimate_tokens(part.text) for part in _parts(conversation.model.requests[0]))
    (decided,) = conversation.entries(Decided)
    assert decided.lost.input_tokens == gate


def _parts(request):
    return (*request.system, *request.content)


def test_the_gate_runs_in_one_turn_only():
    conversation = Gated(GATE, called("react.plan", {"steps": ["one"]}), answered("done"), answered("again"))
    conversation.send("a packing list, please")
    conversation.run()
    conversation.send("and another", id="m2")
    conversation.run()
    conversation.model.assert_read()
    assert len(conversation.entries(Titled)) == 1


def test_a_round_that_is_taken_again_finds_the_title_and_does_not_ask():
    conversation = Gated(GATE, *[Fail(ModelTimeout("busy"))] * 3, answered("done"))
    conversation.send("a packing list, please")
    with pytest.raises(ModelTimeout):
        conversation.decide()
    assert conversation.decide(attempt=1).route == "close"
    conversation.model.assert_read()
    assert len(conversation.entries(Titled)) == 1


@pytest.mark.parametrize("error", [ContextLimit("too long"), ModelRefused("no")])
def test_a_gate_that_the_provider_refuses_costs_no_turn(error):
    conversation = Gated(Fail(error), answered("done"))
    conversation.send("please write me a packing list for two days")
    conversation.run()
    assert conversation.entries(Titled)[0].title == "please write me a packing list"
    assert conversation.entries(Closed)[0].answer == "done"


@pytest.mark.parametrize(
    "said",
    [
        "no channels at all",
        tagged("output", ""),
        "",
        tagged("output", "\u200b\u200d\ufeff"),
        tagged("output", "\u3164 \u2800\u00ad"),
        tagged("output", "\u202e\U000e0041\ufe0f."),
    ],
)
def test_a_silent_gate_leaves_the_beginning_of_the_message(said):
    conversation = Gated(said, answered("done"))
    conversation.send("hello there")
    conversation.run()
    assert conversation.entries(Titled)[0].title == "hello there"


def test_a_message_without_a_word_is_its_own_title():
    conversation = Gated("", answered("done"))
    conversation.send("...")
    conversation.run()
    assert conversation.entries(Titled)[0].title == title(conversation) == "..."


def test_without_a_gate_no_model_is_asked_for_a_title():
    conversation = Conversation(answered("done"))
    conversation.send("hello")
    conversation.run()
    assert (len(conversation.model.requests), conversation.entries(Titled)) == (1, [])


def test_the_gate_is_in_the_timeline_as_a_stage():
    conversation = Gated(GATE, answered("done"))
    conversation.send("a packing list, please")
    conversation.run()
    blocks = Timeline.empty(LANE).extended(conversation.batches()).blocks()
    assert [block.text for block in blocks if block.type == "stage.gate"] == ["They want a list."]


# --- the version


def test_the_version_of_a_deployment_reaches_the_agent():
    said = {"AI_REACT_AGENT_VERSION": "v2", "AI_REACT_AGENT_MULTI_ACTION": "safe_fanout"}
    agent = in_memory(Settings.from_env(said)).agent
    assert (bool(agent.gate), agent.fanout.limit) == (True, 1)
    assert "in stages" in agent.system
    assert "Title: …" not in agent.system
    plain = in_memory(
        Settings.from_env({"STEPLINE_BUNDLE_PROPS": '{"react": {"agent_version": "v3"}}', **said})
    ).agent
    assert (plain.gate, plain.fanout.limit) == ("", 8)
    assert "Title: …" in plain.system


def test_a_v2_round_takes_one_action():
    one = called("react.plan", {"steps": ["one"]})
    two = one.replace(tagged("thinking", "Let me see."), "")
    conversation = Gated(GATE, one + two, answered("done"))
    conversation.send("go")
    conversation.run()
    assert [len(entry.actions) for entry in conversation.entries(Decided)] == [1, 0]


# --- titles from the working summary


def test_the_first_turn_that_ends_with_a_title_names_the_conversation():
    conversation = Conversation(
        summed("done", "Title: Packing list for two days\nGoal: a list"), answered("more")
    )
    inbox = conversation.listen()
    conversation.send("please write me a packing list")
    conversation.run()
    (named,) = conversation.entries(Titled)
    assert (named.title, named.turn) == ("Packing list for two days", conversation.entries(Closed)[0].turn)
    assert conversation.kinds()[-1] == ["Titled", "Closed"]
    assert title(conversation) == "Packing list for two days"
    events = [event for _, batch in durable(inbox) for event in batch]
    assert [e.data["title"] for e in events if e.type == "chat.conversation.title"] == [
        "please write me a packing list",
        "Packing list for two days",
    ]


def test_a_conversation_that_has_a_title_keeps_it():
    conversation = Conversation(summed("done", "Title: One"), summed("done", "Title: Two"))
    conversation.send("first")
    conversation.run()
    conversation.send("second", id="m2")
    conversation.run()
    assert [named.title for named in conversation.entries(Titled)] == ["One"]
    assert title(conversation) == "One"


def test_a_later_turn_may_name_an_untitled_conversation():
    conversation = Conversation(answered("done"), summed("done", "**Title:** “Two”."))
    conversation.send("first words")
    conversation.run()
    assert title(conversation) == "first words"
    conversation.send("second", id="m2")
    conversation.run()
    assert title(conversation) == "Two"


def test_a_turn_that_fails_names_nothing():
    conversation = Conversation(Fail(ModelRefused("no")))
    conversation.send("first words")
    conversation.run()
    assert conversation.entries(Titled) == []
    assert title(conversation) == "first words"


# --- a user's own title


class Interrupted(MemoryModelClient):
    """The user names the conversation during the first call."""

    def __init__(self, conversation: Conversation, *script: str) -> None:
        super().__init__(*script)
        self.conversation = conversation

    def stream(self, request):
        if not self.requests:
            rename(self.conversation.ports, LANE, "Mine", user=USER)
        return super().stream(request)


def test_a_title_that_the_model_made_meanwhile_does_not_replace_the_users():
    conversation = Gated()
    conversation.model = Interrupted(conversation, GATE, answered("done"))
    inbox = conversation.listen()
    conversation.send("a packing list, please")
    conversation.run()
    conversation.model.assert_read()
    assert [named.title for named in conversation.entries(Titled)] == ["Mine", "Mine"]
    assert title(conversation) == conversation.timeline().title == "Mine"
    sent = [event for _, events in durable(inbox) for event in events]
    assert [one.data["title"] for one in sent if one.type == "chat.conversation.title"][1:] == [
        "Mine",
        "Mine",
    ]


def test_a_conversation_that_its_user_named_is_not_named_by_a_turns_summary():
    conversation = Conversation(summed("done", "Title: a list"))
    conversation.send("a packing list, please")
    rename(conversation.ports, LANE, "Mine", user=USER)
    conversation.run()
    assert [named.title for named in conversation.entries(Titled)] == ["Mine"]
    assert title(conversation) == "Mine"
