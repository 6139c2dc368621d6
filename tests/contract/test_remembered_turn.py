"""An ended turn is remembered, even after a crash of the process that was to update the index of memory.

Found among the random orders of tests/contract/test_live_turn.py. Source: docs/concepts/memory.md#other-indexes.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from stepline.model.entry import Closed
from stepline.ports.model import ModelRequest
from tests.contract.fault.concurrent_run import ConcurrentRun, Flight
from tests.contract.fault.driver import SWEEP_S
from tests.contract.fault.invocation import Fault
from tests.contract.fault.promise import broken
from tests.contract.fault.scenario import LONG, STOP, text
from tests.contract.fault.simulation import Simulation, sampled


def speak(simulation: Simulation, where: str, request: ModelRequest) -> str:
    return sampled(f"Here you are: {where}. {LONG}")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def begin() -> ConcurrentRun:
    return ConcurrentRun(lambda log: Simulation(speak, log=log), ("desk",))


def say(run: ConcurrentRun, message_id: str, **fields: object) -> None:
    run.clients[0].say(message_id, **fields)
    run.finish_clients()


def driven(run: ConcurrentRun) -> Flight:
    """Return the invocation that the newest execution waits for."""
    return [flight for flight in run.flights if flight.execution is not None][-1]


def cut_in(run: ConcurrentRun, turn: int) -> None:
    """Stop the turn, and send after the stop the message that opens the next turn."""
    if not any(flight.execution for flight in run.flights):  # the end before died before it started this turn
        run.wait(SWEEP_S)
        run.sweep()
        run.finish_clients()
    while driven(run).invocation.at != "model.piece":
        run.advance(driven(run))
    say(run, f"stop-{turn}", **STOP)
    say(run, f"after-{turn}", **text("And now?"))


def end_and_die(run: ConcurrentRun, calls: int, fault: Fault) -> str:
    """Let the turn end, make `calls` more calls, and die at the next one with its execution; return the name of that call."""
    ends = len(run.simulation.entries(Closed))
    while len(run.simulation.entries(Closed)) == ends:
        flight = driven(run)
        run.advance(flight)
    run.advance(flight, calls)
    at = "" if flight.invocation.done else flight.invocation.at
    if at:
        run.abandon(flight)
        run.advance(flight, fault=fault)
    return at


def assert_promises_kept(run: ConcurrentRun) -> None:
    run.settle()
    assert broken(run.simulation, run.sent, run.clients) == []
    run.end()


def test_a_turn_is_remembered_though_its_end_died_first_and_a_message_came_before_the_sweeper() -> None:
    run = begin()
    say(run, "m1", **text("Hello."))
    while driven(run).invocation.at != "memory.add":
        run.advance(driven(run))
    flight = driven(run)
    run.abandon(flight)
    run.advance(flight, fault="before")
    say(run, "m2", **text("Still there?"))
    assert_promises_kept(run)


@pytest.mark.parametrize("promoted", [False, True], ids=["by a message", "by the end before"])
@pytest.mark.parametrize("fault", ["before", "after", "lost"])
def test_each_turn_is_remembered_after_crashes_at_the_ends_of_two_before(
    fault: Fault, promoted: bool
) -> None:
    reached: set[str] = set()
    for calls in range(100):
        run = begin()
        say(run, "m0", **text("Hello."))
        died = ""
        for turn in (1, 2):
            if promoted:
                cut_in(run, turn)
            died = end_and_die(run, calls, fault)
            if not promoted:
                say(run, f"m{turn}", **text("Still there?"))
        assert_promises_kept(run)
        reached.add(died)
        if not died:
            break
    assert {"memory.add", "log.put", "log.clear_open" if not promoted else "log.project"} <= reached
