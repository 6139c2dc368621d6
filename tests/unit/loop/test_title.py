"""The stage before the first round, and titles."""

from __future__ import annotations

from typing import Any

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import Fail
from stepline.bootstrap import in_memory
from stepline.bundle.assembly import build_agent
from stepline.errors import ContextLimit, ModelOverloaded, ModelRefused
from stepline.loop.title import ROLE
from stepline.metrics import INPUT_TOKENS
from stepline.model.entry import Closed, Decided, Titled
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import Settings
from stepline.timeline.fold import Timeline
from stepline.tools.context import ReadCaps
from tests.support.conversation import LANE, USER, Scene, answered, called, durable

GATE = "<channel:thinking>They want a list.</channel:thinking><channel:output>Packing list for two days</channel:output>"
FANOUT = FanoutRule(mode="safe_fanout")


class Gated(Scene):
    def __init__(self, *script: Any, **policy: Any) -> None:
        super().__init__(*script, **policy)
        self.agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), version="v2", fanout=FANOUT)


def summed(text: str, summary: str) -> str:
    return f"{answered(text)}<channel:summary>{summary}</channel:summary>"


def title(scene: Scene) -> str:
    (listing,) = scene.log.conversations(LANE.tenant, LANE.project, USER)
    return listing.title


# --- the gate


def test_a_new_conversation_is_named_before_its_first_round():
    scene = Gated(GATE, answered("done"))
    scene.send("a packing list, please")
    scene.run()
    scene.model.assert_read()
    (named,) = scene.entries(Titled)
    assert (named.title, named.text) == ("Packing list for two days", "They want a list.")
    assert [kinds for kinds in scene.kinds() if "Titled" in kinds or "Decided" in kinds] == [
        ["Titled"],
        ["Decided"],
    ]
    gate, decision = scene.model.requests
    assert (gate.role, gate.system[0].text.splitlines()[0]) == (ROLE, "You name a new conversation.")
    shown = "".join(part.text for part in gate.content)
    assert "a packing list, please" in shown
    assert "ANNOUNCE" not in shown
    assert "SOURCES POOL" not in shown
    assert "They want a list" not in "".join(part.text for part in decision.content)
    assert title(scene) == "Packing list for two days"


def test_what_the_gate_costs_counts():
    scene = Gated(GATE, answered("done"))
    scene.send("a packing list, please")
    scene.run()
    (named,), (decided,) = scene.entries(Titled), scene.entries(Decided)
    spent = named.usage.prompt_tokens + decided.usage.prompt_tokens
    assert scene.entries(Closed)[0].usage.prompt_tokens == spent == scene.state.input_tokens
    assert scene.entries(Closed)[0].rounds == 1
    assert scene.ports.meter.counts[INPUT_TOKENS] == spent


def test_the_gate_is_one_stage_of_one_turn():
    scene = Gated(GATE, called("react.plan", {"steps": ["one"]}), answered("done"), answered("again"))
    scene.send("a packing list, please")
    scene.run()
    scene.send("and another", id="m2")
    scene.run()
    scene.model.assert_read()
    assert len(scene.entries(Titled)) == 1


def test_a_round_that_is_taken_again_finds_the_title_and_does_not_ask():
    scene = Gated(GATE, *[Fail(ModelOverloaded("busy"))] * 3, answered("done"))
    scene.send("a packing list, please")
    with pytest.raises(ModelOverloaded):
        scene.decide()
    assert scene.decide(attempt=1).route == "close"
    scene.model.assert_read()
    assert len(scene.entries(Titled)) == 1


@pytest.mark.parametrize("error", [ContextLimit("too long"), ModelRefused("no")])
def test_a_gate_that_the_provider_refuses_costs_no_turn(error):
    scene = Gated(Fail(error), answered("done"))
    scene.send("please write me a packing list for two days")
    scene.run()
    assert scene.entries(Titled)[0].title == "please write me a packing list"
    assert scene.entries(Closed)[0].answer == "done"


@pytest.mark.parametrize("said", ["no channels at all", "<channel:output></channel:output>", ""])
def test_a_gate_that_says_nothing_leaves_the_beginning_of_the_message(said):
    scene = Gated(said, answered("done"))
    scene.send("hello there")
    scene.run()
    assert scene.entries(Titled)[0].title == "hello there"


def test_a_message_without_a_word_is_its_own_title():
    scene = Gated("", answered("done"))
    scene.send("...")
    scene.run()
    assert scene.entries(Titled)[0].title == title(scene) == "..."


def test_without_a_gate_nobody_is_asked():
    scene = Scene(answered("done"))
    scene.send("hello")
    scene.run()
    assert (len(scene.model.requests), scene.entries(Titled)) == (1, [])


def test_the_gate_stands_in_the_timeline_as_a_stage():
    scene = Gated(GATE, answered("done"))
    scene.send("a packing list, please")
    scene.run()
    blocks = Timeline.empty(LANE).extended(scene.batches()).blocks()
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


def test_in_v2_a_round_takes_one_action_whatever_else_is_said():
    one = called("react.plan", {"steps": ["one"]})
    two = one.replace("<channel:thinking>Let me see.</channel:thinking>", "")
    scene = Gated(GATE, one + two, answered("done"))
    scene.send("go")
    scene.run()
    assert [len(entry.actions) for entry in scene.entries(Decided)] == [1, 0]


# --- titles from the working summary


def test_the_first_turn_that_ends_with_a_title_names_the_conversation():
    scene = Scene(summed("done", "Title: Packing list for two days\nGoal: a list"), answered("more"))
    inbox = scene.listen()
    scene.send("please write me a packing list")
    scene.run()
    (named,) = scene.entries(Titled)
    assert (named.title, named.turn) == ("Packing list for two days", scene.entries(Closed)[0].turn)
    assert scene.kinds()[-1] == ["Titled", "Closed"]
    assert title(scene) == "Packing list for two days"
    events = [event for _, batch in durable(inbox) for event in batch]
    assert [e.data["title"] for e in events if e.type == "chat.conversation.title"] == [
        "please write me a packing list",
        "Packing list for two days",
    ]


def test_a_conversation_that_has_a_title_keeps_it():
    scene = Scene(summed("done", "Title: One"), summed("done", "Title: Two"))
    scene.send("first")
    scene.run()
    scene.send("second", id="m2")
    scene.run()
    assert [named.title for named in scene.entries(Titled)] == ["One"]
    assert title(scene) == "One"


def test_a_later_turn_may_name_what_the_first_one_did_not():
    scene = Scene(answered("done"), summed("done", "**Title:** “Two”."))
    scene.send("first words")
    scene.run()
    assert title(scene) == "first words"
    scene.send("second", id="m2")
    scene.run()
    assert title(scene) == "Two"


def test_a_turn_that_fails_names_nothing():
    scene = Scene(Fail(ModelRefused("no")))
    scene.send("first words")
    scene.run()
    assert scene.entries(Titled) == []
    assert title(scene) == "first words"
