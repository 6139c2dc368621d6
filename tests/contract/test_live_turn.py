"""Everything at once: messages, steers, stops, forms, deaths, duplicates, expiry and reconnections, in any order.

A run of it interleaves the real functions call by call; whatever happens, the invariants of the log hold after each
step, and every promise once the simulation has come to rest.
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
from tests.contract.fault.client import Client
from tests.contract.fault.concurrent_run import ConcurrentRun, Flight
from tests.contract.fault.simulation import STRIKE, Simulation, sampled, written
from tests.support.budget import budget
from tests.support.generation import PROGRAM, called, coded
from tests.support.log_invariant import chain, effects, turns

from .fault.driver import UnsettledError
from .fault.promise import broken
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
"""Die before a call, or after it; lose its answer; run on without a caller; run twice; lose the execution."""

indices = st.integers(min_value=0, max_value=40)
calls = st.integers(min_value=1, max_value=60)


def speak(simulation: Simulation, where: str, request: ModelRequest) -> str:
    """Take turns in striking, computing and writing, twice each, and answer."""
    turn, round_ = map(int, where.split("."))
    if simulation.state.finalize == 1 or round_ > 1:
        return sampled(f"Here you are: {where}. {LONG}")
    deeds = (called(STRIKE), coded(f"r{round_}.csv"), written(f"r{round_}.md", LONG))
    return deeds[(turn + round_) % len(deeds)]


class LiveTurn(RuleBasedStateMachine):
    """One conversation, three clients."""

    def __init__(self) -> None:
        super().__init__()
        make = partial(Simulation, speak, {"max_iterations": 6, "seal_batches": 8})
        self.concurrent = ConcurrentRun(lambda log: make(log=log), ("desk", "phone", "tablet"))
        self.seen = 0

    @initialize(
        kind=st.sampled_from(["message", "form"]),
        calls=calls,
        hearing=st.sampled_from(["prompt", "late", "deaf"]),
    )
    def begin(self, kind: str, calls: int, hearing: Any) -> None:
        self.concurrent.simulation.hearing = hearing
        self.concurrent.clients[0].say("desk-0", **KINDS[kind])
        self.concurrent.finish_clients()
        self.drive(calls)

    # --- people

    @rule(who=indices, kind=st.sampled_from(sorted(KINDS)), arrives=st.booleans())
    def say(self, who: int, kind: str, arrives: bool) -> None:
        client = self.client(who)
        client.say(f"{client.name}-{len(client.said)}", **KINDS[kind])
        if arrives:
            self.concurrent.finish_clients()

    @rule(who=indices, which=indices)
    def say_again(self, who: int, which: int) -> None:
        """Deliver a message once more, whether it was answered or not."""
        client = self.client(who)
        if client.said:
            client.send(sorted(client.said)[which % len(client.said)])

    @rule(who=indices, goes=st.booleans())
    def look(self, who: int, goes: bool) -> None:
        """Let a client go away, come back, or do what it does every 25 seconds."""
        client = self.client(who)
        if goes and client.connection:
            client.drop()
        elif not client.connection or client.expired:
            client.join()
        elif client.is_late():
            client.resume()
        else:
            client.ping()

    # --- the cloud

    @rule(calls=calls)
    def drive(self, calls: int) -> None:
        """Let the open turn make `calls` calls, across its states."""
        for _ in range(calls):
            flights = [flight for flight in self.concurrent.flights if flight.execution is not None]
            if flights:
                self.concurrent.advance(flights[-1])

    @precondition(lambda self: self.concurrent.flights)
    @rule(which=indices, calls=calls)
    def go_on(self, which: int, calls: int) -> None:
        self.concurrent.advance(self.flight(which), calls)

    @precondition(lambda self: self.concurrent.flights)
    @rule(which=indices, fault=st.sampled_from(FAULTS))
    def go_wrong(self, which: int, fault: Any) -> None:
        flight = self.flight(which)
        match fault:
            case "given up":
                self.concurrent.give_up(flight)
            case "twice":
                self.concurrent.copy(flight)
            case "abandoned":
                self.concurrent.abandon(flight)
            case _:
                self.concurrent.advance(flight, fault=fault)

    @rule(seconds=st.sampled_from(WAITS_S), sweeps=st.booleans())
    def later(self, seconds: int, sweeps: bool) -> None:
        self.concurrent.wait(seconds)
        if sweeps:
            self.concurrent.sweep()

    # --- what holds

    @invariant()
    def the_log_is_sound(self) -> None:
        self.concurrent.listen()
        batches = self.concurrent.simulation.batches()
        if len(batches) > self.seen:
            self.seen = len(batches)
            assert (
                sorted(
                    {
                        *chain(batches),
                        *turns(batches),
                        *effects(self.concurrent.simulation.effects, batches, recorded=(STRIKE, PROGRAM)),
                    }
                )
                == []
            )
        for client in self.concurrent.clients:
            check_screen(client, batches)

    def teardown(self) -> None:
        concurrent = self.concurrent
        try:
            concurrent.settle()
            assert broken(concurrent.simulation, concurrent.sent, concurrent.clients) == []
        except UnsettledError as unsettled:
            pytest.fail(str(unsettled))
        finally:
            concurrent.end()

    # --- who

    def client(self, at: int) -> Client:
        return self.concurrent.clients[at % len(self.concurrent.clients)]

    def flight(self, at: int) -> Flight:
        return self.concurrent.flights[at % len(self.concurrent.flights)]


def check_screen(client: Client, batches: list[Batch]) -> None:
    """Fail unless a client has shown the first of the events that there are, each once and in order."""
    durable = [batch.n for batch in batches if derive(batch)]
    shown = [n for n, _ in client.applied]
    assert shown == durable[: len(shown)], f"{client.name} missed or repeated events"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_a_live_turn_keeps_its_promises_under_events_in_any_order() -> None:
    run_state_machine_as_test(
        LiveTurn,
        settings=settings(
            max_examples=budget(60, 1_000),
            stateful_step_count=budget(40, 80),
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
