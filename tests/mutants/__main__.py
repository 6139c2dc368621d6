"""Try drawn mutants of the library; a mutant that survives and is not accepted in `table.json` fails the run.

`make mutants` tries the 400 that a fixed seed draws, each by all tests that run its function, and writes the table.
`python -m tests.mutants SEED COUNT` tries others, as `make soak` does.
`python -m tests.mutants known SEED COUNT` tries some of the table, each by the test that killed it, and one that this
test does not kill by all unit tests of its package: a landing does.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import pytest

from tests.mutants.listing import PACKAGES, ROOT, Mutant, draw, files_of, find, list_mutants
from tests.mutants.session import Recorded, Result, Session, run_children
from tests.mutants.table import ACCEPTED, KILLED, write
from tests.tiers import deal

SEED: Final = "stepline"
COUNT: Final = 400
PROCESSES: Final = 2
SUITES: Final = (
    *("api", "bootstrap", "bundle", "context", "delivery", "events", "ingress", "inspection", "log", "loop"),
    *("model", "programs", "protocol", "rendering", "timeline", "tools"),
)
"""Folders of unit tests that run the core."""
CONTRACTS: Final = ("test_log.py", "test_remembered_turn.py", "test_workflow_live.py")


class Trials:
    """Mutants, and what becomes of them."""

    def __init__(self, mutants: Iterable[Mutant], out: TextIO) -> None:
        self.mutants = {mutant.name: mutant for mutant in mutants}
        self._out = out
        self.killed: dict[str, str] = {}
        self.survived: list[str] = []
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)

    def try_all(self, session: Session) -> None:
        """Try each mutant by the tests that run its function, the nearest first."""
        begun = time.monotonic()
        recorded = self._record(session)
        self.say(f"{len(recorded.seconds)} tests ran in {time.monotonic() - begun:.0f} s")
        self.say(*(f"fails without a mutant: {test}" for test in recorded.failed))
        tests = {
            name: _nearest(mutant, recorded.tests_of(mutant), recorded.seconds)
            for name, mutant in self.mutants.items()
        }
        self._try(session, tests, recorded.seconds)

    def try_known(self, session: Session) -> None:
        """Try each mutant by the test that killed it; one whose test is gone survives."""
        tests = {name: [KILLED[name]] if KILLED[name] in session.items else [] for name in self.mutants}
        kept = sorted({test for own in tests.values() for test in own})
        _, found = next(run_children([("", partial(session.run, kept), len(kept))], 1))
        assert Result(*found).outcome == "survived", f"fails without a mutant: {found}"
        self._try(session, tests, {})

    def try_near(self, session: Session) -> None:
        """Try each mutant by all tests that were collected, the nearest first."""
        tests = {name: _nearest(mutant, session.items, {}) for name, mutant in self.mutants.items()}
        self._try(session, tests, {})

    def _record(self, session: Session) -> Recorded:
        by_file: dict[str, list[str]] = defaultdict(list)
        for test in session.items:
            by_file[test.partition("::")[0]].append(test)
        shares = deal({file: len(tests) for file, tests in by_file.items()}, PROCESSES)
        works = []
        for share in shares:
            tests = [test for file in share for test in by_file[file]]
            works.append(("", partial(session.record, tests, list(self.mutants.values())), 3_600))
        functions: dict[str, list[str]] = defaultdict(list)
        seconds: dict[str, float] = {}
        failed: list[str] = []
        for _, found in run_children(works, PROCESSES):
            one = Recorded(*found)
            for function, own in one.functions.items():
                functions[function] += own
            seconds |= one.seconds
            failed += one.failed
        return Recorded(functions, seconds, failed)

    def _try(
        self, session: Session, tests: Mapping[str, Sequence[str]], seconds: Mapping[str, float]
    ) -> None:
        works = [
            (name, partial(session.run, own, self.mutants[name]), sum(seconds.get(test, 1) for test in own))
            for name, own in tests.items()
        ]
        for name, result in run_children(works, PROCESSES):
            self._count(self.mutants[name], Result(*result) if result else Result("timeout"))

    def _count(self, mutant: Mutant, result: Result) -> None:
        outcome = "accepted" if result.outcome == "survived" and mutant.name in ACCEPTED else result.outcome
        if outcome == "survived":
            self.survived.append(mutant.name)
        elif outcome in {"killed", "timeout"}:
            self.killed[mutant.name] = result.test
        self._counts[mutant.package][outcome] += 1
        self.say(f"{outcome:8}  {mutant.path}  {mutant.name}  {result.test}")

    def report(self) -> int:
        """Write the counts of each package; return 1 if a mutant survived."""
        for package, counts in sorted(self._counts.items()):
            self.say(f"{package}: {', '.join(f'{counts[outcome]} {outcome}' for outcome in sorted(counts))}")
        self.say(*(f"survived: {name}" for name in self.survived))
        return 1 if self.survived else 0

    def say(self, *lines: str) -> None:
        self._out.writelines(f"{line}\n" for line in lines)
        self._out.flush()


def _nearest(mutant: Mutant, tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
    near, own = f"tests/unit/{mutant.package}/", f"/test_{Path(mutant.path).stem}.py::"

    def far(test: str) -> tuple[bool, bool, bool, float]:
        return test != KILLED.get(mutant.name), own not in test, near not in test, seconds.get(test, 0)

    return sorted(tests, key=far)


def _run(paths: Iterable[str], work: Callable[[Session], None]) -> None:
    pytest.main(["-q", "-p", "no:cacheprovider", *paths], plugins=[Session(work)])


def try_known(seed: str, count: str) -> int:
    """Try mutants of the table that the library still has."""
    drawn = draw((name for name, test in KILLED.items() if test), seed, int(count))
    trials = Trials((mutant for name in drawn if (mutant := find(name))), sys.stdout)
    files = {KILLED[name].partition("::")[0] for name in trials.mutants}
    if trials.mutants:
        _run(sorted(file for file in files if (ROOT / file).is_file()), trials.try_known)
    trials.say(f"{len(trials.mutants)} of {len(drawn)} drawn mutants are still in the library")
    trials.report()
    # A property draws other examples once the library's constants are others, and may miss what it saw before.
    rest = Trials((trials.mutants[name] for name in trials.survived), sys.stdout)
    if rest.mutants:
        _run(sorted({f"tests/unit/{mutant.package}" for mutant in rest.mutants.values()}), rest.try_near)
    return rest.report()


def try_drawn(seed: str = SEED, count: str = str(COUNT)) -> int:
    """Draw mutants of all packages and try them; write the table of the fixed seed."""
    begun = time.monotonic()
    listed = {
        mutant.name: mutant for package in PACKAGES for mutant in list_mutants(package, files_of(package))
    }
    trials = Trials((listed[name] for name in draw(listed, seed, int(count))), sys.stdout)
    trials.say(f"{len(trials.mutants)} of {len(listed)} mutants, drawn by {seed!r}")
    paths = [f"tests/unit/{suite}" for suite in SUITES] + [f"tests/contract/{name}" for name in CONTRACTS]
    _run(paths, trials.try_all)
    if seed == SEED:
        write(trials.killed, listed)
    status = trials.report()
    trials.say(f"{time.monotonic() - begun:.0f} s")
    return status


def main(arguments: Sequence[str]) -> int:
    """Run what the command line asks for; the output that pytest captures is not the one written to."""
    sys.stdout = os.fdopen(os.dup(1), "w")
    return try_known(*arguments[1:]) if arguments[:1] == ["known"] else try_drawn(*arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
