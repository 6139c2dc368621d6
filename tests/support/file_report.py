"""A plugin that prints a line for each file of tests that is done, for `tests/run_parallel.py` to count."""

from __future__ import annotations

from collections import Counter

import pytest


class FileReport:
    """Prints `::done FILE TESTS FAILED SECONDS`, and no dot for a test that passed."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._left: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._total.update(file_of(item.nodeid) for item in session.items)
        self._left.update(self._total)
        for file in {path.removeprefix("./") for path in session.config.args} - self._total.keys():
            self._write(file)  # none of its tests is chosen

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("passed" if report.when == "call" else "", "", "") if report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        file = file_of(report.nodeid)
        self._failed[file] += report.failed
        self._seconds[file] += report.duration
        if report.when == "teardown":
            self._left[file] -= 1
            if not self._left[file]:
                self._write(file)

    def _write(self, file: str) -> None:
        line = f"::done {file} {self._total[file]} {self._failed[file]} {self._seconds[file]:.2f}"
        self._reporter.write_line(line)
        self._reporter._tw.flush()


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
