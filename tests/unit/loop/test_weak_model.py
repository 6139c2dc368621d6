"""Models that cannot keep the protocol: each turn ends with a code after bounded calls, and the next model reads its log."""

from __future__ import annotations

from typing import Final

import pytest

from stepline.adapters.memory.model import Say
from stepline.loop.close import MESSAGES
from stepline.model.entry import Closed, Decided
from tests.support.conversation import Conversation
from tests.support.generation import answered, called, tagged

CALL: Final = '{"tool_id": "react.write", "params": {"path": "a.md", "content": "x"}}'
BEFORE, FIRST = "decision_preamble_before_first_channel", "decision_first_channel_not_thinking"
NO_DECISION: Final = "action_schema_error"
WEAK: Final = {
    "an empty answer": ("", NO_DECISION),
    "spaces": (" \n\n ", NO_DECISION),
    "prose": ("Sure! I will write the file for you. It is done.", BEFORE),
    "one word, again and again": ("word " * 400, BEFORE),
    "prose before its channels": (f"Sure!\n{answered('Hello.')}", BEFORE),
    "JSON in fences": (f"```json\n{CALL}\n```", BEFORE),
    "bare JSON": (CALL, BEFORE),
    "the tags of another model's thinking": ("<think>\nA file.\n</think>\nDone.", BEFORE),
    "the tags of another model's calls": (f"<tool_call>\n{CALL}\n</tool_call>", BEFORE),
    "thinking alone": (tagged("thinking", "I think."), NO_DECISION),
    "a channel that does not end": ("<channel:thinking>I think and never", NO_DECISION),
    "an unknown channel": (tagged("speech", "Hello."), FIRST),
    "a channel within another": ("<channel:thinking><channel:answer>Hello.</channel:answer>", NO_DECISION),
    "a tool that does not exist": (called("files.write", {"path": "a"}), "unknown_tool_id"),
    "wrong parameters": (called("react.write", {"nothing": 1}), "bad_params"),
    "its own prompt": ("[TURN 1]\n[USER]\nHello.\n[ASSISTANT]\n", BEFORE),
    "a text without end": ("la " * 60_000, BEFORE),
    "control characters": ("\x00\x01\ufffe" * 50, BEFORE),
}


@pytest.mark.parametrize(("text", "notice"), WEAK.values(), ids=WEAK)
def test_a_model_that_never_keeps_the_protocol_ends_its_turn_with_a_code(text: str, notice: str) -> None:
    conversation = Conversation(*[Say(text=text)] * 3, answered("Better."))
    conversation.send("Hello.")
    conversation.run()
    (end,) = conversation.entries(Closed)
    assert (end.outcome, end.code, end.rounds) == ("error", "model_protocol", 3)
    assert end.message == MESSAGES[end.code]
    decided = conversation.entries(Decided)
    assert {one.code for entry in decided for one in entry.notices} == {notice}
    conversation.send("And now?", id="m2")
    conversation.run()
    assert conversation.entries(Closed)[-1].answer == "Better."
    conversation.model.assert_read()


@pytest.mark.parametrize(("text", "_"), WEAK.values(), ids=WEAK)
def test_one_answer_that_breaks_the_protocol_does_not_end_a_turn(text: str, _: str) -> None:
    conversation = Conversation(Say(text=text), answered("Better."))
    conversation.send("Hello.")
    conversation.run()
    (end,) = conversation.entries(Closed)
    assert (end.outcome, end.answer, end.rounds) == ("completed", "Better.", 2)


def test_a_model_that_repeats_one_call_ends_at_the_last_round_with_an_answer() -> None:
    conversation = Conversation(*[called("react.plan", {"steps": ["one"]})] * 4, max_iterations=4)
    conversation.send("Hello.")
    conversation.run()
    (end,) = conversation.entries(Closed)
    assert (end.outcome, end.rounds) == ("completed", 4)
    assert end.answer
