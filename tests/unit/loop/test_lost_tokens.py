"""Tokens of calls that failed: the provider bills them, so the turn's receipt has them."""

import pytest

from stepline.adapters.memory.model import Fail
from stepline.errors import ModelRefused, ModelStreamBroken, ModelTimeout, SteplineError
from stepline.model.entry import Closed, Decided, Reopened
from stepline.model.usage import Usage, sum_usages
from tests.support.conversation import Conversation, event_types
from tests.support.generation import answered, start_tag

CUT = ModelStreamBroken("cut", code="stream_cut")
BEGUN = start_tag("thinking") + "Let me see"
CUT_IN_TEXT = Fail(error=CUT, text=BEGUN, after_chars=len(BEGUN))


def opened(*script):
    conversation = Conversation(*script)
    conversation.send("what is new?")
    return conversation


def fail(conversation, **fields):
    with pytest.raises(SteplineError) as caught:
        conversation.decide(**fields)
    return caught.value


def receipt(conversation) -> Usage:
    (closed,) = conversation.entries(Closed)
    return closed.usage


def test_an_answer_has_the_tokens_of_the_tries_before_it_apart() -> None:
    conversation = opened(Fail(error=CUT), Fail(error=ModelTimeout("busy")), answered("Done."))
    conversation.close(conversation.decide())
    (decision,) = conversation.entries(Decided)
    assert (decision.lost.prompt_tokens, decision.lost.estimated) == (decision.usage.prompt_tokens, True)
    assert receipt(conversation) == sum_usages((decision.usage, decision.lost))
    assert conversation.state.input_tokens == 2 * decision.usage.input_tokens


def test_an_attempt_that_was_cut_in_its_text_is_on_the_receipt_of_the_turn() -> None:
    conversation = opened(CUT_IN_TEXT, answered("Done."))
    assert fail(conversation).reason == CUT.reason
    (failed,) = conversation.entries(Reopened)
    assert failed.usage.input_tokens > 0
    assert failed.usage.output_tokens > 0
    conversation.close(conversation.decide(attempt=1))
    (decision,) = conversation.entries(Decided)
    assert decision.lost is None
    assert receipt(conversation) == sum_usages((failed.usage, decision.usage))
    assert conversation.timeline().usage == receipt(conversation)


def test_a_turn_whose_every_attempt_failed_has_a_receipt() -> None:
    conversation = opened(Fail(error=ModelRefused("in the stream"), text=BEGUN, after_chars=5))
    conversation.run()
    assert conversation.entries(Closed)[0].rounds == 0
    assert receipt(conversation) == conversation.entries(Reopened)[0].usage


def test_lost_tokens_are_not_sent_to_clients() -> None:
    conversation = opened(CUT_IN_TEXT)
    inbox = conversation.listen()
    fail(conversation)
    assert "round.restarted" not in event_types(inbox)


def test_a_call_without_usage_leaves_the_log_unchanged() -> None:
    conversation = opened(*[Fail(error=ModelTimeout("busy"))] * 3)
    before = conversation.batches()
    fail(conversation)
    assert conversation.batches() == before
