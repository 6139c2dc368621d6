"""A model that never decides: the end of its turn says so, and is not a success."""

from __future__ import annotations

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import ModelStreamBroken
from stepline.loop.close import CUT_SHORT
from stepline.model.entry import Decided
from stepline.model.wire.event import DeltaFrame
from tests.support.conversation import Conversation, closings, durable, event_types, of, text_of
from tests.support.generation import BROKEN, answered, called, start_tag

LONG = "The otter eats fish. " * 20
HALF = answered(LONG)[:300]
THINKS = start_tag("thinking") + LONG


def ran(*script: Say | str, **policy: int) -> Conversation:
    conversation = Conversation(*script, **policy)
    conversation.send("Tell me of otters.")
    conversation.run()
    conversation.model.assert_read()
    return conversation


def limited(text: str, reason: str = "max_tokens") -> Say:
    return Say(text=text, stop_reason=reason)


@pytest.mark.parametrize("policy", [{}, {"max_iterations": 3}])
@pytest.mark.parametrize(
    ("generation", "code"),
    [
        (Say(text=BROKEN), "model_protocol"),
        (Say(text="Otters eat fish, my friend."), "model_protocol"),
        (Say(text=""), "model_protocol"),
        (limited(THINKS), "model_token_limit"),
        (limited(THINKS, "model_context_window_exceeded"), "model_token_limit"),
    ],
)
def test_a_turn_without_any_decision_fails_with_a_code_that_says_why(
    generation: Say, code: str, policy: dict[str, int]
) -> None:
    (closed,) = closings(ran(*[generation] * 3, **policy))
    assert (closed.outcome, closed.code, closed.answer, closed.rounds) == ("error", code, "", 3)


def test_a_client_sees_the_failure() -> None:
    conversation = Conversation(*[BROKEN] * 3)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    terminal = durable(inbox)[-1][1][-2]
    assert (terminal.type, terminal.data["code"]) == ("chat.error", "model_protocol")


def test_an_interrupted_turn_answers_with_its_status() -> None:
    write = called("react.write", {"path": "a.md", "channel": "internal", "content": "x"})
    (closed,) = closings(ran(write, *[limited(THINKS)] * 3))
    assert (closed.outcome, closed.reason) == ("completed", "violations")
    assert "a.md" in closed.answer


def test_an_answer_that_the_limit_cuts_is_asked_for_again() -> None:
    conversation = ran(limited(HALF), answered("Fish."))
    (closed,) = closings(conversation)
    assert (closed.reason, closed.answer) == ("complete", "Fish.")
    assert "generation_truncated" in text_of(conversation.model.requests[1])


@pytest.mark.parametrize("policy", [{}, {"max_iterations": 3}])
def test_an_answer_that_the_limit_cuts_every_time_ends_the_turn_with_the_part_that_was_seen(
    policy: dict[str, int],
) -> None:
    conversation = ran(*[limited(HALF)] * 3, **policy)
    (closed,) = closings(conversation)
    assert (closed.outcome, closed.reason, closed.message) == ("completed", "token_limit", CUT_SHORT)
    assert closed.answer
    assert LONG.startswith(closed.answer)
    assert [decided.accepted for decided in conversation.entries(Decided)] == [False, False, True]


def test_a_shown_answer_is_void_if_the_connection_breaks() -> None:
    cut = Fail(error=ModelStreamBroken("cut", code="stream_cut"), text=HALF, after_chars=len(HALF))
    conversation = Conversation(cut, answered("Fish."))
    inbox = conversation.listen()
    conversation.send("Tell me of otters.")
    with pytest.raises(ModelStreamBroken):
        conversation.decide()
    assert any("otter" in frame.text for frame in of(DeltaFrame, inbox))
    conversation.close(conversation.decide(attempt=1))
    assert "round.restarted" in event_types(inbox)
    assert [closed.answer for closed in closings(conversation)] == ["Fish."]


def test_an_answer_that_is_whole_before_the_limit_is_complete() -> None:
    (closed,) = closings(ran(limited(answered("Fish.") + start_tag("summary") + LONG)))
    assert (closed.reason, closed.answer, closed.message) == ("complete", "Fish.", "")
