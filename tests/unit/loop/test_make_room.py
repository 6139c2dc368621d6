"""Making room: the steps of a round whose request is too large."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, Say
from stepline.context.estimate import surely_fits
from stepline.errors import ContextLimit, ModelRefused, ModelTimeout
from stepline.events.derive import compaction_event, derive
from stepline.loop.agent import NO_SUMMARISER
from stepline.loop.stream_generation import build_model_request, round_facts, weigh_overhead
from stepline.model.entry import Closed, Compacted, Compacting, Decided
from stepline.model.ids import utc
from tests.support.conversation import closings, text_of
from tests.support.generation import answered
from tests.support.small_context import SUMMARY, SmallContext, prose, tokens


def crowded(max_tokens: int = 8_000) -> SmallContext:
    """Return a conversation of one turn that just fits into the budget."""
    conversation = SmallContext(max_tokens)
    conversation.turn("What do otters eat?", prose(3_000), answer="Fish.")
    return conversation


def test_a_request_that_fits_is_sent_unchanged() -> None:
    conversation = crowded(80_000)
    conversation.turn("Tell me all.", *[prose(5_000)] * 9, answer="All told.")
    assert conversation.reductions() == []


def test_bulk_is_hidden_before_a_model_is_asked() -> None:
    conversation = SmallContext(8_000)
    for number in range(3):
        conversation.turn(f"Question {number}", prose(9_000), answer="Fish.")
    assert "Pruned" in conversation.reductions()
    assert conversation.asked("context.") == []


def test_rounds_that_stubs_do_not_shorten_enough_are_summed_up() -> None:
    conversation = SmallContext(8_000)
    conversation.talk("What do otters eat?")
    assert conversation.reductions() == ["Compacting", "Compacted completed"]
    asked = conversation.asked("context.")
    assert {part.text for request in asked for part in request.system} == {"Sum up the rounds."}
    assert "What do otters eat?" in text_of(asked[0])
    (ended,) = conversation.entries(Compacted)
    assert (ended.scope, ended.cut, ended.reason) == ("current_turn_prefix", 0, "")
    assert SUMMARY in ended.checkpoint
    assert SUMMARY.splitlines()[1] in text_of(conversation.asked()[-1])


def test_turns_are_summed_up_before_the_rounds_of_the_open_one() -> None:
    conversation = SmallContext(8_000)
    for number in range(60):
        conversation.turn(f"Question {number}", answer=prose(200))
    ended = conversation.entries(Compacted)
    assert {entry.scope for entry in ended} == {"history"}
    memory = conversation.timeline().compaction.memory
    assert memory is not None
    assert SUMMARY in memory.summary
    assert memory.turns > 20
    turns = conversation.timeline().turns
    assert len(ended) > 1
    assert [turn for entry in ended for turn in entry.covered] == list(turns[: memory.turns])
    events = [compaction_event(entry).data for entry in ended]
    assert [data["covered_turn_ids"] for data in events] == [list(entry.covered) for entry in ended]
    assert [data["covered_turns"] for data in events] == [entry.turns for entry in ended]


def test_no_request_is_above_the_budget_and_every_turn_is_answered() -> None:
    conversation = crowded()
    for number in range(12):
        conversation.turn(
            f"Question {number} " + prose(900 * number), *[prose(4_000 * n) for n in range(number % 4)]
        )
    assert max(tokens(request) for request in conversation.voices.requests) <= 8_000
    assert {closed.outcome for closed in closings(conversation)} == {"completed"}
    assert len(closings(conversation)) == 13


def test_a_first_message_larger_than_the_budget_is_cut_and_keeps_its_path() -> None:
    conversation = SmallContext(8_000)
    conversation.turn(prose(60_000), answer="That is long.")
    first = conversation.asked()[0]
    assert tokens(first) <= 8_000
    (prompt,) = conversation.timeline().history[0].prompts
    turn = conversation.timeline().turns[0]
    assert prompt == 1
    assert f"[path: ar:{turn}.user.prompt]" in text_of(first)
    assert conversation.timeline().resolve(f"ar:{turn}.user.prompt")[0].text == prose(60_000)
    assert conversation.asked("context.") == []


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Say(text=""), "summary_empty"),
        (Say(text="   \n"), "summary_empty"),
        (Say(text="I will not.", stop_reason="refusal"), "summary_refused"),
        (Fail(error=ModelRefused("no")), "summary_failed"),
        (Fail(error=ContextLimit("too long")), "summary_too_large"),
    ],
)
def test_the_runtime_writes_the_summary_if_the_model_cannot(said: Say | Fail, reason: str) -> None:
    conversation = narrowed(said)
    (ended, *_) = conversation.entries(Compacted)
    assert (ended.status, ended.reason) == ("completed", reason)
    assert ended.after_tokens < ended.before_tokens
    assert ended.summary or ended.checkpoint
    assert closings(conversation)[-1].outcome == "completed"


def narrowed(*said: Say | Fail | str, turns: int = 1) -> SmallContext:
    """Return a conversation that had to be summarised, for which the summarising model returned this."""
    conversation = SmallContext(8_000)
    conversation.voices.script += said
    for number in range(turns):
        conversation.talk(f"Question {number}")
    return conversation


def test_a_text_longer_than_its_room_is_not_a_summary() -> None:
    conversation = SmallContext(8_000)
    conversation.voices.obeys = False
    conversation.voices.script.append(Say(text="word " * 20_000, piece_chars=10_000))
    conversation.talk("Tell me.")
    assert conversation.entries(Compacted)[0].reason == "summary_too_long"


def test_the_model_is_not_asked_again_after_a_useless_summary() -> None:
    conversation = narrowed(Say(text=""), turns=4)
    ended = conversation.entries(Compacted)
    assert [entry.reason for entry in ended[:2]] == ["summary_empty", "not_asked"]
    assert [entry.reason for entry in ended[2:3]] == [""]
    assert len(conversation.entries(Compacting)) == sum(entry.usage is not None for entry in ended)


def test_an_agent_without_summary_instructions_asks_no_model() -> None:
    conversation = SmallContext(8_000)
    conversation.agent = dataclasses.replace(conversation.agent, summariser=NO_SUMMARISER)
    for number in range(3):
        conversation.talk(f"Question {number}")
    assert conversation.entries(Compacting) == []
    assert {entry.status for entry in conversation.entries(Compacted)} == {"completed"}
    assert conversation.asked("context.") == []


def test_summary_costs_count_for_the_turn_and_the_conversation() -> None:
    conversation = narrowed()
    ended = [entry for entry in conversation.entries(Compacted) if entry.usage]
    rounds = [entry.usage for entry in conversation.entries(Decided)]
    assert ended
    spent = sum(entry.usage.prompt_tokens for entry in ended)
    read = sum(usage.prompt_tokens for usage in rounds if usage)
    assert conversation.timeline().usage.prompt_tokens == conversation.state.input_tokens == read + spent
    assert sum(closed.usage.prompt_tokens for closed in conversation.entries(Closed)) == read + spent


def test_a_provider_that_is_busy_is_asked_again_without_a_second_beginning() -> None:
    conversation = SmallContext(8_000)
    conversation.talk("Begin")
    before = len(conversation.entries(Compacting))
    conversation.voices.script += [Fail(error=ModelTimeout("busy"))]
    conversation.plan(*["x"] * 12, notes=prose(2_000))
    conversation.send("More", id="more")
    _, step = conversation.take()
    attempt = 0
    while step.route in ("decide", "act"):
        try:
            if step.route == "act":
                step = conversation.act(step)
            else:
                step, attempt = conversation.decide(replace(step, attempt=attempt)), 0
        except ModelTimeout:
            attempt += 1
    conversation.close(step)
    begun, ended = (
        conversation.entries(Compacting)[before:],
        [e for e in conversation.entries(Compacted) if e.usage][before:],
    )
    assert attempt == 0
    assert [entry.id for entry in begun] == [entry.id for entry in ended]
    assert begun
    assert closings(conversation)[-1].outcome == "completed"


def refused(times: int) -> SmallContext:
    """Return a conversation far below its budget, whose provider finds this number of requests too large."""
    conversation = SmallContext(80_000)
    for number in range(8):
        conversation.turn(f"Question {number}", prose(6_000), answer=prose(8_000))
    conversation.model.add(*[Fail(error=ContextLimit("prompt is too long"))] * times)
    conversation.turn("And where do they live?", answer="In rivers.")
    return conversation


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_request_that_the_provider_finds_too_large_is_sent_again_smaller(times: int) -> None:
    conversation = refused(times)
    sizes = [tokens(request) for request in conversation.asked()][-times - 1 :]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == times + 1
    assert closings(conversation)[-1].answer == "In rivers."
    assert {entry.trigger for entry in conversation.entries(Compacted)} <= {"forced"}


def test_after_three_smaller_requests_the_turn_ends_with_the_typed_error() -> None:
    conversation = refused(4)
    assert (closings(conversation)[-1].outcome, len(conversation.asked())) == ("error", 8 * 2 + 4)
    assert not any(closed.answer == "In rivers." for closed in closings(conversation))


def test_a_request_that_cannot_get_smaller_is_not_sent_again() -> None:
    conversation = SmallContext(80_000)
    conversation.model.add(Fail(error=ContextLimit("prompt is too long")))
    conversation.send("Hi")
    conversation.run()
    assert closings(conversation)[-1].outcome == "error"
    assert len(conversation.asked()) == 1
    assert conversation.reductions() == []


def test_instructions_that_fill_the_budget_ask_no_model() -> None:
    conversation = SmallContext(2_000)
    conversation.agent = dataclasses.replace(conversation.agent, system=prose(9_000))
    conversation.talk("Tell me.", rounds=5)
    assert conversation.asked("context.") == []
    assert closings(conversation)[-1].outcome == "completed"


def test_clients_see_the_begin_and_end_of_a_compaction_under_one_id() -> None:
    conversation = narrowed()
    events = [
        event
        for batch in conversation.batches()
        for event in derive(batch)
        if event.type == "chat.compaction"
    ]
    begun, ended = events[:2]
    assert [event.status for event in events[:2]] == ["started", "completed"]
    assert begun.data["compaction_id"] == ended.data["compaction_id"]
    assert begun.data["title"] == "Context Compaction Started"
    assert ended.data["after_tokens"] < ended.data["before_tokens"] == begun.data["before_tokens"]
    assert ended.data["compacted_tokens"] == ended.data["before_tokens"] - ended.data["after_tokens"]
    assert ended.data["split_turn_id"] == ended.turn_id
    assert {event.route for event in events} == {"chat_compaction"}


def test_a_request_far_below_its_budget_is_not_measured() -> None:
    conversation = crowded(80_000)
    timeline = conversation.timeline()
    assert surely_fits(timeline, 40_000, 80_000)
    assert not surely_fits(timeline, 40_000, 1_000)


def test_the_request_parts_beside_the_timeline_are_measured() -> None:
    conversation = crowded()
    conversation.model.add(answered("Yes."))
    conversation.send("Really?", id="really")
    timeline = conversation.timeline()
    ports, agent = conversation.ports, conversation.agent
    facts = round_facts(ports, agent, timeline, conversation.now(), now=utc(ports.clock.now()))
    request = build_model_request(ports, agent, timeline, facts)
    whole = sum(len(part.text.encode()) for part in (*request.system, *request.content))
    assert weigh_overhead(timeline, request) == whole - timeline.parts.size > 0
    conversation.decide()
    assert conversation.entries(Decided)[-1].overhead_bytes == weigh_overhead(timeline, request)
