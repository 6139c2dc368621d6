"""A provider that asks for a longer wait than a process allows: the round waits, at no cost."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail
from stepline.errors import ModelOverloaded, ModelRateLimited, SteplineError
from stepline.events.derive import derive
from stepline.loop.decide import decide
from stepline.loop.stream_generation import Sample
from stepline.loop.sweep import replace_owner
from stepline.model.entry import Closed, Decided, Reopened, SteeredEntry
from stepline.model.step import Step
from tests.support.conversation import LANE, Conversation, closings, durable, text_of
from tests.support.faulty_log import LosingLog, StaleLog
from tests.support.generation import answered, called

PLAN = called("react.plan", {"steps": ["one"]})


def limited(wait_s: float | None = 42.0, kind: type[SteplineError] = ModelRateLimited) -> list[Fail]:
    """Return a call that the provider refuses, with all its tries in the process."""
    return [Fail(error=kind("later, please", retry_after_s=wait_s))] * 3


def opened(*script: Any, **fields: Any) -> Conversation:
    conversation = Conversation(*script, **fields)
    conversation.send("what is new?")
    return conversation


def waits(conversation: Conversation) -> list[Reopened]:
    return [entry for entry in conversation.entries(Reopened) if entry.until]


def waited(conversation: Conversation, step: Step) -> tuple[float, Step]:
    """Wait as the state machine does; return the seconds until the round continued, and the step that it leads to."""
    began_s = conversation.clock.monotonic_s()
    while True:
        conversation.clock.pause(step.wait_s)
        lasted_s = conversation.clock.monotonic_s() - began_s
        step = conversation.decide(step)
        if step.route != "wait":
            return lasted_s, step


def test_the_round_waits_as_long_as_the_provider_asks_and_continues() -> None:
    conversation = opened(*limited(41.5), answered("All quiet."))
    step = conversation.decide()
    assert (step.route, step.attempt, step.iteration) == ("wait", 0, 0)
    lasted, following = waited(conversation, step)
    assert (lasted, following.route, following.wait_s) == (42, "close", 0)
    assert conversation.entries(Decided)[-1].claim == conversation.batches()[1].n


@pytest.mark.parametrize("kind", [ModelRateLimited, ModelOverloaded])
def test_a_client_sees_the_reason_and_the_end_of_a_wait(kind: type[SteplineError]) -> None:
    conversation = opened(*limited(60, kind))
    inbox = conversation.listen()
    conversation.decide()
    (n, (restarted, waiting)) = durable(inbox)[-1]
    assert (restarted.type, restarted.data["claim"]) == ("round.restarted", n)
    shown = dict(waiting.data)
    assert (waiting.type, shown.pop("message").endswith("goes on by itself when the wait is over.")) == (
        "round.waiting",
        True,
    )
    until = {"until": "2026-01-01T00:01:00.000Z", "attempt": 2, "attempts": 4}
    assert shown == {"iteration": 0, "code": kind.code, **until}


@pytest.mark.parametrize("wait_s", [None, 0.0, float("nan")])
def test_a_busy_provider_is_asked_again_after_growing_waits(
    wait_s: float | None,
) -> None:
    conversation = opened(*limited(wait_s, ModelOverloaded) * 3, answered("All quiet."))
    inbox = conversation.listen()
    conversation.run()
    shown = [event for _, events in durable(inbox) for event in events if event.type == "round.waiting"]
    assert [(event.data["attempt"], event.data["attempts"]) for event in shown] == [(2, 4), (3, 4), (4, 4)]
    lasted = [
        (datetime.fromisoformat(event.data["until"]) - datetime.fromisoformat(event.ts)).total_seconds()
        for event in shown
    ]
    assert all(most / 2 <= wait <= most for wait, most in zip(lasted, (5, 10, 20), strict=True))
    assert closings(conversation)[-1].answer == "All quiet."


def test_a_provider_that_stays_busy_ends_the_turn_after_the_last_attempt() -> None:
    conversation = opened(*limited(None) * 4)
    conversation.run()
    conversation.model.assert_read()
    (closing,) = closings(conversation)
    assert (closing.code, len(waits(conversation)), conversation.entries(Reopened)[-1].attempts) == (
        "model_rate_limited",
        3,
        4,
    )


def test_the_rest_of_a_recorded_wait_follows_a_dead_attempt() -> None:
    conversation = opened(*limited(60), answered("All quiet."))
    conversation.decide()
    conversation.clock.pause(20)
    step = conversation.decide(attempt=1)
    assert (step.route, step.attempt, len(waits(conversation))) == ("wait", 0, 1)
    assert waited(conversation, step)[0] == 40


def test_an_execution_that_is_lost_in_a_wait_is_followed_by_the_rest_of_the_wait() -> None:
    conversation = opened(*limited(60), answered("All quiet."))
    conversation.decide()
    conversation.clock.pause(20)
    replace_owner(conversation.ports, LANE, conversation.tail)
    step = conversation.decide()
    assert (step.route, step.epoch) == ("wait", conversation.state.epoch)
    lasted, following = waited(conversation, step)
    assert (lasted, following.route) == (40, "close")


def test_a_lost_answer_to_the_record_makes_one_wait() -> None:
    log = LosingLog()
    conversation = opened(*limited(60), log=log)
    log.lose(True)
    assert conversation.decide().route == "wait"
    assert len(waits(conversation)) == 1


def test_a_stale_read_does_not_reuse_the_claim_of_before_the_wait() -> None:
    conversation = opened(*limited(60), answered("All quiet."), log=StaleLog())
    step = conversation.decide()
    conversation.clock.pause(60)
    conversation.decide(step)
    assert conversation.entries(Decided)[-1].claim == conversation.batches()[1].n


def test_a_round_that_another_attempt_has_taken_does_not_wait() -> None:
    conversation = opened(answered("All quiet."))

    def late(*_: Any) -> Sample:
        conversation.decide(attempt=1)
        raise ModelRateLimited("later, please", retry_after_s=60)

    args = (conversation.ports, conversation.agent, conversation.model, conversation.history)
    step = decide(*args, conversation.now(), sampler=late)
    assert (step.route, waits(conversation)) == ("close", [])


def test_a_provider_that_always_asks_for_a_wait_ends_the_turn() -> None:
    conversation = opened(*limited(60) * 3, *limited(60), waits=3)
    conversation.run()
    conversation.model.assert_read()
    assert len(waits(conversation)) == 3
    (closing,) = closings(conversation)
    assert (closing.outcome, closing.code, closing.retry_after_s) == ("error", "model_rate_limited", 60)
    shown = next(event for event in derive(conversation.tail) if event.type == "chat.error")
    assert (shown.data["retryable"], shown.data["retry_after_s"]) == (True, 60)


def test_each_round_has_its_own_count_of_waits() -> None:
    conversation = opened(*limited(60), PLAN, *limited(60), answered("Done."), waits=1)
    conversation.run()
    assert [entry.iteration for entry in waits(conversation)] == [0, 1]
    assert closings(conversation)[-1].answer == "Done."


@pytest.mark.parametrize("wait_s", [100.0, 1e300])
def test_a_wait_beyond_the_deadline_of_the_turn_ends_it(wait_s: float) -> None:
    conversation = opened(*limited(wait_s), turn_deadline_s=100)
    conversation.run()
    assert (waits(conversation), closings(conversation)[-1].code) == ([], "model_rate_limited")


def test_a_wait_counts_from_the_beginning_of_the_turn() -> None:
    conversation = opened(*limited(60), *limited(60), turn_deadline_s=100)
    conversation.run()
    assert (len(waits(conversation)), closings(conversation)[-1].code) == (1, "model_rate_limited")


def test_a_stop_during_the_wait_ends_the_turn_and_the_model_is_not_asked() -> None:
    conversation = opened(*limited(60))
    step = conversation.decide()
    conversation.send("", id="x1", kind="steer")
    conversation.clock.pause(step.wait_s)
    assert conversation.decide(step).route == "close"
    conversation.close()
    assert [entry.reason for entry in conversation.entries(Closed)] == ["stop"]


def test_a_steer_during_the_wait_is_heeded_once() -> None:
    conversation = opened(*limited(60), answered("Short."))
    step = conversation.decide()
    conversation.send("short, please", id="s1", kind="steer")
    conversation.clock.pause(60)
    conversation.decide(step)
    assert len(conversation.entries(SteeredEntry)) == 1
    assert "short, please" in text_of(conversation.model.requests[-1])


def test_a_stop_that_an_attempt_finds_beside_a_wait_is_heeded_at_once() -> None:
    conversation = opened(*limited(60))
    conversation.decide()
    conversation.send("", id="x1", kind="steer")
    assert conversation.decide(attempt=1).route == "close"


def test_a_message_during_the_wait_is_shown_to_the_model_after_it() -> None:
    conversation = opened(*limited(60), answered("Both."))
    step = conversation.decide()
    conversation.send("and what is old?", id="m2")
    conversation.clock.pause(60)
    conversation.decide(step)
    conversation.close()
    assert "and what is old?" in text_of(conversation.model.requests[-1])
    assert closings(conversation)[-1].answer == "Both."


def test_an_older_attempt_that_wakes_up_after_the_wait_loses_the_round() -> None:
    conversation = opened(*limited(60), answered("All quiet."))
    conversation.decide(attempt=1)
    conversation.clock.pause(60)
    step = conversation.now(wait_s=60)
    conversation.decide(attempt=1)
    assert conversation.state.cursor.phase == "close"
    assert conversation.decide(step).route == "close"


def test_an_older_machine_without_a_wait_state_ends_the_turn() -> None:
    conversation = opened(*limited(60))
    step = conversation.decide()
    assert conversation.close(step).route == "done"
    assert closings(conversation)[-1].code == "model_rate_limited"


def test_a_failure_after_a_wait_keeps_its_own_code() -> None:
    conversation = opened(*limited(60))
    step = conversation.decide()
    conversation.close(replace(step, error={"Error": "ContextLimit", "Cause": "{}"}))
    assert closings(conversation)[-1].code == "context_limit"
