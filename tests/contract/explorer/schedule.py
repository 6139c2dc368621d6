"""Who goes next, and what goes wrong: random schedules with a budget of faults, and bounded exhaustive ones."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol

from tests.contract.explorer import bounded, deletion, forking
from tests.contract.explorer.client import Client, Watcher
from tests.contract.explorer.simulation import Simulation

from .process import Process

STEPS_MOST = 6000
FAULTS = ("crash", "zombie", "lost", "abort", "timeout")
SETTLE_ROUNDS = 14
LOOKS_FROM = 3
"""The calm round after which the sweeper has run once, so that nothing remains of a lost execution."""
SAY = "followup"


class Chooser(Protocol):
    def pick(self, options: list[tuple[str, Any]]) -> int: ...

    def below(self, bound: int) -> int: ...


class Rand:
    """Mostly goes on with one process, sometimes preempts it, rarely lets something fail."""

    def __init__(self, seed: int, *, fault: float = 0.04, preempt: float = 0.25, budget: int = 5) -> None:
        self._random = random.Random(seed)
        self._fault = fault
        self._preempt = preempt
        self._budget = budget

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)

    def pick(self, options: list[tuple[str, Any]]) -> int:
        chance = self._random.random()
        faults = [i for i, (kind, _) in enumerate(options) if kind in FAULTS]
        if chance < self._fault and faults and self._budget:
            kinds = sorted({options[i][0] for i in faults} - {"abort"})
            if any(options[i][0] == "abort" for i in faults) and (not kinds or self._random.random() < 0.15):
                kinds = ["abort"]
            self._budget -= 1
            kind = self._random.choice(kinds)
            return self._random.choice([i for i in faults if options[i][0] == kind])
        thaws = [i for i, (kind, _) in enumerate(options) if kind == "thaw"]
        if thaws and self._random.random() < 0.08:
            return self._random.choice(thaws)
        if chance < self._fault + self._preempt:
            return self._random.choice([i for i, (kind, _) in enumerate(options) if kind == "run"])
        return 0


class Scripted:
    """The default choice everywhere but at the named points; records how many choices each point had."""

    def __init__(self, deviations: dict[int, int]) -> None:
        self._deviations = deviations
        self.widths: list[int] = []

    def below(self, bound: int) -> int:
        return 0

    def pick(self, options: list[tuple[str, Any]]) -> int:
        at = len(self.widths)
        self.widths.append(len(options))
        return min(self._deviations.get(at, 0), len(options) - 1)


class SleepingClose:
    """One schedule by hand: a Close falls asleep before its put, its successor defers, and it wakes in mid-round."""

    def __init__(self, simulation: Simulation) -> None:
        self._world = simulation
        self._calls = 0

    def below(self, bound: int) -> int:
        return 0

    def pick(self, options: list[tuple[str, Any]]) -> int:
        cursor = self._world.tail().state.cursor
        base = options[0][1].name
        for at, (kind, subject) in enumerate(options):
            if kind == "run" and cursor.phase == "close" and subject.name.startswith(("client:b", "in:b")):
                return at
            if kind == "thaw" and cursor.phase == "act":
                return at
            if kind == "zombie" and base.startswith("close:"):
                self._calls += 1
                if self._calls == 2:
                    return at
        return 0


@dataclass(frozen=True)
class Scenario:
    """Events as (id, kind, at which batch), late duplicates, suspicious sweeps, and whether executions may abort.

    `asks` names the tools whose calls need a person, `people` those who answer: their verdicts in order, and how many more
    batches each waits for. `deletes` are the batches at which the owner deletes the conversation, and `erasers` the processes
    that erase it while others are still at work.
    """

    messages: tuple[tuple[str, str, int], ...]
    duplicates: tuple[tuple[str, str, int], ...] = ()
    sweeps: tuple[int, ...] = ()
    aborts: bool = False
    asks: Mapping[str, Any] = field(default_factory=dict)
    people: tuple[tuple[str, tuple[str, ...], int], ...] = ()
    deletes: tuple[int, ...] = ()
    erasers: int = 0
    forks: tuple[int, ...] = ()
    """The batches at which the owner forks the conversation."""
    crowd: int = 0
    """Draws what others say on a stage that has a bound; 0: there are none."""


ASKS = {"test.once": "always", "exec_tools.execute_code_python": "first_use"}
NEVER = 99
"""As many batches as never come: an answer that waits for them comes when everything is calm."""

NAMED = {
    "one": Scenario((("a", SAY, 0),)),
    "two": Scenario((("a", SAY, 0), ("b", SAY, 0))),
    "steer": Scenario((("a", SAY, 0), ("s", "steer", 2))),
    "stop": Scenario((("a", SAY, 0), ("f", "form", 2), ("b", SAY, 2), ("x", "stop", 3))),
    "late": Scenario((("a", SAY, 0), ("b", SAY, 7), ("c", SAY, 11))),
    "dup": Scenario((("a", SAY, 0),), duplicates=(("a", SAY, 6),)),
    "sweep": Scenario((("a", SAY, 0),), sweeps=(3,)),
    "allowed": Scenario((("a", SAY, 0),), asks=ASKS, people=(("p", ("approved",), 0),)),
    "denied": Scenario((("a", SAY, 0),), asks=ASKS, people=(("p", ("denied",), 0),)),
    "edited": Scenario((("a", SAY, 0),), asks=ASKS, people=(("p", ("edited",), 0),)),
    "waits": Scenario(
        (("a", SAY, 0), ("b", SAY, 3)), asks=ASKS, people=(("p", ("approved",), 1), ("q", ("denied",), 1))
    ),
    "steered parked": Scenario(
        (("a", SAY, 0), ("s", "steer", 3)), asks=ASKS, people=(("p", ("approved",), 1),)
    ),
    "stopped parked": Scenario(
        (("a", SAY, 0), ("b", SAY, 3), ("x", "stop", 4)), asks=ASKS, people=(("p", ("approved",), NEVER),)
    ),
    "deleted": Scenario((("a", SAY, 0), ("b", SAY, 5)), deletes=(6,), erasers=1),
    "deleted in a program": Scenario((("a", SAY, 0),), deletes=(8,), erasers=1),
    "deleted parked": Scenario(
        (("a", SAY, 0), ("b", SAY, 3)),
        asks=ASKS,
        people=(("p", ("approved",), NEVER),),
        deletes=(4,),
        erasers=1,
    ),
    "deleted after": Scenario((("a", SAY, 0),), duplicates=(("a", SAY, 14),), deletes=(NEVER,), erasers=1),
}


def drawn(seed: int) -> Scenario:
    """Return a scenario of up to four messages and perhaps other events, drawn from the seed."""
    draw = random.Random(seed * 7 + 1)
    messages = [("a", SAY, 0)]
    messages += [(name, SAY, draw.choice([0, 0, *range(1, 16)])) for name in "bcd"[: draw.randrange(4)]]
    for name, kind, chance in (
        ("s", "steer", 0.3),
        ("x", "stop", 0.15),
        ("f", "form", 0.2),
        ("q", "note", 0.2),
    ):
        if draw.random() < chance:
            messages.append((name, kind, draw.randrange(14)))
    duplicates = [(name, kind, draw.randrange(16)) for name, kind, _ in messages if draw.random() < 0.3]
    sweeps = (draw.randrange(1, 14),) if draw.random() < 0.3 else ()
    return Scenario(tuple(messages), tuple(duplicates), sweeps, aborts=draw.random() < 0.3)


def waiting(seed: int) -> Scenario:
    """Return a drawn scenario in which people are asked, and answer sooner or later, perhaps two of them."""
    draw = random.Random(seed * 11 + 3)
    verdicts = ("approved", "edited", "denied")
    people = tuple(
        (name, tuple(draw.choice(verdicts) for _ in range(3)), draw.choice([0, 0, 1, 2, NEVER]))
        for name in "pr"[: draw.choice([1, 1, 2])]
    )
    return replace(drawn(seed), asks=ASKS, people=people)


def deleted(seed: int) -> Scenario:
    """Return a scenario that ends with the conversation: at any batch, by one or two who delete it."""
    draw = random.Random(seed * 13 + 5)
    scenario = waiting(seed) if draw.random() < 0.3 else drawn(seed)
    deletes = tuple(draw.randrange(1, 16) for _ in range(draw.choice([1, 1, 2])))
    return replace(scenario, deletes=deletes, erasers=draw.choice([0, 1, 1, 2]))


def forked(seed: int) -> Scenario:
    """Return a scenario in which the owner forks the conversation, and the fork, at any batch."""
    draw = random.Random(seed * 19 + 7)
    scenario = waiting(seed) if draw.random() < 0.3 else drawn(seed)
    return replace(scenario, forks=(draw.randrange(1, 16),))


def play(simulation: Simulation, scenario: Scenario, chooser: Chooser, *, syncs: bool = True) -> Client:
    """Run a scenario to its end: faults first, then everything wakes, settles and is swept."""
    client = (Watcher if simulation.reports else Client)(simulation, syncs=syncs)
    _cast(simulation, scenario)
    simulation.spawn("client", client.run, safe=True)
    _turbulence(simulation, scenario, chooser)
    if simulation.faultless:
        bounded.look_at_line(simulation)
    simulation.settling = True
    for calm in range(SETTLE_ROUNDS):
        simulation.calm = calm
        _calm(simulation, chooser)
        if calm > LOOKS_FROM:
            simulation.look_at_parked()
        for token in sorted(simulation.tasks.waiting):
            simulation.cloud.expire(token)
        if calm >= 2:
            simulation.clock.pause(timedelta(minutes=2).total_seconds())
            simulation.sweeper()
    if simulation.placement == "remote":
        simulation.clock.pause(timedelta(hours=1).total_seconds())
        simulation.sweeper()
        _calm(simulation, chooser)
    if scenario.deletes:
        _erase(simulation, chooser)
    simulation.quiet = True
    _calm(simulation, chooser)
    for process in simulation.processes:
        if not process.done:
            process.kill()
    return client


def _erase(simulation: Simulation, chooser: Chooser) -> None:
    """Run the eraser for days, and then every client that has not finished."""
    for _ in range(3):
        deletion.erase(simulation, safe=True)
        _calm(simulation, chooser)
        simulation.clock.pause(timedelta(days=1).total_seconds())
    deletion.say_again(simulation)
    _calm(simulation, chooser)


def _cast(simulation: Simulation, scenario: Scenario) -> None:
    """Add every client, person and sweep of the scenario."""
    simulation.asks = dict(scenario.asks)
    simulation.deletes = bool(scenario.deletes)
    for name, kind, at in scenario.messages:
        simulation.client(name, kind=kind, at=at)
    for name, verdicts, patience in scenario.people:
        simulation.person(name, verdicts=verdicts, patience=patience)
    for name, kind, at in scenario.duplicates:
        simulation.late_duplicate(name, kind=kind, at=at)
    for at in scenario.sweeps:
        simulation.suspicious_sweeper(at=at)
    if scenario.crowd:
        bounded.crowd(simulation, scenario.crowd)
    simulation.forks = bool(scenario.forks)
    for at in scenario.forks:
        forking.fork(simulation, at=at)
    for at in scenario.deletes:
        deletion.delete(simulation, at=at)
    for _ in range(scenario.erasers):
        deletion.erase(simulation, safe=False)


def _turbulence(simulation: Simulation, scenario: Scenario, chooser: Chooser) -> None:
    current: Process | None = None
    for _ in range(STEPS_MOST):
        _launch(simulation)
        ready = [process for process in simulation.processes if process.runnable()]
        if not ready:
            return
        base = current if current in ready else ready[0]
        options = list(_options(simulation, scenario, base, ready))
        kind, subject = options[chooser.pick(options)]
        match kind:
            case "run":
                current = subject
                subject.step()
            case "crash":
                subject.kill()
            case "zombie":
                subject.give_up()
            case "lost":
                subject.step(lose_answer=True)
            case "abort":
                simulation.machine.end(subject)
            case "timeout":
                simulation.cloud.expire(subject)
            case "thaw":
                subject.frozen = False
                current = subject


def _options(
    simulation: Simulation, scenario: Scenario, base: Process, ready: list[Process]
) -> Iterator[tuple[str, Any]]:
    yield "run", base
    for process in ready:
        if process is not base:
            yield "run", process
    if not base.safe:
        yield "crash", base
        yield "zombie", base
        yield "lost", base
    if scenario.aborts:
        for name in simulation.running():
            yield "abort", name
            break
    for token in sorted(simulation.tasks.waiting):
        yield "timeout", token
        break
    for process in simulation.processes:
        if process.frozen and not process.done:
            yield "thaw", process


def _calm(simulation: Simulation, chooser: Chooser) -> None:
    for process in simulation.processes:
        process.frozen = False
    for _ in range(STEPS_MOST):
        _launch(simulation)
        ready = [process for process in simulation.processes if process.runnable()]
        if not ready:
            return
        ready[chooser.below(len(ready))].step()


def _launch(simulation: Simulation) -> None:
    while simulation.machine.queue:
        name, step = simulation.machine.queue.pop(0)
        simulation.drive(name, step)
    simulation.cloud.settle(simulation.spawn, simulation.ports)
    if len(simulation.processes) > 40:
        simulation.processes = [process for process in simulation.processes if not process.done]
