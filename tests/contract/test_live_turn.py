"""Everything at once: messages, steers, stops, forms, deaths, duplicates, expiry and reconnections, in any order.

A run of it interleaves the real functions call by call; whatever happens, the invariants of the log hold after each
step, and every promise once the world has come to rest. Longer: `pytest -m faults tests/contract/test_live_turn.py`.
Source: docs/concepts/log.md#how-it-is-checked.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from stepline.events.derive import derive
from stepline.model.batch import Batch
from stepline.ports.model import ModelRequest
from tests.contract.fault.client import Device
from tests.contract.fault.concurrent_run import Crowd, Flight
from tests.contract.fault.simulation import STRIKE, World, answered, called, coded, written

from .fault.driver import UnsettledError
from .fault.promise import broken, chain, effects, turns
from .fault.scenario import FORM, LONG, QUIET, STOP, steer, text

DAY_S = 86_400
WAITS_S = (30, 2 * 60, 31 * 60, 61 * 60, 3 * 3_600, 15 * DAY_S)
"""Longer than: a ping, an absent execution, a turn's deadline, a token, a subscription, a message's row."""

KINDS = {
    "message": text("Go on."),
    "steer": steer("Short, please."),
    "stop": STOP,
    "form": FORM,
    "quiet": QUIET,
}

FAULTS = ("before", "after", "lost", "given up", "twice", "abandoned")
"""Die before a call, or behind it; lose its answer; run on when nobody waits any more; run twice; lose the execution."""

indices = st.integers(min_value=0, max_value=40)
calls = st.integers(min_value=1, max_value=60)


def speak(world: World, where: str, request: ModelRequest) -> str:
    """Take turns in striking, computing and writing, twice each, and answer."""
    turn, round_ = map(int, where.split("."))
    if world.state.finalize == 1 or round_ > 1:
        return answered(f"Here you are: {where}. {LONG}")
    deeds = (called(STRIKE), coded(f"r{round_}.csv"), written(f"r{round_}.md", LONG))
    return deeds[(turn + round_) % len(deeds)]


class LiveTurn(RuleBasedStateMachine):
    """One conversation, three devices."""

    def __init__(self) -> None:
        super().__init__()
        make = partial(World, speak, {"max_iterations": 6, "seal_batches": 8})
        self.crowd = Crowd(lambda log: make(log=log), ("desk", "phone", "tablet"))
        self.seen = 0

    @initialize(
        kind=st.sampled_from(["message", "form"]),
        calls=calls,
        hearing=st.sampled_from(["prompt", "late", "deaf"]),
    )
    def begin(self, kind: str, calls: int, hearing: Any) -> None:
        self.crowd.world.hearing = hearing
        self.crowd.devices[0].say("desk-0", **KINDS[kind])
        self.crowd.finish_clients()
        self.drive(calls)

    # --- people

    @rule(who=indices, kind=st.sampled_from(sorted(KINDS)), arrives=st.booleans())
    def say(self, who: int, kind: str, arrives: bool) -> None:
        device = self.device(who)
        device.say(f"{device.name}-{len(device.said)}", **KINDS[kind])
        if arrives:
            self.crowd.finish_clients()

    @rule(who=indices, which=indices)
    def say_again(self, who: int, which: int) -> None:
        """Deliver a message once more, whether it was answered or not."""
        device = self.device(who)
        if device.said:
            device.send(sorted(device.said)[which % len(device.said)])

    @rule(who=indices, goes=st.booleans())
    def look(self, who: int, goes: bool) -> None:
        """Let a device go away, come back, or do what it does every 25 seconds."""
        device = self.device(who)
        if goes and device.connection:
            device.drop()
        elif not device.connection or device.expired:
            device.join()
        elif device.behind():
            device.resume()
        else:
            device.ping()

    # --- the cloud

    @rule(calls=calls)
    def drive(self, calls: int) -> None:
        """Let the open turn make so many calls, across its states."""
        for _ in range(calls):
            flights = [flight for flight in self.crowd.flights if flight.execution is not None]
            if flights:
                self.crowd.advance(flights[-1])

    @precondition(lambda self: self.crowd.flights)
    @rule(which=indices, calls=calls)
    def go_on(self, which: int, calls: int) -> None:
        self.crowd.advance(self.flight(which), calls)

    @precondition(lambda self: self.crowd.flights)
    @rule(which=indices, fault=st.sampled_from(FAULTS))
    def go_wrong(self, which: int, fault: Any) -> None:
        flight = self.flight(which)
        match fault:
            case "given up":
                self.crowd.give_up(flight)
            case "twice":
                self.crowd.copy(flight)
            case "abandoned":
                self.crowd.abandon(flight)
            case _:
                self.crowd.advance(flight, fault=fault)

    @rule(seconds=st.sampled_from(WAITS_S), sweeps=st.booleans())
    def later(self, seconds: int, sweeps: bool) -> None:
        self.crowd.wait(seconds)
        if sweeps:
            self.crowd.sweep()

    # --- what holds

    @invariant()
    def the_log_is_sound(self) -> None:
        self.crowd.listen()
        batches = self.crowd.world.batches()
        if len(batches) > self.seen:
            self.seen = len(batches)
            assert sorted({*chain(batches), *turns(batches), *effects(self.crowd.world, batches)}) == []
        for device in self.crowd.devices:
            check_screen(device, batches)

    def teardown(self) -> None:
        crowd = self.crowd
        try:
            crowd.settle()
            assert broken(crowd.world, crowd.sent, crowd.devices) == []
        except UnsettledError as unsettled:
            pytest.fail(str(unsettled))
        finally:
            crowd.end()

    # --- who

    def device(self, at: int) -> Device:
        return self.crowd.devices[at % len(self.crowd.devices)]

    def flight(self, at: int) -> Flight:
        return self.crowd.flights[at % len(self.crowd.flights)]


def check_screen(device: Device, batches: list[Batch]) -> None:
    """Fail unless a device has shown the first of the events that there are, each once and in order."""
    durable = [batch.n for batch in batches if derive(batch)]
    shown = [n for n, _ in device.applied]
    assert shown == durable[: len(shown)], f"{device.name} missed or repeated events"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.faults
def test_a_live_turn_keeps_its_promises_whatever_happens_in_whichever_order(
    request: pytest.FixtureRequest,
) -> None:
    long = "faults" in request.config.getoption("markexpr")
    run_state_machine_as_test(
        LiveTurn,
        settings=settings(
            max_examples=1_000 if long else 60,
            stateful_step_count=80 if long else 40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
