"""The calls of any provider: roles, the fallback, counted retries and their waits; over the in-memory twin."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.clock import MemoryMeter
from stepline.adapters.memory.model import Fail, MemoryProvider, Say, ScriptedCall
from stepline.adapters.provider.client import PendingHead, ProviderClient
from stepline.adapters.provider.wire import Retry, draw_wait_s
from stepline.errors import (
    ContextLimit,
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    SteplineError,
)
from stepline.ports.model import Completion, ModelRequest, Part, RoleChoice

REQUEST = ModelRequest(role="x", system=(), content=(Part(text="hi"),), max_tokens=100)
LIMITED, BUSY = Fail(error=ModelRateLimited("")), Fail(error=ModelOverloaded(""))


BACKED = RoleChoice(model="strong", fallback="weak")


def ask(
    *steps: Say | Fail, request: ModelRequest = REQUEST, role: RoleChoice = BACKED, **fields: Any
) -> Completion:
    """Return the completion of one call, which is retried as often as the steps allow."""
    roles = {"*": role}
    client = ProviderClient(
        MemoryProvider(*steps), roles=roles, retry=Retry(base_s=0.001, cap_s=0.001), **fields
    )
    with client.stream(request) as stream:
        list(stream)
    client.close()
    return stream.completion()


def test_a_role_without_a_model_is_refused() -> None:
    with pytest.raises(ModelRefused) as caught:
        ProviderClient(MemoryProvider(), roles={}).stream(REQUEST)
    assert caught.value.reason == "unknown_role"


def test_a_declined_request_goes_to_the_fallback_which_has_no_fallback() -> None:
    refusal = Say(stop_reason="refusal")
    first, second = ask(refusal), ask(refusal, request=replace(REQUEST, declined=True))
    assert (first.model, second.model) == ("strong", "weak")
    assert [done.declined and done.declined.fallback for done in (first, second)] == [True, False]


def test_a_model_that_stays_busy_is_left_for_the_fallback_whose_tokens_are_its_own() -> None:
    half = Fail(error=ModelOverloaded(""), text="half an answer", after_chars=0)
    done = ask(half, LIMITED, Say(text="x"), role=replace(BACKED, fallback_after_s=0))
    assert (done.text, done.model, done.retries) == ("x", "weak", 2)
    assert [one.model for one in done.tries] == ["strong", "weak"]


def test_a_model_that_stays_busy_is_called_again_for_as_long_as_its_role_says() -> None:
    busy = [BUSY] * 12
    done = ask(*busy, Say(text="x"), role=replace(BACKED, fallback_after_s=120))
    assert (done.model, done.retries) == ("strong", 12)


def test_a_longer_wait_that_the_model_requests_is_not_waited_for() -> None:
    asked = Fail(error=ModelRateLimited("", retry_after_s=90.0))
    done = ask(asked, Say(text="x"), role=replace(BACKED, fallback_after_s=30))
    assert (done.model, done.retries) == ("weak", 1)


@pytest.mark.parametrize(
    "error", [ModelRefused(""), ContextLimit(""), ModelStreamBroken(""), DependencyError("")]
)
def test_an_error_of_another_kind_stays_with_the_model_of_the_role(error: SteplineError) -> None:
    with pytest.raises(type(error)):
        ask(*[Fail(error=error)] * 3, role=replace(BACKED, fallback_after_s=0))


def test_a_busy_model_whose_text_was_shown_is_not_replaced_midway() -> None:
    late = Fail(error=ModelOverloaded(""), text="half an answer", after_chars=4)
    with pytest.raises(ModelOverloaded):
        ask(late, role=replace(BACKED, fallback_after_s=0))


def test_a_time_before_the_fallback_needs_a_fallback() -> None:
    with pytest.raises(ValueError, match="needs a fallback"):
        RoleChoice(model="m", fallback_after_s=3)


def test_every_try_is_counted_and_those_that_met_the_rate_of_the_provider() -> None:
    meter = MemoryMeter()
    assert ask(LIMITED, BUSY, Say(text="x"), meter=meter).retries == 2
    assert meter.counts == {"ModelAsks": 3, "ModelRateLimits": 1}
    with pytest.raises(ModelRateLimited):
        ask(LIMITED, LIMITED, LIMITED, meter=meter)
    assert meter.counts == {"ModelAsks": 6, "ModelRateLimits": 4}


def test_a_call_that_is_aborted_before_it_is_sent_is_not_counted() -> None:
    client = ProviderClient(
        MemoryProvider(), roles={"*": RoleChoice(model="m")}, meter=(meter := MemoryMeter())
    )
    with client.stream(REQUEST) as stream:
        stream.abort()
        assert not list(stream)
    assert not meter.counts


def test_a_response_that_arrives_after_the_caller_gave_up_is_closed() -> None:
    sent, answer, closed = threading.Event(), threading.Event(), threading.Event()

    class Call(ScriptedCall):
        def send(self) -> None:
            sent.set()
            assert answer.wait(30)

        def close(self) -> None:
            closed.set()

    head = PendingHead(Call(REQUEST, Say))
    giving_up = threading.Thread(target=lambda: sent.wait(30) and head.give_up())
    giving_up.start()
    assert not head.wait()
    giving_up.join()
    answer.set()
    assert closed.wait(30)


def test_the_delays_between_attempts_are_random_and_bounded() -> None:
    retry = Retry(tries=5, base_s=1, cap_s=3)
    waits = [
        [draw_wait_s(retry, ModelOverloaded(""), attempt=n, elapsed_s=0) for _ in range(50)] for n in range(4)
    ]
    for n, bound in enumerate([1, 2, 3, 3]):
        assert all(wait is not None and 0 <= wait <= bound for wait in waits[n])
        assert len(set(waits[n])) > 1


@pytest.mark.parametrize(
    ("error", "attempt", "elapsed_s"),
    [
        (ModelOverloaded(""), 2, 0),
        (ModelRateLimited("", retry_after_s=60), 0, 0),
        (DependencyError(""), 0, 21),
        (ContextLimit(""), 0, 0),
        (ModelRefused(""), 0, 0),
    ],
    ids=["tries spent", "wants too long a wait", "time spent", "too long", "refused"],
)
def test_there_is_no_wait_if_no_retry_is_allowed(
    error: SteplineError, attempt: int, elapsed_s: float
) -> None:
    assert draw_wait_s(Retry(), error, attempt=attempt, elapsed_s=elapsed_s) is None


def test_the_requested_wait_is_the_minimum_before_the_jitter() -> None:
    wait = draw_wait_s(Retry(), ModelRateLimited("", retry_after_s=2.0), attempt=0, elapsed_s=0)
    assert wait is not None
    assert 2.0 <= wait <= 2.5
