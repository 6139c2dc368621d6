"""The tokens that a cache promises of a request in the layout `journal`, and those that the next request missed."""

from __future__ import annotations

import pytest

from stepline.adapters.memory.model import Say
from stepline.model.entry import Decided
from stepline.model.usage import Bust, Usage
from tests.support.generation import called
from tests.support.journal_conversation import LIST, NOTHING, JournalConversation

WHOLE = Usage(cache_write_5m_tokens=10_000, output_tokens=9)


def bust_of(conversation: JournalConversation, usage: Usage) -> Bust | None:
    """Run a round with the provider's counts; return the missed tokens."""
    conversation.asked(script=Say(text=NOTHING, usage=usage))
    bust: Bust | None = conversation.entries(Decided)[-1].bust
    return bust


def begun(script: str = NOTHING, **policy: int) -> JournalConversation:
    conversation = JournalConversation(**policy)
    conversation.send()
    conversation.asked(script=Say(text=script, usage=WHOLE))
    return conversation


def test_only_the_blocks_a_and_b_are_promised():
    conversation = begun()
    (sent,) = conversation.sent()
    system = conversation.model.requests[0].system
    share = sum(len(part.text.encode()) for part in system[:2]) / sum(
        len(part.text.encode()) for part in (*system, *conversation.model.requests[0].content)
    )
    assert sent.promised_tokens == pytest.approx(10_000 * share, abs=1)
    assert bust_of(conversation, Usage(cache_read_tokens=sent.promised_tokens, input_tokens=2_000)) is None


def test_a_request_that_reads_none_of_it_is_a_bust_of_the_provider():
    conversation = begun()
    promised = conversation.sent()[0].promised_tokens
    assert bust_of(conversation, Usage(input_tokens=9_000)) == Bust(
        reason="provider", expected_tokens=promised, read_tokens=0
    )


@pytest.mark.parametrize("staged", [{"show_skills": ["lab.charts"]}, {}])
def test_a_skill_in_block_b_leaves_a_as_the_only_promise(staged: dict[str, list[str]]):
    conversation = begun(called(LIST, **staged))
    conversation.asked(script=Say(text=NOTHING, usage=WHOLE))
    first, second = (sent.promised_tokens for sent in conversation.sent())
    assert (second < first / 2) is bool(staged)


def test_the_wrap_up_round_promises_a_alone():
    conversation = begun(max_iterations=2)
    conversation.model.add(Say(text=NOTHING, usage=WHOLE))
    conversation.decide()
    first, last = (sent.promised_tokens for sent in conversation.sent())
    assert 0 < last < first / 2


def test_a_change_of_the_layout_is_a_change_of_the_system_part():
    conversation = begun()
    conversation.agent = conversation.timeline_agent
    bust = bust_of(conversation, Usage(input_tokens=9_000))
    assert bust is not None
    assert bust.reason == "system"
    conversation.agent = conversation.journal
    again = bust_of(conversation, Usage(input_tokens=9_000))
    assert again is None or again.reason == "system"


def test_a_providers_count_of_a_journal_does_not_gauge_the_timeline():
    conversation = begun()
    assert conversation.timeline().asked.tokens == 0


def test_without_a_count_nothing_is_promised():
    conversation = JournalConversation()
    conversation.send()
    conversation.asked(script=Say(text=NOTHING, usage=Usage(input_tokens=100, estimated=True)))
    assert conversation.sent()[0].promised_tokens == 0
