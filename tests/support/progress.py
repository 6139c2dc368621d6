"""One line a suite in the place of a dot a test: how many tests it has, and how long after the start it was done."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest


class Progress:
    """A plugin of the process that reports; with xdist, of the one that hands the tests out."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._reporter = reporter
        self._start = time.monotonic()
        self._left: Counter[str] = Counter()
        self._total: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._expect(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: Any, ids: list[str]) -> None:
        self._expect(ids)

    def _expect(self, ids: Iterable[str]) -> None:
        if not self._total:
            self._total.update(map(suite_of, ids))
            self._left.update(self._total)

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        return ("passed" if report.when == "call" else "", "", "") if report.passed else None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        suite = suite_of(report.nodeid)
        self._failed[suite] += report.failed
        self._left[suite] -= report.when == "teardown"
        if not self._left[suite] and report.when == "teardown":
            failed = f", {self._failed[suite]} failed" if self._failed[suite] else ""
            seconds = time.monotonic() - self._start
            self._reporter.write_line(f"{seconds:5.0f} s  {suite}: {self._total[suite]} tests{failed}")


def suite_of(node: str) -> str:
    """Return the suite of a node id: a folder of unit tests, else a file, for its tests take long."""
    parts = node.partition("::")[0].removeprefix("tests/").removesuffix(".py").split("/")
    return "/".join(parts[:-1][:2] if parts[0] == "unit" else parts)
