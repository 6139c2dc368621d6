"""Making room: what a round does when its request is too large."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail, Say
from stepline.context.estimate import surely_fits
from stepline.errors import ContextLimit, ModelOverloaded, ModelRefused
from stepline.events.derive import derive
from stepline.loop.agent import NO_SUMMARISER
from stepline.loop.stream_generation import ask, weigh_overhead
from stepline.model.entry import Closed, Compacted, Compacting, Decided
from tests.support.conversation import answered, closings
from tests.support.small_context import SUMMARY, Narrow, prose, text_of, tokens


def crowded(max_tokens: int = 8_000) -> Narrow:
    """Return a conversation of one turn that fits into the budget just so."""
    scene = Narrow(max_tokens)
    scene.turn("What do otters eat?", prose(3_000), answer="Fish.")
    return scene


def test_a_request_that_fits_is_sent_as_it_is() -> None:
    scene = crowded(80_000)
    scene.turn("Tell me all.", *[prose(5_000)] * 9, answer="All told.")
    assert scene.reductions() == []


def test_bulk_is_hidden_before_a_model_is_asked() -> None:
    scene = Narrow(8_000)
    for number in range(3):
        scene.turn(f"Question {number}", prose(9_000), answer="Fish.")
    assert "Pruned" in scene.reductions()
    assert scene.asked("context.") == []


def test_rounds_that_stubs_do_not_shorten_enough_are_summed_up() -> None:
    scene = Narrow(8_000)
    scene.talk("What do otters eat?")
    assert scene.reductions() == ["Compacting", "Compacted completed"]
    asked = scene.asked("context.")
    assert {part.text for request in asked for part in request.system} == {"Sum up the rounds."}
    assert "What do otters eat?" in text_of(asked[0])
    (ended,) = scene.entries(Compacted)
    assert (ended.scope, ended.cut, ended.reason) == ("current_turn_prefix", 0, "")
    assert SUMMARY in ended.checkpoint
    assert SUMMARY.splitlines()[1] in text_of(scene.asked()[-1])


def test_turns_are_summed_up_before_the_rounds_of_the_open_one() -> None:
    scene = Narrow(8_000)
    for number in range(60):
        scene.turn(f"Question {number}", answer=prose(200))
    ended = scene.entries(Compacted)
    assert {entry.scope for entry in ended} == {"history"}
    memory = scene.timeline().compaction.memory
    assert memory is not None
    assert SUMMARY in memory.summary
    assert memory.turns > 20
    turns = scene.timeline().turns
    assert memory.covered == (turns[0], turns[memory.turns - 1])


def test_no_request_is_above_the_budget_and_every_turn_is_answered() -> None:
    scene = crowded()
    for number in range(12):
        scene.turn(
            f"Question {number} " + prose(900 * number), *[prose(4_000 * n) for n in range(number % 4)]
        )
    assert max(tokens(request) for request in scene.voices.requests) <= 8_000
    assert {closed.outcome for closed in closings(scene)} == {"completed"}
    assert len(closings(scene)) == 13


def test_a_first_message_larger_than_the_budget_is_cut_and_keeps_its_path() -> None:
    scene = Narrow(8_000)
    scene.turn(prose(60_000), answer="That is long.")
    first = scene.asked()[0]
    assert tokens(first) <= 8_000
    (prompt,) = scene.timeline().history[0].prompts
    turn = scene.timeline().turns[0]
    assert prompt == 1
    assert f"[path: ar:{turn}.user.prompt]" in text_of(first)
    assert scene.timeline().resolve(f"ar:{turn}.user.prompt")[0].text == prose(60_000)
    assert scene.asked("context.") == []


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
def test_where_a_model_is_of_no_use_the_runtime_sums_up_in_its_own_words(
    said: Say | Fail, reason: str
) -> None:
    scene = narrowed(said)
    (ended, *_) = scene.entries(Compacted)
    assert (ended.status, ended.reason) == ("completed", reason)
    assert ended.after_tokens < ended.before_tokens
    assert ended.summary or ended.checkpoint
    assert closings(scene)[-1].outcome == "completed"


def narrowed(*said: Say | Fail | str, turns: int = 1) -> Narrow:
    """Return a conversation that had to be summed up, while the model's other voice said this."""
    scene = Narrow(8_000)
    scene.voices.script += said
    for number in range(turns):
        scene.talk(f"Question {number}")
    return scene


def test_a_text_longer_than_there_is_room_for_is_no_summary() -> None:
    scene = Narrow(8_000)
    scene.voices.obeys = False
    scene.voices.script.append(Say(text="word " * 20_000, piece_chars=10_000))
    scene.talk("Tell me.")
    assert scene.entries(Compacted)[0].reason == "summary_too_long"


def test_after_a_summary_in_vain_the_model_is_not_asked_the_next_time() -> None:
    scene = narrowed(Say(text=""), turns=4)
    ended = scene.entries(Compacted)
    assert [entry.reason for entry in ended[:2]] == ["summary_empty", "not_asked"]
    assert [entry.reason for entry in ended[2:3]] == [""]
    assert len(scene.entries(Compacting)) == sum(entry.usage is not None for entry in ended)


def test_an_agent_without_instructions_for_it_asks_nobody() -> None:
    scene = Narrow(8_000)
    scene.agent = dataclasses.replace(scene.agent, summariser=NO_SUMMARISER)
    for number in range(3):
        scene.talk(f"Question {number}")
    assert scene.entries(Compacting) == []
    assert {entry.status for entry in scene.entries(Compacted)} == {"completed"}
    assert scene.asked("context.") == []


def test_what_summaries_cost_counts_for_the_turn_and_the_conversation() -> None:
    scene = narrowed()
    ended = [entry for entry in scene.entries(Compacted) if entry.usage]
    rounds = [entry.usage for entry in scene.entries(Decided)]
    assert ended
    spent = sum(entry.usage.prompt_tokens for entry in ended)
    read = sum(usage.prompt_tokens for usage in rounds if usage)
    assert scene.timeline().usage.prompt_tokens == scene.state.input_tokens == read + spent
    assert sum(closed.usage.prompt_tokens for closed in scene.entries(Closed)) == read + spent


def test_a_provider_that_is_busy_is_asked_again_without_a_second_beginning() -> None:
    scene = Narrow(8_000)
    scene.talk("Begin")
    before = len(scene.entries(Compacting))
    scene.voices.script += [Fail(error=ModelOverloaded("busy"))]
    scene.plan(*["x"] * 12, notes=prose(2_000))
    scene.send("More", id="more")
    _, step = scene.take()
    attempt = 0
    while step.route in ("decide", "act"):
        try:
            if step.route == "act":
                step = scene.act(step)
            else:
                step, attempt = scene.decide(replace(step, attempt=attempt)), 0
        except ModelOverloaded:
            attempt += 1
    scene.close(step)
    begun, ended = (
        scene.entries(Compacting)[before:],
        [e for e in scene.entries(Compacted) if e.usage][before:],
    )
    assert attempt == 0
    assert [entry.id for entry in begun] == [entry.id for entry in ended]
    assert begun
    assert closings(scene)[-1].outcome == "completed"


def refused(times: int) -> Narrow:
    """Return a conversation far below its budget, whose provider finds a request too large so many times."""
    scene = Narrow(80_000)
    for number in range(8):
        scene.turn(f"Question {number}", prose(6_000), answer=prose(8_000))
    scene.model.add(*[Fail(error=ContextLimit("prompt is too long"))] * times)
    scene.turn("And where do they live?", answer="In rivers.")
    return scene


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_request_that_the_provider_finds_too_large_is_sent_again_smaller(times: int) -> None:
    scene = refused(times)
    sizes = [tokens(request) for request in scene.asked()][-times - 1 :]
    assert sizes == sorted(sizes, reverse=True)
    assert len(set(sizes)) == times + 1
    assert closings(scene)[-1].answer == "In rivers."
    assert {entry.trigger for entry in scene.entries(Compacted)} <= {"forced"}


def test_after_three_smaller_requests_the_turn_ends_with_the_typed_error() -> None:
    scene = refused(4)
    assert (closings(scene)[-1].outcome, len(scene.asked())) == ("error", 8 * 2 + 4)
    assert not any(closed.answer == "In rivers." for closed in closings(scene))


def test_a_request_that_cannot_get_smaller_is_not_sent_again() -> None:
    scene = Narrow(80_000)
    scene.model.add(Fail(error=ContextLimit("prompt is too long")))
    scene.send("Hi")
    scene.run()
    assert closings(scene)[-1].outcome == "error"
    assert len(scene.asked()) == 1
    assert scene.reductions() == []


def test_where_the_instructions_alone_take_up_the_budget_no_model_is_asked_for_what_has_no_room() -> None:
    scene = Narrow(2_000)
    scene.agent = dataclasses.replace(scene.agent, system=prose(9_000))
    scene.talk("Tell me.", rounds=5)
    assert scene.asked("context.") == []
    assert closings(scene)[-1].outcome == "completed"


def test_clients_hear_of_a_beginning_and_of_its_end_under_one_id() -> None:
    scene = narrowed()
    told = [event for batch in scene.batches() for event in derive(batch) if event.type == "chat.compaction"]
    begun, ended = told[:2]
    assert [event.status for event in told[:2]] == ["started", "completed"]
    assert begun.data["compaction_id"] == ended.data["compaction_id"]
    assert begun.data["title"] == "Context Compaction Started"
    assert ended.data["after_tokens"] < ended.data["before_tokens"] == begun.data["before_tokens"]
    assert ended.data["compacted_tokens"] == ended.data["before_tokens"] - ended.data["after_tokens"]
    assert ended.data["split_turn_id"] == ended.turn_id
    assert {event.route for event in told} == {"chat_compaction"}


def test_nothing_is_weighed_while_a_request_is_far_below_its_budget() -> None:
    scene = crowded(80_000)
    timeline = scene.timeline()
    assert surely_fits(timeline, 40_000, 80_000)
    assert not surely_fits(timeline, 40_000, 1_000)


def test_what_stands_beside_the_timeline_is_weighed() -> None:
    scene = crowded()
    scene.model.add(answered("Yes."))
    scene.send("Really?", id="really")
    timeline = scene.timeline()
    request = ask(scene.ports, scene.agent, timeline, scene.now(), last_round=False)
    whole = sum(len(part.text.encode()) for part in (*request.system, *request.content))
    assert weigh_overhead(timeline, request) == whole - timeline.parts.size > 0
    scene.decide()
    assert scene.entries(Decided)[-1].overhead_bytes == weigh_overhead(timeline, request)
