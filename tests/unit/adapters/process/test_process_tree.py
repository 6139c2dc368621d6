"""The tree that programs see if the interpreter is in an unusual location."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stepline.adapters.process.executor import ProcessExecutor
from stepline.adapters.process.fork_server import remove_orphans
from stepline.model.program.execution import RuntimeProfile
from tests.contract.executor_jobs import HOME, Bench, tool_host


@pytest.fixture
def home():
    """A checkout below /tmp, with the package that generated code sees."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shutil.copytree(HOME / "executor", Path(folder) / "executor")
        yield Path(folder)


def test_a_checkout_below_tmp_is_visible_next_to_the_runs_own_files(home, tmp_path):
    executor = ProcessExecutor(python=Path(sys.executable), home=home, host=tool_host, preload=())
    bench = Bench(executor, RuntimeProfile(backend="process"), tmp_path)
    program = f"""
        import executor, os
        before = "mine" in os.listdir("/tmp")
        open("/tmp/mine", "w").close()
        print(executor.__file__.startswith({str(home)!r}), "mine" in os.listdir("/tmp"), before)
        os.mkdir({str(home / "new")!r})
    """
    try:
        for _ in range(2):  # and the second run finds nothing of the first
            run = bench.run(program)
            if run.error == "unsupported_platform":
                pytest.skip(run.message)
            assert "True True False" in run.program_log
            assert any(word in run.program_log for word in ("Read-only", "Permission denied"))
    finally:
        executor.close()


def test_leftovers_of_killed_processes_are_removed_but_not_those_of_living_ones(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True, check=True
    )
    orphan, spool = (tmp_path / f"stepline-{kind}-{int(dead.stdout)}-x" for kind in ("runs", "spool"))
    kept = [
        tmp_path / f"stepline-runs-{os.getpid()}-x",
        tmp_path / "stepline-notes-1-x",
        tmp_path / "stepline-runs-a-x",
    ]
    for folder in (orphan, spool, *kept):
        (folder / "run").mkdir(parents=True)
    (orphan / "run/file").write_text("left")
    remove_orphans()
    assert sorted(tmp_path.iterdir()) == sorted(kept)
