"""The records and metrics of a round about the provider's cache."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stepline.adapters.memory.model import Say
from stepline.metrics import CACHE_BUSTS
from stepline.model.entry import Decided
from stepline.model.usage import Bust, Usage
from tests.support.conversation import Conversation, event_types
from tests.support.generation import answered, called

LEFT = Usage(input_tokens=100, cache_read_tokens=3000, cache_write_5m_tokens=5000, output_tokens=9)
READ = called("react.read", {"paths": ["fi:turn_x.outputs/a.md"]})


def counts(conversation: Conversation) -> dict[str, float]:
    meter: Any = conversation.ports.meter
    return {name: value for name, value in meter.counts.items() if name.startswith(CACHE_BUSTS)}


def played(*usages: Usage) -> Conversation:
    """Return a conversation whose first rounds read a file, with what the provider counts; one more may follow."""
    conversation = Conversation(*[Say(text=READ, usage=usage) for usage in usages])
    conversation.send()
    for _ in usages[:-1]:
        conversation.decide()
        conversation.act()
    return conversation


def test_a_round_that_reads_less_than_cached_reports_a_bust() -> None:
    conversation = played(LEFT, Usage(cache_read_tokens=3000))
    inbox = conversation.listen()
    conversation.decide()
    *_, entry = conversation.entries(Decided)
    assert entry.bust == Bust(reason="provider", expected_tokens=8000, read_tokens=3000)
    assert counts(conversation) == {"CacheBusts": 1, "CacheBusts/provider": 1}
    assert "accounting.cache_bust" in event_types(inbox)


def test_a_round_that_reads_the_whole_cache_records_no_bust() -> None:
    conversation = played(LEFT, Usage(cache_read_tokens=8000))
    conversation.decide()
    assert [entry.bust for entry in conversation.entries(Decided)] == [None, None]
    assert counts(conversation) == {}


def test_a_dead_cache_is_not_reported_as_a_bust() -> None:
    conversation = played(LEFT, Usage(cache_read_tokens=0))
    conversation.clock.pause(295)
    conversation.decide()
    assert conversation.entries(Decided)[-1].bust is None


def test_the_digest_of_the_instructions_is_recorded_where_it_changes_and_explains_a_bust() -> None:
    conversation = played(LEFT, LEFT, Usage(cache_read_tokens=0))
    conversation.agent = replace(conversation.agent, system="be brief")
    conversation.decide()
    first, second, third = conversation.entries(Decided)
    assert (len(first.system), second.system, len(third.system)) == (64, "", 64)
    assert first.system != third.system
    assert third.bust == Bust(reason="system", expected_tokens=8000, read_tokens=0)


def test_a_turn_that_begins_while_the_cache_lives_is_measured_against_the_turn_before() -> None:
    conversation = Conversation(
        Say(text=answered("hello"), usage=LEFT), Say(text=answered("again"), usage=Usage())
    )
    conversation.send()
    conversation.run()
    conversation.send("go on", id="m2")
    conversation.run()
    assert [entry.bust is None for entry in conversation.entries(Decided)] == [True, False]
