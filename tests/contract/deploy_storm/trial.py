"""A seed: its course played by one release alone, then over rollouts, which must come to the same."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stepline.model.entry import ApprovalAnswered, Closed, Forked, Queued, SteeredEntry
from tests.contract.deploy_storm.course import draw_course
from tests.contract.deploy_storm.mixed_stage import Stage
from tests.contract.deploy_storm.outcome import Facts, facts_of
from tests.contract.deploy_storm.release_tree import ReleaseTree
from tests.contract.deploy_storm.rollout import Mode, Rollout
from tests.contract.deploy_storm.storm import Played, Storm, reads_forks

MODES: Final[tuple[Mode, ...]] = ("rolling", "mixed")
KINDS: Final = {
    Closed: "turns",
    Queued: "queued",
    ApprovalAnswered: "parked for 30 days",
    SteeredEntry: "steered or stopped",
    Forked: "forks",
}
SHOWN: Final = 8
"""Lines of a difference in a report."""


@dataclass
class Report:
    """What the seeds came to; `problems` has a line for each turn that is stranded, repeated or changed.

    `kinds` counts what the courses had, and `pairs` consecutive steps of a turn by their releases. A step is `refused` by a
    release that cannot read its format, and tried again.
    """

    seeds: int = 0
    steps: int = 0
    refused: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)
    stranded: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [*self.stranded, *self.repeated, *self.changed]

    def merge(self, other: Report) -> None:
        """Add what other seeds came to."""
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def add(self, name: str, played: Played, found: Facts, expected: Facts) -> None:
        """Compare what one rollout came to with what one release did alone."""
        self.kinds += _kinds(played)
        self.steps += played.steps
        self.refused += played.refused
        self.pairs += played.pairs
        self.stranded += [f"{name}: {lane} is stranded" for lane in played.stranded]
        self.repeated += [f"{name}: {one}" for one in _repeated(found, expected)]
        if found != expected:
            self.changed += [f"{name}: changed", *_difference(expected, found)]


def play_seed(stage: Stage, releases: Sequence[ReleaseTree], seed: int, report: Report) -> None:
    """Play a seed; every second one has forks, which begin where releases read them."""
    course = draw_course(seed, forks=seed % 2 == 1)
    readers = [one for one in releases if reads_forks(one)] if course.forks else [*releases]
    report.seeds += 1
    alone = Storm(stage, course, Rollout("alone", [readers[seed // 2 % len(readers)]], str(seed))).play()
    report.changed += [f"seed {seed}, alone: {lane} failed" for lane in _failed(facts_of(alone))]
    for mode in MODES:
        deployed, name = readers if mode == "rolling" else [*releases], f"seed {seed}, {mode}"
        # A release that does not read a queued fork lets the next turn begin before it.
        ordered = deployed == readers
        try:
            played = Storm(stage, course, Rollout(mode, deployed, str(seed))).play()
            report.add(name, played, facts_of(played, ordered=ordered), facts_of(alone, ordered=ordered))
        except Exception as error:  # noqa: BLE001 - what no release alone raises, or no reader decodes
            report.changed.append(f"{name}: {type(error).__name__}: {error}")


def _kinds(played: Played) -> Counter[str]:
    found = Counter(
        KINDS[type(entry)]
        for batches in played.batches.values()
        for batch in batches
        for entry in batch.entries
        if type(entry) in KINDS
    )
    found["programs"] = sum(count for (tool, _), count in played.effects.items() if tool == "program")
    found["programs in tasks"] = played.tasks
    return found


def _failed(facts: Facts) -> list[str]:
    """Return the conversations with a turn that failed: the storm would compare failures."""
    return [name for name, ends in facts.ends.items() if any(outcome != "completed" for outcome, *_ in ends)]


def _repeated(found: Facts, expected: Facts) -> Iterator[str]:
    for effect, count in found.effects.items():
        if count > expected.effects.get(effect, 0):
            yield f"{effect} was done {count} times"
    for name, events in found.events.items():
        for event, count in (Counter(events) - Counter(expected.events.get(name, []))).items():
            yield f"the client of {name} saw {count} more of {event[:80]}"


def _difference(expected: Facts, found: Facts) -> list[str]:
    lines = difflib.unified_diff(_lines(expected), _lines(found), "alone", "storm", n=0, lineterm="")
    return [f"    {line[:200]}" for line in lines if not line.startswith(("---", "+++", "@@"))][:SHOWN]


def _lines(facts: Facts) -> list[str]:
    return [
        f"{kind} {name}: {one}"
        for kind, rows in msgspec.to_builtins(facts).items()
        for name, values in rows.items()
        for one in (values if isinstance(values, list) else [values])
    ]
