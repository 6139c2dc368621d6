"""What may be missing on a machine, and what is skipped for it: plain `pip install -e . && pytest` says so and works."""

from __future__ import annotations

import gc
import os
import re
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests import tiers
from tests.support.budget import budget
from tests.support.file_report import FileReport

EXTRAS = {
    "aws_cdk": "local",
    "awslambdaric": "local",
    "click": "local",
    "constructs": "local",
    "greenlet": "test",
    "hypothesis": "test",
    "moto": "test",
    "prompt_toolkit": "local",
    "pyte": "test",
    "rich": "local",
    "websockets": "local",
}
"""Packages that come with an extra of ours."""

NEEDS = {"contract": "moto", "e2e": "websockets", "stacks": "aws_cdk"}
"""Suites whose fixtures need one of them: the whole folder is skipped."""

# In the background of a shell Ctrl-C is ignored, and would be by every command that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

if find_spec("hypothesis"):
    from hypothesis import HealthCheck, settings

    # How long an example takes, or is made, says more about the machine than about the code.
    settings.register_profile(
        "stepline",
        settings(),
        max_examples=budget(20, 1_000, nightly=50),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("stepline")

MISSING = {package: extra for package, extra in EXTRAS.items() if find_spec(package) is None}
_NO_MODULE = re.compile(r"No module named '(\w+)")
_skipped: dict[str, set[str]] = {}


@pytest.hookimpl(trylast=True)  # the reporter is there by then
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if os.environ.get("STEPLINE_FILES_DONE") and reporter is not None:  # noqa: TID251 - tests/run_parallel.py asks for it
        config.pluginmanager.register(FileReport(reporter))


def pytest_collection_finish() -> None:
    """Keep what was collected out of each later pass of the garbage collector: a sixth of a run."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a landing does not run."""
    if tiers.TIER == "landing":
        names = [item.nodeid for item in items]
        chosen = tiers.select(names, drawn_by=tiers.DRAW, changed=tiers.changed_paths())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    package = NEEDS.get(collection_path.name) if collection_path.parent == Path(__file__).parent else None
    if package not in MISSING:
        return None
    _skipped.setdefault(package, set()).add(f"tests/{collection_path.name}")
    return True


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    report = yield
    found = _NO_MODULE.search(str(report.longrepr)) if report.failed else None
    if found and found[1] in MISSING:
        _skipped.setdefault(found[1], set()).add(collector.nodeid)
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: needs {found[1]}")
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for package, what in sorted(_skipped.items()):
        install = f"pip install -e '.[{MISSING[package]}]'"
        terminalreporter.write_line(f"skipped for want of {package} ({install}): {', '.join(sorted(what))}")
