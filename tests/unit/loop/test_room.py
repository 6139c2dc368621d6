"""Making room: what a round does when its request is too large."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import ContextLimit, ModelOverloaded, ModelRefused
from stepline.loop.agent import NO_SUMMARISER
from stepline.loop.room import surely_fits, weigh_overhead
from stepline.loop.sample import ask
from stepline.model.entry import Closed, Compacted, Compacting, Decided, Pruned
from stepline.timeline.event import derive
from tests.unit.loop.narrow import BIG, SUMMARY, Narrow, prose, text_of, tokens
from tests.unit.loop.scene import LANE, answered, called, closings, of


def crowded(max_tokens: int = 8_000) -> Narrow:
    """Return a conversation whose first turn's rounds outgrew the budget: the next round has to make room."""
    scene = Narrow(max_tokens)
    scene.turn("What do otters eat?", prose(3_000), answer="Fish.")
    return scene


def split_turn(scene: Narrow, rounds: int = 9, size: int = 5_000) -> None:
    scene.turn("Tell me all.", *[prose(size)] * rounds, answer="All told.")


def test_a_request_that_fits_is_sent_as_it_is() -> None:
    scene = crowded(80_000)
    split_turn(scene)
    assert scene.reductions() == []


def test_bulk_is_hidden_before_a_model_is_asked() -> None:
    scene = Narrow(8_000)
    for number in range(3):
        scene.turn(f"Question {number}", prose(9_000), answer="Fish.")
    assert "Pruned" in scene.reductions()
    assert scene.asked("context.") == []


def test_rounds_that_stubs_do_not_shorten_enough_are_summed_up() -> None:
    scene = crowded()
    scene.turn("Go on.", *[prose(2_000)] * 12, answer=prose(9_000))
    scene.turn("And on.", *["x"] * 12, answer=prose(9_000))
    scene.turn("And on.", *["x"] * 12, answer=prose(9_000))
    assert "Compacted completed" in scene.reductions()
    asked = scene.asked("context.compaction.summary")
    assert asked
    assert [part.text for part in asked[0].system] == ["Sum up the turns."]
    memory = scene.timeline().compaction.memory
    assert memory is not None
    assert SUMMARY in memory.summary
    assert SUMMARY.splitlines()[1] in text_of(scene.asked()[-1])


def test_no_request_is_above_the_budget_and_every_turn_is_answered() -> None:
    scene = crowded()
    for number in range(12):
        scene.turn(f"Question {number} " + prose(900 * number), *[prose(4_000 * n) for n in range(number % 4)])
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
        (Say(text="word " * 20_000), "summary_too_long"),
    ],
)
def test_where_a_model_is_of_no_use_the_runtime_sums_up_in_its_own_words(said: Say | Fail, reason: str) -> None:
    scene = narrowed(said)
    (ended, *_) = scene.entries(Compacted)
    assert (ended.status, ended.reason) == ("completed", reason)
    assert ended.after_tokens < ended.before_tokens
    assert ended.summary or ended.checkpoint
    assert closings(scene)[-1].outcome == "completed"


def narrowed(*said: Say | Fail | str, turns: int = 3) -> Narrow:
    """Return a conversation that had to be summed up, while the model's other voice said this."""
    scene = Narrow(8_000)
    scene.voices.script += said
    for number in range(turns):
        scene.turn(f"Question {number}", *["x"] * 13, answer=prose(7_000))
    return scene


def test_after_a_summary_in_vain_the_model_is_not_asked_the_next_time() -> None:
    scene = narrowed(Say(text=""), turns=8)
    ended = scene.entries(Compacted)
    assert [entry.reason for entry in ended[:2]] == ["summary_empty", "not_asked"]
    assert [entry.reason for entry in ended[2:3]] == [""]
    assert len(scene.entries(Compacting)) == sum(entry.usage is not None for entry in ended)


def test_an_agent_without_instructions_for_it_asks_nobody() -> None:
    scene = Narrow(8_000)
    scene.agent = replace(scene.agent, summariser=NO_SUMMARISER)
    for number in range(3):
        scene.turn(f"Question {number}", *["x"] * 13, answer=prose(7_000))
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
    for number in range(2):
        scene.turn(f"Question {number}", *["x"] * 13, answer=prose(7_000))
    before = len(scene.entries(Compacting))
    scene.voices.script += [Fail(error=ModelOverloaded("busy"))] * 3
    scene.model.add(*(called(BIG, notes="I look.") for _ in range(13)), answered(prose(7_000)))
    scene.send("More", id="more")
    _, step = scene.take()
    attempt = 0
    while step.route in ("decide", "act"):
        try:
            if step.route == "act":
                step = scene.act(step)
            else:
                step, attempt = scene.decide(replace_attempt(step, attempt)), 0
        except ModelOverloaded:
            attempt += 1
    scene.close(step)
    begun, ended = scene.entries(Compacting)[before:], [e for e in scene.entries(Compacted) if e.usage][before:]
    assert attempt == 0
    assert [entry.id for entry in begun] == [entry.id for entry in ended]
    assert begun
    assert closings(scene)[-1].outcome == "completed"


def replace_attempt(step, attempt):  # type: ignore[no-untyped-def]
    return type(step)(**{**{name: getattr(step, name) for name in step.__struct_fields__}, "attempt": attempt})
