"""The tree that a program finds, built by the whole backend: the covered files in the mounted folders."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract.executor_jobs import process_bench
from tests.unit.exec_task.executor.jailed import linux

pytestmark = linux
SECRET = "https://reader:pa55@index.internal/simple"

PROGRAM = """
import json, os, sys
from pathlib import Path
found = {"prefix": sys.prefix, "settings": Path(sys.prefix, "pip.conf").read_text()}
found["beside"] = Path(sys.prefix, "kept.txt").read_text()
found["local"] = os.listdir("/usr/local/etc") if os.path.isdir("/usr/local/etc") else []
try:
    Path(sys.prefix, "pip.conf").unlink()
except OSError as error:
    found["unlink"] = error.errno
print(json.dumps(found))
"""


@pytest.mark.parametrize("linked", [False, True], ids=["a file", "a link to one beside it"])
def test_files_that_name_a_package_index_are_empty_in_a_mounted_prefix(tmp_path: Path, linked: bool):
    prefix = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", prefix], check=True)
    settings = prefix / ("index.conf" if linked else "pip.conf")
    settings.write_text(f"[global]\nindex-url = {SECRET}\n")
    if linked:
        (prefix / "pip.conf").symlink_to(settings)
    (prefix / "kept.txt").write_text("kept")
    with process_bench(python=prefix / "bin/python") as bench:
        run = bench.run(PROGRAM)
    if run.error == "unsupported_platform":
        pytest.skip(run.message)
    assert run.error == "", run
    found = json.loads(run.program_log)
    assert found.pop("unlink")
    assert found == {"prefix": str(prefix), "settings": "", "beside": "kept", "local": []}
