"""Receipts: every model call of the log, and the services that AWS bills."""

from __future__ import annotations

from dataclasses import replace as changed
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import ModelOverloaded, ModelStreamBroken
from stepline.inspection.receipt import Receipts, make_receipts
from stepline.loop.agent import Hooks
from stepline.model.tenancy.consumption import Consumption, InvocationCost
from stepline.model.tenancy.price import dollars, read_prices
from stepline.model.usage import Usage
from stepline.ports.model import DECISION_ROLE, ModelRequest, Part
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import Conversation, tool
from tests.support.generation import BROKEN, answered, called
from tests.support.log_builder import LogBuilder

LOOK_UP = "test.look_up"
PRICES = read_prices({"models": [{"model": "memory", "plain": 2, "read": 0.2, "output": 10}]})
CUT = Fail(error=ModelStreamBroken("cut", code="stream_cut"))
BUSY = Fail(error=ModelOverloaded("busy"))


def opened(*script: Any, **policy: Any) -> Conversation:
    conversation = Conversation(*script, prices=PRICES, **policy)

    def look_up(context: ToolContext) -> ToolOutput:
        return ToolOutput(blocks=(context.result(LOOK_UP, "found"),))

    conversation.use(tool(LOOK_UP, "pure", look_up))
    return conversation


def receipts(conversation: Conversation, *costs: InvocationCost) -> Receipts:
    return make_receipts(conversation.batches(), costs, PRICES)


def add_up(conversation: Conversation) -> Receipts:
    """Return the receipts, after checking their sum against the state of the conversation."""
    made, state = receipts(conversation), conversation.state
    assert made.usd == pytest.approx(dollars(state.spent_nanos))
    assert sum(turn.usd for turn in made.turns) == pytest.approx(made.usd)
    tokens = made.tokens
    read = tokens.input_tokens + tokens.cache_read_tokens
    assert read + tokens.cache_write_5m_tokens + tokens.cache_write_1h_tokens == state.input_tokens
    assert tokens.output_tokens == state.output_tokens
    for receipt in (made, *made.turns):
        assert sum(line.output_tokens for line in receipt.lines) == receipt.tokens.output_tokens
        assert sum(line.usd for line in receipt.lines) == pytest.approx(receipt.usd)
    return made


@given(
    st.lists(
        st.lists(st.sampled_from([called(LOOK_UP), BROKEN, CUT, BUSY]), max_size=2).map(
            lambda rounds: [*rounds, answered("Done.")]
        ),
        min_size=1,
        max_size=3,
    )
)
def test_receipts_add_up_to_the_spending_of_the_state(turns: list[list[Any]]) -> None:
    conversation = opened(*[step for turn in turns for step in turn])
    for number in range(len(turns)):
        conversation.send(id=f"m{number}")
        conversation.run()
    assert len(add_up(conversation).turns) == len(turns)


def test_the_value_of_a_result_is_in_the_receipt_of_its_turn() -> None:
    log = LogBuilder()
    log.message()
    log.answer("It costs 12.50.", value='{"eur":12.5}')
    log.close()
    log.message()
    log.answer("Hello.")
    log.close()
    assert [turn.value for turn in make_receipts(log.batches).turns] == [{"eur": 12.5}, None]


def test_failed_tries_are_lines_of_the_round_and_have_a_price() -> None:
    conversation = opened(CUT, answered("Done."))
    conversation.send()
    conversation.run()
    (turn,) = add_up(conversation).turns
    (line,) = turn.lines
    assert (line.role, line.model, line.calls, line.priced) == (DECISION_ROLE, "memory", 2, True)
    assert turn.rounds[0].usd == pytest.approx(turn.usd)
    assert turn.other == ()


def test_a_title_has_its_own_kind_role_and_price() -> None:
    conversation = opened("A title", answered("Done."))
    conversation.agent = changed(conversation.agent, gate="Name it.")
    conversation.send()
    conversation.run()
    (turn,) = add_up(conversation).turns
    assert [(one.kind, one.usd is not None) for one in turn.other] == [("title", True)]
    assert [line.role for line in turn.lines] == ["gate.simple", DECISION_ROLE]
    assert turn.priced


def test_a_post_run_hooks_calls_belong_to_the_turn_that_ended() -> None:
    conversation = opened(answered("One."), "A thought.", answered("Two."), "Another.", max_iterations=1)

    def think(call: Any) -> tuple[()]:
        request = ModelRequest(role="test.hook", system=(), content=(Part(text="?"),), max_tokens=9)
        with call.context.model.stream(request) as running:
            list(running)
        return ()

    services = type("Services", (), {"model": conversation.model, "settings": None, "secrets": None})()
    conversation.agent = changed(conversation.agent, hooks=Hooks(post_run_hook=think), services=services)
    conversation.send()
    conversation.decide()
    conversation.send(id="m2")
    conversation.close()
    conversation.run()
    made = add_up(conversation)
    assert [sum(line.role == "test.hook" for line in turn.lines) for turn in made.turns] == [1] * len(
        made.turns
    )


def test_calls_of_an_earlier_release_are_derived_from_its_entries() -> None:
    conversation = opened(Say(text=answered("Done."), usage=Usage(input_tokens=1_000, output_tokens=100)))
    conversation.send()
    conversation.run()
    older = [replace(batch, calls=()) for batch in conversation.batches()]
    made = make_receipts(older, prices=PRICES)
    assert made.usd == pytest.approx((1_000 * 2 + 100 * 10) / 1_000_000)
    assert (made.priced, made.turns[0].rounds[0].tokens.input_tokens) == (True, 1_000)


def test_a_receipt_has_what_the_invocations_of_its_turn_used() -> None:
    conversation = opened(answered("Done."))
    conversation.send()
    conversation.run()
    turn = conversation.batches()[0].state.turn
    used = Consumption(invocations=1, function_ms=500, mb_ms=512_000, write_units=4, posts=3)
    decided = InvocationCost(turn=turn, function="decide", at="", used=used, epoch=1, visit=0, route="close")
    closed = InvocationCost(turn=turn, function="close", at="", used=used, epoch=1, visit=1, route="done")
    looked = InvocationCost(turn="", function="api", at="", used=Consumption(invocations=1))
    made = receipts(conversation, decided, closed, looked)
    (receipt,) = made.turns
    assert {line.what: line.quantity for line in receipt.aws}["write unit"] == 8
    assert {line.what: line.quantity for line in made.aws}["function call"] == 3
    assert made.aws_usd > receipt.aws_usd == pytest.approx(sum(line.usd for line in receipt.aws))
    assert receipt.attempts_unreported == made.attempts_unreported == 0


def test_a_receipt_counts_attempts_without_a_row() -> None:
    conversation = opened(answered("Done."))
    conversation.send()
    conversation.run()
    turn = conversation.batches()[0].state.turn
    second = InvocationCost(
        turn=turn, function="decide", at="", used=Consumption(), epoch=1, visit=0, attempt=1, route="close"
    )
    closed = InvocationCost(
        turn=turn, function="close", at="", used=Consumption(), epoch=1, visit=1, route="done"
    )
    assert receipts(conversation, second, closed).attempts_unreported == 1
