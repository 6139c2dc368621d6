"""Releases that replace each other while turns run: what became of the turns, by the pairs of releases that ran their steps.

`python -m bench.storm 1000` plays a thousand seeds in two processes, prints the table, and ends with 1 if a turn was stranded,
repeated or changed.
The packages of earlier releases come from the history of this clone (`tests/contract/deploy_storm`).
"""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import cache
from multiprocessing import get_context
from typing import Final

from tests.contract.deploy_storm.mixed_stage import Stage, open_stage
from tests.contract.deploy_storm.release_tree import NEXT, RELEASES, ReleaseTree
from tests.contract.deploy_storm.trial import MODES, Report, play_seed

SEEDS: Final = 1_000
SHARE: Final = 50
"""Seeds that a process plays before it reports."""
PROCESSES: Final = 2
_OPEN: Final = ExitStack()


def storm(seeds: int) -> Report:
    """Play seeds from 0 on. Raises ReleaseMissingError: the clone's history is shallow."""
    report = Report()
    shares = [range(first, min(first + SHARE, seeds)) for first in range(0, seeds, SHARE)]
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        for part in pool.map(_play, shares):
            report.merge(part)
            sys.stderr.write(f"{report.seeds} seeds, {len(report.problems)} problems\n")
    return report


def _play(seeds: range) -> Report:
    report = Report()
    stage, releases = _opened()
    for seed in seeds:
        play_seed(stage, releases, seed, report)
    return report


@cache
def _opened() -> tuple[Stage, list[ReleaseTree]]:
    """Return the stage of this process, which stays open until its end, and the releases."""
    atexit.register(_OPEN.close)
    return _OPEN.enter_context(open_stage()), [ReleaseTree(name) for name in (*RELEASES, NEXT)]


def render_report(report: Report) -> Iterator[str]:
    """Yield the lines of a report, as Markdown."""
    names = [*RELEASES, NEXT]
    yield f"{report.seeds} seeds, each {' and '.join(MODES)}: {report.steps} steps, {report.refused} of them refused once"
    yield ", ".join(f"{count} {kind}" for kind, count in sorted(report.kinds.items()))
    yield ""
    yield f"| a step of ↓, the next of → | {' | '.join(names)} |"
    yield f"|---|{'---:|' * len(names)}"
    for former in names:
        yield f"| {former} | {' | '.join(str(report.pairs[former, later]) for later in names)} |"
    yield ""
    yield "| stranded | repeated | changed |"
    yield "|---:|---:|---:|"
    yield f"| {len(report.stranded)} | {len(report.repeated)} | {len(report.changed)} |"
    yield from report.problems


def main() -> int:
    """Print the report of as many seeds as the command line names."""
    begun = time.monotonic()
    report = storm(int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS)
    sys.stdout.writelines(f"{line}\n" for line in render_report(report))
    sys.stderr.write(f"{time.monotonic() - begun:.0f} s\n")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
