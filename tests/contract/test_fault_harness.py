"""A process dies, or an answer is lost, at every boundary: no turn is lost, and nothing happens twice unmarked.

A scenario is played once to count its boundaries. Then each boundary fails in a separate run: before the
call, after it, or with its answer lost; and the caller retries, or is gone. A landing plays the scenarios that
are drawn for it, and takes one of these ways at each boundary, in turn. A night plays all scenarios, and `make soak` takes all ways.
Source: docs/concepts/log.md#how-it-is-checked.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.contract.fault.simulation import Simulation
from tests.support.budget import SOAK
from tests.support.draw import ALL, share
from tests.support.spoken_wire import WIRE_COLUMNS, speak_over

from .fault.ablation import ABLATIONS, Ablation
from .fault.boundary import READS, WRITES, methods, protocols
from .fault.driver import FAULTS, NOTHING, THENS, Driver, Plan, Scenario, UnsettledError
from .fault.promise import broken
from .fault.scenario import SCENARIOS, SHARES

WAYS = tuple(itertools.product(FAULTS, THENS))
THOROUGH = ("log.put", "model.", "tool.", "hook.", "executor.", "machine.")
"""Boundaries at which a night plays every fault."""


@pytest.fixture(params=WIRE_COLUMNS, autouse=True)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The wire over which the model of a scenario is called."""
    return speak_over(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """A run logs what goes wrong in it, and there are thousands."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def test_every_method_of_every_port_is_in_the_list_of_writes_or_of_reads() -> None:
    there = {f"{protocol.__name__}.{name}" for protocol in protocols() for name in methods(protocol)}
    writes, reads = (
        {f"{port}.{name}" for port, names in table.items() for name in names} for table in (WRITES, READS)
    )
    assert writes | reads == there
    assert not writes & reads


@pytest.fixture(scope="module")
def tally(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """Count what was played, and say so in one line."""
    counted: Counter[str] = Counter()
    yield counted
    line = (
        f"fault harness: {counted['boundaries']} boundaries in {counted['scenarios']} scenarios, "
        f"{counted['runs']} runs in which one of them goes wrong"
    )
    with request.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        request.config.get_terminal_writer().line(f"\n{line}")


@pytest.mark.parametrize("scenario", share(SCENARIOS, SHARES), ids=lambda scenario: scenario.name)
def test_a_crash_at_any_call_neither_loses_nor_repeats_work(
    scenario: Scenario, tally: Counter[str], request: pytest.FixtureRequest
) -> None:
    plain = play(scenario, NOTHING)
    assert plain.problems == []
    boundaries = share(range(len(plain.trace)), 2)
    plans = [plan for plan in every_plan(plain.trace) if plan.at in boundaries]
    if not SOAK:
        plans = [plan for plan in plans if is_sampled(plan, plain.trace)]
    assert {plan.at for plan in plans} == set(boundaries)
    tally.update(scenarios=1, boundaries=len(plain.trace), runs=len(plans))
    problems = {}
    for plan in plans:
        if found := play(scenario, plan).problems:
            problems[plan] = (plain.trace[plan.at], found)
    assert problems == {}


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda ablation: ablation.rule)
def test_without_a_rule_a_promise_is_broken(ablation: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation.patch(monkeypatch)
    trace = play(ablation.scenario, NOTHING, ablation.simulation).trace
    seen: set[str] = set()
    for plan in every_plan(trace):
        if trace[plan.at].startswith(ablation.at):
            seen.update(play(ablation.scenario, plan, ablation.simulation).problems)
            if ablation.breaks in seen:
                return
    pytest.fail(f"nothing went wrong without: {ablation.rule} (seen: {sorted(seen)})")


@dataclass(frozen=True)
class Played:
    """A run: the boundaries that it came to, and what is broken."""

    trace: list[str]
    problems: list[str]


def play(scenario: Scenario, plan: Plan, change: Callable[[Simulation], None] = lambda _: None) -> Played:
    """Play a scenario by a plan; a simulation that does not come to rest is broken, too."""
    run = Driver(scenario, plan)
    change(run.simulation)
    try:
        run.run()
    except UnsettledError as unsettled:
        return Played(run.trace, [type(unsettled).__name__])
    return Played(run.trace, [*broken(run.simulation, run.sent, run.clients), *run.costs])


def every_plan(trace: list[str]) -> Iterator[Plan]:
    """Yield every way in which a boundary of a run can go wrong."""
    for at in range(len(trace)):
        for fault, then in WAYS:
            yield Plan(at, fault, then)


def is_sampled(plan: Plan, trace: list[str]) -> bool:
    """Return True if a short test plays a plan: one way at each boundary in turn, and in a night every fault at some."""
    if ALL and trace[plan.at].startswith(THOROUGH):
        return plan.then == THENS[plan.at % len(THENS)]
    return (plan.fault, plan.then) == WAYS[plan.at % len(WAYS)]
