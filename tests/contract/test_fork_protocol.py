"""Forks under random schedules with faults: the origin and its forks continue apart, and none is left without the other."""

from __future__ import annotations

import random

import pytest

from stepline.adapters.memory.log import MemoryLog
from stepline.log import journal
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from tests.contract.explorer import forking
from tests.contract.explorer.invariant import violations
from tests.contract.explorer.schedule import Chooser, Rand, Scripted, forked, play
from tests.contract.explorer.simulation import Simulation
from tests.support.budget import budget
from tests.support.draw import share

SEEDS = share(range(budget(60, 6_000)), 3)
POINTS = budget(40, 2_000)


def explore(simulation: Simulation, seed: int, chooser: Chooser) -> list[str]:
    client = play(simulation, forked(seed), chooser)
    return sorted({*violations(simulation, client), *forking.misforked(simulation)})


def doom(simulation: Simulation, seed: int) -> list[str]:
    """Let the owner delete the conversation beside the forks, with them or not."""
    draw = random.Random(seed * 23 + 1)
    forking.delete_origin(simulation, at=draw.randrange(1, 18), cascade=draw.random() < 0.5)
    play(simulation, forked(seed), Rand(seed))
    worker = ["a worker broke"] if simulation.broke else []
    return sorted({*worker, *forking.misforked(simulation)})


@pytest.mark.parametrize("placement", ["inline", "remote"])
def test_no_schedule_mixes_a_fork_with_its_origin_or_loses_one(placement) -> None:
    found = {seed: explore(Simulation(placement=placement), seed, Rand(seed)) for seed in SEEDS}
    assert {seed: broken for seed, broken in found.items() if broken} == {}


def test_no_schedule_deletes_an_origin_and_leaves_its_fork() -> None:
    found = {seed: doom(Simulation(), seed) for seed in SEEDS}
    assert {seed: broken for seed, broken in found.items() if broken} == {}


def test_no_single_deviation_breaks_a_fork() -> None:
    scenario = forked(2)
    plain = Scripted({})
    simulation = Simulation()
    client = play(simulation, scenario, plain)
    assert not {*violations(simulation, client), *forking.misforked(simulation)}
    assert simulation.forked
    points = [(at, choice) for at, width in enumerate(plain.widths) for choice in range(1, width)]
    found = {
        point: explore(Simulation(), 2, Scripted(dict([point])))
        for point in share(points[:: max(1, len(points) // POINTS)], 2)
    }
    assert {point: broken for point, broken in found.items() if broken} == {}


def test_every_schedule_forks() -> None:
    forks = 0
    for seed in list(SEEDS)[:10]:
        simulation = Simulation()
        play(simulation, forked(seed), Rand(seed))
        forks += len(simulation.forked)
    assert forks >= 15


def test_without_the_count_at_its_origin_a_fork_is_left_alone() -> None:
    seen = (doom(Simulation(log=forking.Uncounted()), seed) for seed in range(60))
    assert any("a fork without its origin" in broken for broken in seen)


def test_without_the_origins_batches_a_fork_has_holes(monkeypatch) -> None:
    def own(log: MemoryLog, lane: Lane, n: int, **bounds: object) -> list[Batch]:
        return log.since(lane, n, **bounds)  # type: ignore[arg-type]  # the bounds of a read

    monkeypatch.setattr(journal, "read_since", own)
    monkeypatch.setattr(forking, "read_since", own)
    seen = (explore(Simulation(), seed, Rand(seed)) for seed in range(20))
    assert any("a hole in the log" in broken for broken in seen)
