"""The tree that programs see, where the interpreter's side of it lies in an unusual place."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from stepline.adapters.process.executor import ProcessExecutor
from stepline.model.execution import RuntimeProfile
from tests.contract.executor_jobs import HOME, Bench, tool_host


@pytest.fixture
def home():
    """What generated code sees of us, in a checkout below /tmp."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        shutil.copytree(HOME / "executor", Path(folder) / "executor")
        yield Path(folder)


def test_a_checkout_below_tmp_is_seen_there_beside_the_runs_own_files(home, tmp_path):
    executor = ProcessExecutor(python=Path(sys.executable), home=home, host=tool_host, preload=())
    bench = Bench(executor, RuntimeProfile(mode="process"), tmp_path)
    program = f"""
        import executor, os
        before = "mine" in os.listdir("/tmp")
        open("/tmp/mine", "w").close()
        print(executor.__file__.startswith({str(home)!r}), "mine" in os.listdir("/tmp"), before)
        os.mkdir({str(home / "new")!r})
    """
    try:
        for _ in range(2):  # and nothing of the first run is there for the second
            run = bench.run(program)
            if run.error == "unsupported_platform":
                pytest.skip(run.message)
            assert "True True False" in run.program_log
            assert any(word in run.program_log for word in ("Read-only", "Permission denied"))
    finally:
        executor.close()
