"""The log protocol under every interleaving and fault we can think of, over the memory twins and the real loop.

Source: docs/concepts/log.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from stepline.model.entry import Closed
from stepline.model.program.execution import Placement
from tests.contract.explorer.client import LossyWay
from tests.contract.explorer.simulation import Simulation
from tests.support.budget import budget
from tests.support.draw import share

from .explorer.ablation import MASKED, Ablation
from .explorer.bounded_ablation import (
    BOUNDED_MASKED,
    calm_of,
    calm_stage,
    scenario_of,
    stage,
)
from .explorer.call_ablation import CALM, asking, reporting, undisturbed
from .explorer.invariant import violations
from .explorer.limited import LIMITS
from .explorer.recorded import ROWS, recorded, seen_at, seen_in
from .explorer.schedule import NAMED, Rand, Scenario, Scripted, deleted, drawn, play, waiting

SHARES = 5
SEEDS = share(range(budget(100, 20_000)), SHARES)
DEVIATION_RUNS = budget(50, 2_000)
"""Runs of a named schedule, of which a landing plays its share, too."""

SEARCHED = 60
"""The seeds that a landing tries when no recorded schedule breaks the promise any more."""
KNOWN = recorded()
PLACEMENTS = ("inline", "remote")


@pytest.mark.parametrize("schedule", [drawn, waiting, deleted])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_random_schedule_with_faults_breaks_the_protocol(
    placement: Placement, schedule: Callable[[int], Scenario]
) -> None:
    broken = {}
    for seed in SEEDS:
        simulation = Simulation(placement=placement)
        client = play(simulation, schedule(seed), Rand(seed))
        if found := violations(simulation, client):
            broken[seed] = found
    assert broken == {}


@pytest.mark.parametrize("schedule", [drawn, waiting])
def test_no_schedule_charges_tokens_twice_or_leaks_a_hold_or_a_slot(
    schedule: Callable[[int], Scenario],
) -> None:
    broken = {}
    for seed in SEEDS:
        simulation = Simulation(limits=LIMITS)
        client = play(simulation, schedule(seed), Rand(seed, fault=0.08, budget=8))
        if found := violations(simulation, client):
            broken[seed] = found
    assert broken == {}


def test_on_a_full_stage_no_schedule_runs_too_many_turns_or_lets_one_wait_for_ever() -> None:
    broken = {}
    for seed in SEEDS:
        simulation = stage()
        client = play(simulation, scenario_of(seed), Rand(seed, fault=0.08, budget=8))
        if found := violations(simulation, client):
            broken[seed] = found
    assert broken == {}


def test_without_failures_no_turn_is_queued_beside_a_free_slot() -> None:
    broken = {}
    for seed in SEEDS:
        simulation = calm_stage()
        client = play(simulation, calm_of(seed), Rand(seed, fault=0.0, budget=0))
        if found := violations(simulation, client):
            broken[seed] = found
    assert broken == {}


@pytest.mark.parametrize(
    ("schedule", "faults"),
    [(drawn, {"fault": 0.08, "budget": 8}), (waiting, {"fault": 0.08, "budget": 8}), (undisturbed, CALM)],
    ids=["faults", "approvals", "calm"],
)
def test_no_schedule_loses_repeats_or_mixes_the_reports_of_a_running_call(
    schedule: Callable[[int], Scenario], faults: dict[str, Any]
) -> None:
    broken = {}
    for seed in SEEDS[::3]:
        simulation = reporting(faultless=schedule is undisturbed)
        if found := violations(simulation, play(simulation, schedule(seed), Rand(seed, **faults))):
            broken[seed] = found
    assert broken == {}


@pytest.mark.parametrize("schedule", [drawn, waiting])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_no_schedule_makes_or_records_a_model_call_of_a_program_twice_or_loses_one(
    placement: Placement, schedule: Callable[[int], Scenario]
) -> None:
    broken = {}
    for seed in SEEDS[::3]:
        simulation = asking(placement=placement)
        client = play(simulation, schedule(seed), Rand(seed, fault=0.08, budget=8))
        if found := violations(simulation, client):
            broken[seed] = found
    assert broken == {}


def test_a_client_requests_lost_frames() -> None:
    broken = {}
    for seed in SEEDS[::3]:
        simulation = Simulation(publisher_of=LossyWay())
        if found := violations(simulation, play(simulation, drawn(seed), Rand(seed))):
            broken[seed] = found
    assert broken == {}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", NAMED)
def test_no_single_deviation_from_the_plain_schedule_breaks_the_protocol(
    name: str, placement: Placement
) -> None:
    """Every crash, zombie, lost answer and preemption at every point, one at a time, evenly thinned to a bound."""
    plain = Scripted({})
    simulation = Simulation(placement=placement)
    assert violations(simulation, play(simulation, NAMED[name], plain)) == []
    points = [(at, choice) for at, width in enumerate(plain.widths) for choice in range(1, width)]
    stride = max(1, len(points) // DEVIATION_RUNS)
    broken = {}
    for point in share(points[::stride], SHARES):
        simulation = Simulation(placement=placement)
        client = play(simulation, NAMED[name], Scripted(dict([point])))
        if found := violations(simulation, client):
            broken[point] = found
    assert broken == {}


@pytest.mark.parametrize("ablation", share(ROWS, 3), ids=lambda ablation: ablation.rule)
def test_removing_a_rule_breaks_a_promise(ablation: Ablation, monkeypatch: pytest.MonkeyPatch) -> None:
    ablation.patch(monkeypatch)
    seen: set[str] = set()
    for schedule in KNOWN.get(ablation.rule, ()):
        seen |= seen_in(ablation, schedule)
        if seen & ablation.breaks:
            return
    for seed in range(budget(SEARCHED, ablation.seeds)):
        seen |= seen_at(ablation, seed)[0]
        if seen & ablation.breaks:
            return
    pytest.fail(
        f"nothing went wrong without: {ablation.rule} (seen: {sorted(seen)}). If the rule is still needed, "
        "`python -m tests.contract.explorer.recorded` searches longer for a schedule that needs it."
    )


@pytest.mark.parametrize("ablation", [*MASKED, *BOUNDED_MASKED], ids=lambda ablation: ablation.rule)
def test_removing_a_masked_rule_costs_work_and_breaks_no_promise(
    ablation: Ablation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ablation.patch(monkeypatch)
    seen: Counter[str] = Counter()
    for seed in SEEDS[:100]:
        simulation = ablation.simulation()
        seen.update(violations(simulation, play(simulation, ablation.scenario(seed), Rand(seed))))
    assert seen == {}, ablation.why_masked


def test_an_execution_named_after_its_turn_blocks_a_takeover(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the masked rule of the name is for: without it only an error close ends an orphaned turn."""
    seeds = range(budget(20, 100))
    kept = sum(_error_closes(seed) for seed in seeds)
    MASKED[2].patch(monkeypatch)
    assert sum(_error_closes(seed) for seed in seeds) > kept


def _error_closes(seed: int) -> int:
    simulation = Simulation()
    play(simulation, drawn(seed), Rand(seed))
    closes = [e for b in simulation.batches() for e in b.entries if isinstance(e, Closed)]
    return sum(entry.outcome == "error" for entry in closes)
