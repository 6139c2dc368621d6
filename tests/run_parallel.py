"""Run files of tests in several processes: `python -m tests.run_parallel 3 tests/unit tests/stacks -- -m "not emulator"`.

Each process collects only its own files, and files that share what takes long to make go to one process. They are dealt
by the seconds in `tests/durations.json`, so that all processes end at about the same time. A line is printed when a suite is
done; the whole output of a process follows if it failed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TextIO

from tests.tiers import ROOT, deal

DURATIONS: Final = ROOT / "tests/durations.json"
KEEP: Final = "STEPLINE_KEEP_DURATIONS"
"""The variable that makes a run write its durations."""
MARK: Final = "STEPLINE_FILES_DONE"
"""The variable that makes pytest print a line for each file that is done."""
TOGETHER: Final = ("tests/stacks/",)
"""Suites that share their templates in all files."""
UNKNOWN_S: Final = 1.0
_DONE: Final = re.compile(
    r"^[.sxEF]*::done (?P<file>\S+) (?P<tests>\d+) (?P<failed>\d+) (?P<seconds>[\d.]+)$"
)
_LAST: Final = re.compile(r"^(?:=+ )?((?:\d+ \w+,? ?)+) in [\d.]+s")


def find_files(paths: Iterable[str]) -> list[str]:
    """Return the files of tests at and below paths, from the root."""
    found = []
    for path in paths:
        below = sorted((ROOT / path).rglob("test_*.py")) if (ROOT / path).is_dir() else [ROOT / path]
        found += [file.relative_to(ROOT).as_posix() for file in below]
    return found


def deal_files(files: Sequence[str], costs: Mapping[str, float], processes: int) -> list[list[str]]:
    """Deal files to processes, those of a suite that stays together to one of them."""
    units: dict[str, list[str]] = defaultdict(list)
    for file in files:
        units[next((suite for suite in TOGETHER if file.startswith(suite)), file)].append(file)
    sums = {unit: sum(costs.get(file, UNKNOWN_S) for file in own) for unit, own in units.items()}
    shares = deal(sums, processes)
    return [[file for unit in share for file in units[unit]] for share in shares if share]


def suite_of(file: str) -> str:
    """Return the suite of a file: a folder of unit tests, else the file, for its tests take long."""
    parts = file.removeprefix("tests/").removesuffix(".py").split("/")
    return "/".join(parts[:-1][:2] if parts[0] == "unit" else parts)


class Run:
    """Processes at work, and what they have reported."""

    def __init__(self, shares: Sequence[Sequence[str]], options: Sequence[str], out: TextIO) -> None:
        self._shares, self._options, self._out = shares, options, out
        self._begun = time.monotonic()
        self._lock = threading.Lock()
        self._left = Counter(suite_of(file) for share in shares for file in share)
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.seconds: dict[str, float] = {}
        self.failed = 0
        self.totals: Counter[str] = Counter()

    def wait(self) -> None:
        """Run all processes to their end; raise nothing if some fail."""
        threads = [threading.Thread(target=self._follow, args=(share,)) for share in self._shares]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _follow(self, files: Sequence[str]) -> None:
        command = [sys.executable, "-m", "pytest", "-q", *self._options, *files]
        environment = {**os.environ, MARK: "1"}  # noqa: TID251 - the whole of it, for a process
        said = []
        with subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if found := _DONE.match(line):
                    self._count(found)
                else:
                    said.append(line)
        self._end(process.returncode, said)

    def _count(self, found: re.Match[str]) -> None:
        with self._lock:
            suite = suite_of(found["file"])
            self.seconds[found["file"]] = float(found["seconds"])
            self._counts[suite].update(tests=int(found["tests"]), failed=int(found["failed"]))
            self._left[suite] -= 1
            if not self._left[suite]:
                self._report(suite)

    def _report(self, suite: str) -> None:
        count = self._counts[suite]
        failed = f", {count['failed']} failed" if count["failed"] else ""
        seconds = time.monotonic() - self._begun
        self._out.write(f"{seconds:5.0f} s  {suite}: {count['tests']} tests{failed}\n")
        self._out.flush()

    def _end(self, code: int, said: Sequence[str]) -> None:
        with self._lock:
            self.failed += code != 0
            for count, outcome in re.findall(r"(\d+) (\w+)", _last(said)):
                self.totals[outcome] += int(count)
            shown = said if code else [line for line in said if line.startswith("SKIPPED")]
            self._out.writelines(shown)
            self._out.flush()


def _last(said: Sequence[str]) -> str:
    return next((found[1] for line in reversed(said) if (found := _LAST.match(line))), "")


def main(arguments: Sequence[str]) -> int:
    """Run the tests of the command line; return 1 if any failed."""
    at = arguments.index("--")
    (processes, *paths), options = arguments[:at], arguments[at + 1 :]
    costs: dict[str, float] = json.loads(DURATIONS.read_text())
    run = Run(deal_files(find_files(paths), costs, int(processes)), options, sys.stdout)
    run.wait()
    if os.environ.get(KEEP):  # noqa: TID251 - who runs the tests says what is kept
        kept = {file: costs.get(file, UNKNOWN_S) for file in find_files(paths)} | run.seconds
        DURATIONS.write_text(
            json.dumps({file: round(kept[file], 1) for file in sorted(kept)}, indent=1) + "\n"
        )
    sys.stdout.write(f"{run.totals['passed']} passed, {run.totals['failed'] + run.totals['error']} failed\n")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
