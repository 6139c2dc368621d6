"""Schedules that break a promise when a rule is removed, each as the few choices that matter.

Such a schedule is found by chance in thousands of tries, so it is kept in `tests/data/found/schedules.json`: the
calls of processes at which something else happens than that the process continues. A schedule that names calls survives
changes of the code that a seed does not. `python -m tests.contract.explorer.recorded` looks for those that are missing
or break nothing any more, and writes the file; rules given as arguments are searched again.
"""

from __future__ import annotations

import json
import logging
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import pytest

from .ablation import ABLATIONS, Ablation
from .bounded_ablation import BOUNDED
from .call_ablation import CALLS
from .invariant import violations
from .limited_ablation import LIMITED
from .schedule import Chooser, play

FILE: Final = Path(__file__).resolve().parents[2] / "data/found/schedules.json"
ROWS: Final = (*ABLATIONS, *LIMITED, *BOUNDED, *CALLS)
KEPT: Final = 2
"""Schedules kept for a rule: a change of the code that spares one still meets the other."""
CALMS: Final = 12
LOOKS_FURTHER: Final = 40
"""Seeds after the first schedule that are tried for another one."""


class Deviation(NamedTuple):
    """Before the `nth` time that `process` makes a call, `kind` happens to `subject` instead."""

    process: str
    call: str
    nth: int
    kind: str
    subject: str


class Schedule(msgspec.Struct, frozen=True):
    """A scenario by its seed, and where its schedule deviates from the plain one.

    `calm` draws who goes on when nothing fails any more; 0: always the first who can.
    """

    seed: int
    deviations: tuple[Deviation, ...]
    calm: int = 0


class _Counting:
    """Names each point at which something is chosen by the process that would go on and the call that it makes."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str]] = Counter()

    def place(self, options: list[tuple[str, Any]]) -> tuple[str, str, int]:
        base = options[0][1]
        self._seen[base.name, base.at] += 1
        return base.name, base.at, self._seen[base.name, base.at]


class Recorder(_Counting):
    """Lets another chooser choose, and keeps what it chose."""

    def __init__(self, chooser: Chooser) -> None:
        super().__init__()
        self._chooser = chooser
        self.deviations: list[Deviation] = []

    def below(self, bound: int) -> int:
        return self._chooser.below(bound)

    def pick(self, options: list[tuple[str, Any]]) -> int:
        place, at = self.place(options), self._chooser.pick(options)
        if at:
            self.deviations.append(Deviation(*place, *_label(options[at])))
        return at


class Replayed(_Counting):
    """The plain schedule but for the deviations whose place comes and whose subject is there."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self._chosen = {deviation[:3]: deviation[3:] for deviation in schedule.deviations}
        self._calm = random.Random(schedule.calm) if schedule.calm else None

    def below(self, bound: int) -> int:
        return self._calm.randrange(bound) if self._calm else 0

    def pick(self, options: list[tuple[str, Any]]) -> int:
        chosen = self._chosen.get(self.place(options))
        return next((at for at, option in enumerate(options) if _label(option) == chosen), 0)


def _label(option: tuple[str, Any]) -> tuple[str, str]:
    """Return what happens and to whom; of executions and tasks there is one choice, whatever its name."""
    kind, subject = option
    return kind, getattr(subject, "name", "")


# --- runs


def seen_at(ablation: Ablation, seed: int) -> tuple[set[str], list[Deviation]]:
    """Return what the seed's schedule violates, and where it deviates from the plain one."""
    simulation = ablation.simulation()
    noting = Recorder(ablation.chooser(simulation, seed))
    client = play(simulation, ablation.scenario(seed), noting, syncs=ablation.syncs)
    return set(violations(simulation, client)), noting.deviations


def seen_in(ablation: Ablation, schedule: Schedule) -> set[str]:
    """Return what a recorded schedule violates."""
    simulation = ablation.simulation()
    chooser = Replayed(schedule)
    client = play(simulation, ablation.scenario(schedule.seed), chooser, syncs=ablation.syncs)
    return set(violations(simulation, client))


def recorded() -> dict[str, tuple[Schedule, ...]]:
    """Return the recorded schedules by the rule that they need."""
    if not FILE.exists():
        return {}
    return msgspec.json.decode(FILE.read_bytes(), type=dict[str, tuple[Schedule, ...]])


# --- the search


def _breaks(ablation: Ablation, schedule: Schedule) -> bool:
    return bool(seen_in(ablation, schedule) & ablation.breaks)


def _lessen(ablation: Ablation, schedule: Schedule) -> Schedule:
    """Leave out deviations, many at once and then single ones, as long as the promise breaks without them."""
    size = max(1, len(schedule.deviations) // 2)
    while size:
        at = 0
        while at < len(schedule.deviations):
            rest = schedule.deviations[:at] + schedule.deviations[at + size :]
            less = msgspec.structs.replace(schedule, deviations=rest)
            if _breaks(ablation, less):
                schedule = less
            else:
                at += size
        size //= 2
    return schedule


def _search(ablation: Ablation, found: list[Schedule]) -> list[Schedule]:
    """Return schedules of other seeds, too, until there are as many as are kept."""
    tried, last = {schedule.seed for schedule in found}, ablation.seeds
    for seed in range(ablation.seeds):
        if len(found) >= KEPT or seed >= last:
            break
        if seed in tried or not seen_at(ablation, seed)[0] & ablation.breaks:
            continue
        deviations = tuple(seen_at(ablation, seed)[1])
        replays = (Schedule(seed=seed, deviations=deviations, calm=calm) for calm in range(CALMS))
        schedule = next((one for one in replays if _breaks(ablation, one)), None)
        if schedule:
            found.append(_lessen(ablation, schedule))
            last = seed + LOOKS_FURTHER
    return found


def refresh(rules: Iterable[str]) -> Iterator[str]:
    """Search what is missing, write the file, and yield a line for each rule."""
    kept = recorded()
    anew = set(rules)
    for ablation in ROWS:
        if ablation.schedule is not None:
            continue
        known = () if ablation.rule in anew else kept.get(ablation.rule, ())
        with pytest.MonkeyPatch.context() as patch:
            ablation.patch(patch)
            found = [schedule for schedule in known if _breaks(ablation, schedule)]
            found = found or _search(ablation, [])
        kept[ablation.rule] = tuple(found)
        FILE.write_text(_layout(kept))
        sizes = ", ".join(str(len(schedule.deviations)) for schedule in found)
        yield f"{ablation.rule}: {f'schedules of {sizes} deviations' if found else 'NOTHING FOUND'}"


def _layout(kept: dict[str, tuple[Schedule, ...]]) -> str:
    """Return the file: a line for each schedule, so that a change of one is seen as one."""
    rows = [
        f"{json.dumps(ablation.rule)}: [\n"
        + ",\n".join(f"  {json.dumps(msgspec.to_builtins(schedule))}" for schedule in kept[ablation.rule])
        + "\n]"
        for ablation in ROWS
        if kept.get(ablation.rule)
    ]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    for line in refresh(sys.argv[1:]):
        print(line, flush=True)  # noqa: T201 - the command's output
