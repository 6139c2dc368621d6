"""Drawn mutants of the library's core: a test sees each, or `tests/mutants/table.json` says why none can."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.mutants.listing import ROOT, draw, find
from tests.mutants.table import ACCEPTED, KILLED
from tests.support.budget import budget
from tests.support.draw import DRAW

COUNT = budget(12, 100)


def test_the_mutants_of_this_commit_are_seen(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-m", "tests.mutants", "known", str(DRAW), str(COUNT)]
    environment = {**os.environ, "STEPLINE_TIER": "", "STEPLINE_SOAK": "", "STEPLINE_FILES_DONE": ""}  # noqa: TID251 - the whole of it, for a process
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    with capsys.disabled():
        print(f"\n{done.stdout.splitlines()[-1]}")  # noqa: T201 - the counts are asked for


def test_a_drawn_mutant_stays_drawn_when_others_go() -> None:
    names = [f"log.commit: {number}" for number in range(100)]
    drawn = draw(names, "seed", 10)
    others = [name for name in names if name not in drawn]
    assert draw([*drawn, *others[::2]], "seed", 10) == drawn
    assert draw(names, "another", 10) != drawn


def test_a_mutant_is_found_by_its_name_and_changes_its_module() -> None:
    name = min(KILLED)
    mutant = find(name)
    assert mutant
    assert mutant.text() != mutant.module.code
    assert find(f"{name} (99)") is None


def test_an_accepted_mutant_has_a_reason_and_no_test() -> None:
    assert [name for name, reason in ACCEPTED.items() if len(reason) < 20 or name in KILLED] == []
