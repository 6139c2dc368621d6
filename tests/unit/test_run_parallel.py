"""The run in several processes: what goes together, what is reported, and what a failure does."""

from __future__ import annotations

import io
import json

import pytest

from tests import run_parallel
from tests.run_parallel import Run, deal_files, main, suite_of

PASSING = "import pytest\n@pytest.mark.parametrize('x', range(3))\ndef test_a(x): pass\n"
FAILING = "def test_a(): assert 1 == 2\n"


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A folder with tests in it, in the place of this checkout."""
    (tmp_path / "tests/unit/loop").mkdir(parents=True)
    (tmp_path / "tests/durations.json").write_text("{}")
    (tmp_path / "conftest.py").write_text("pytest_plugins = ['tests.conftest']\n")
    monkeypatch.setattr(run_parallel, "ROOT", tmp_path)
    monkeypatch.setattr(run_parallel, "DURATIONS", tmp_path / "tests/durations.json")
    return tmp_path


def test_files_that_share_their_templates_stay_together():
    files = ["tests/stacks/test_a.py", "tests/stacks/test_b.py", "tests/unit/test_c.py"]
    assert sorted(map(sorted, deal_files(files, {}, 3))) == [files[:2], files[2:]]


def test_processes_get_about_the_same_time():
    costs = {"a.py": 9.0, "b.py": 5.0, "c.py": 4.0}
    assert deal_files([*costs], costs, 2) == [["a.py"], ["b.py", "c.py"]]


@pytest.mark.parametrize(
    ("file", "suite"),
    [
        ("tests/unit/loop/test_act.py", "unit/loop"),
        ("tests/unit/tools/read/test_read.py", "unit/tools"),
        ("tests/contract/test_log.py", "contract/test_log"),
    ],
)
def test_a_suite_is_a_folder_of_unit_tests_or_a_slow_file(file, suite):
    assert suite_of(file) == suite


def test_a_suite_is_reported_when_all_its_files_are_done(checkout, capsys):
    for name in ("one", "two"):
        (checkout / f"tests/unit/loop/test_{name}.py").write_text(PASSING)
    assert main(["2", "tests/unit", "--"]) == 0
    said = capsys.readouterr().out
    assert said.endswith("unit/loop: 6 tests\n6 passed, 0 failed\n")


def test_a_failure_is_shown_with_the_output_of_its_process(checkout, capsys):
    (checkout / "tests/unit/loop/test_one.py").write_text(FAILING)
    (checkout / "tests/unit/loop/test_two.py").write_text(PASSING)
    assert main(["2", "tests/unit", "--"]) == 1
    said = capsys.readouterr().out
    assert "assert 1 == 2" in said
    assert "unit/loop: 4 tests, 1 failed\n" in said
    assert said.endswith("3 passed, 1 failed\n")


def test_a_process_that_cannot_collect_fails_the_run(checkout):
    (checkout / "tests/unit/loop/test_one.py").write_text("import no_such_module\n")
    run = Run([["tests/unit/loop/test_one.py"]], [], io.StringIO())
    run.wait()
    assert run.failed == 1
    assert run.totals["error"] == 1


def test_durations_are_kept_on_request(checkout, monkeypatch):
    (checkout / "tests/unit/loop/test_one.py").write_text(PASSING)
    monkeypatch.setenv(run_parallel.KEEP, "1")
    main(["1", "tests/unit", "--"])
    assert list(json.loads((checkout / "tests/durations.json").read_text())) == [
        "tests/unit/loop/test_one.py"
    ]
