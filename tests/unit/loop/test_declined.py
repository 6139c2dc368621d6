"""A model that declines: the turn ends at once with its own code, or goes to the fallback once."""

from __future__ import annotations

from typing import Any

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import MODEL, Fail, Say
from stepline.bundle.assembly import build_agent
from stepline.errors import ModelTimeout
from stepline.loop.close import DECLINED, MESSAGES
from stepline.metrics import DECISIONS_REJECTED, TURNS_FAILED
from stepline.model.decision import Declined
from stepline.model.entry import Closed, Decided, Deferred, Titled
from stepline.tools.context import ReadCaps
from tests.support.conversation import Conversation, durable, text_of
from tests.support.generation import answered, called, tagged
from tests.support.spoken_wire import declined_over
from tests.support.steered_conversation import SPOKEN, SteeredConversation

WORDS = Declined(category="cyber", explanation="It may do harm.")
REFUSAL = Say(stop_reason="refusal", declined=WORDS)
HALF = Say(text=tagged("thinking", "I plan the attack."), stop_reason="refusal", declined=WORDS)
FALLBACK = "another"


class Backed(Conversation):
    """A conversation whose model has a fallback."""

    def __init__(self, *script: Say | Fail | str, **policy: Any) -> None:
        super().__init__(*script, **policy)
        self.model.fallback = FALLBACK


@pytest.mark.parametrize("refusal", [REFUSAL, HALF], ids=["empty", "in mid-stream"])
def test_a_refusal_ends_the_turn_at_once_with_its_own_code(refusal: Say, wire: str) -> None:
    conversation = Conversation(refusal)
    inbox = conversation.listen()
    conversation.send("how do I break in?")
    conversation.run()
    conversation.model.assert_read()
    (end,) = conversation.entries(Closed)
    assert (end.outcome, end.code, end.message) == ("error", DECLINED, MESSAGES[DECLINED])
    (decided,) = conversation.entries(Decided)
    assert (decided.declined, decided.stop_reason) == (declined_over(wire, WORDS), "refusal")
    assert (decided.accepted, decided.notices, decided.ended, decided.raw) == (False, (), "", "")
    events = {event.type: event.data for _, batch in durable(inbox) for event in batch}
    assert events["chat.error"]["code"] == DECLINED
    assert events["solver.react.decision"]["declined"] is True
    assert "react.notice" not in str(events.keys())
    assert conversation.ports.meter.counts[DECISIONS_REJECTED] == 0  # type: ignore[attr-defined]  # the memory twin's own
    assert conversation.ports.meter.counts[TURNS_FAILED] == 1  # type: ignore[attr-defined]  # as above


def test_a_declined_answer_is_billed_and_void_for_the_next_turn() -> None:
    conversation = Conversation(HALF, answered("done"))
    conversation.send("how do I break in?")
    conversation.run()
    usage = conversation.entries(Decided)[0].usage
    assert conversation.entries(Closed)[0].usage == usage
    assert conversation.state.input_tokens == usage.prompt_tokens > 0
    conversation.send("something else", id="m2")
    conversation.run()
    request = conversation.model.requests[1]
    assert not request.declined
    assert "the attack" not in str(request.content)
    assert conversation.entries(Closed)[1].answer == "done"


def test_the_fallback_is_asked_once_and_serves_the_rest_of_the_turn() -> None:
    written = called("react.write", {"path": "a.md", "content": "x", "mime": "text/markdown"})
    conversation = Backed(HALF, written, answered("done"), answered("again"))
    conversation.send("how do I break in?")
    conversation.run()
    assert [entry.model for entry in conversation.entries(Decided)] == [MODEL, FALLBACK, FALLBACK]
    assert [request.declined for request in conversation.model.requests] == [False, True, True]
    (end,) = conversation.entries(Closed)
    assert (end.outcome, end.answer, end.rounds) == ("completed", "done", 3)
    conversation.send("and now?", id="m2")
    conversation.run()
    assert conversation.entries(Decided)[-1].model == MODEL
    conversation.model.assert_read()


def test_a_fallback_that_declines_too_ends_the_turn() -> None:
    conversation = Backed(REFUSAL, REFUSAL)
    conversation.send("how do I break in?")
    conversation.run()
    conversation.model.assert_read()
    assert [entry.declined.fallback for entry in conversation.entries(Decided)] == [True, False]
    assert conversation.entries(Closed)[0].code == DECLINED


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_last_round_has_its_fallback_too(rounds: int) -> None:
    plan = [called("react.plan", {"steps": ["one"]})] * (rounds - 1)
    conversation = Backed(*plan, REFUSAL, answered("done"), max_iterations=rounds)
    conversation.send("how do I break in?")
    conversation.run()
    conversation.model.assert_read()
    assert conversation.entries(Closed)[0].answer == "done"


def test_a_steered_turn_keeps_the_round_that_was_declined() -> None:
    live = SteeredConversation(SPOKEN, REFUSAL, answered("Brief."), finalize_rounds=1)
    live.model.fallback = FALLBACK
    live.at(1, live.steer)
    live.decide()
    live.run()
    live.model.assert_read()
    declined, asked = live.model.requests[1:]
    assert "rounds left, counting this one: 1" in text_of(declined)
    assert "rounds left, counting this one: 1" in text_of(asked)
    assert (live.closed.reason, live.closed.answer) == ("steer", "Brief.")


def test_a_refusal_spends_no_retry_of_a_broken_protocol() -> None:
    conversation = Backed(REFUSAL, "no channels", answered("done"), round_retries=1, turn_retries=1)
    conversation.send("how do I break in?")
    conversation.run()
    conversation.model.assert_read()
    assert conversation.entries(Closed)[0].answer == "done"


def test_a_message_that_came_meanwhile_opens_the_next_turn() -> None:
    conversation = Conversation(REFUSAL, answered("gladly"))
    conversation.send("how do I break in?")
    conversation.decide()
    conversation.send("or bake bread?", id="m2")
    conversation.close()
    assert conversation.entries(Deferred) == []
    assert conversation.entries(Closed)[0].code == DECLINED
    conversation.drive(conversation.now())
    assert conversation.entries(Closed)[1].answer == "gladly"


def test_a_round_that_is_taken_again_still_asks_the_fallback() -> None:
    conversation = Backed(REFUSAL, *[Fail(ModelTimeout("busy"))] * 3, answered("done"))
    conversation.send("how do I break in?")
    conversation.decide()
    with pytest.raises(ModelTimeout):
        conversation.decide()
    conversation.decide(attempt=1)
    assert conversation.model.requests[-1].declined
    assert conversation.close().route == "done"


def test_a_gate_that_is_declined_asks_the_fallback_and_else_leaves_the_beginning() -> None:
    gate = tagged("thinking", "t") + tagged("output", "A title")
    for conversation, title in (
        (Backed(REFUSAL, gate, answered("done")), "A title"),
        (Conversation(Say(text=gate, stop_reason="refusal"), answered("done")), "bread, please"),
    ):
        conversation.agent = build_agent(ReadCaps(), parts=WORKFLOW.parts(), version="v2")
        conversation.send("bread, please")
        conversation.run()
        conversation.model.assert_read()
        (named,) = conversation.entries(Titled)
        assert named.title == title
        asked = conversation.model.requests[:-1]
        assert len(asked) == 1 or named.usage.prompt_tokens > 0
