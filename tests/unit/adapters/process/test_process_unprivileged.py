"""The backend `process` without root: a user namespace replaces the privilege."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from stepline.model.program.execution import Run
from tests.contract.executor_jobs import ROOT, SAID, process_bench

INTERPRETER = Path("/usr/bin/python3")
WITHOUT_SYS_ADMIN = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin")


@pytest.fixture(scope="module")
def runs():
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user; as one, the contract suite tests this already")
    # The packages of its programs are built for the Python that runs this test.
    version = "{}.{}".format(*sys.version_info)
    probe = [INTERPRETER, "-c", "import sys; print('{}.{}'.format(*sys.version_info))"]
    if not INTERPRETER.exists() or subprocess.check_output(probe, text=True).strip() != version:
        pytest.skip(f"no {INTERPRETER} of {version} that every user can start")
    script = [sys.executable, "-m", "tests.unit.adapters.process.unprivileged", str(INTERPRETER)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found = msgspec.json.decode(done.stdout, type=dict[str, Run])
    if found["identity"].error == "unsupported_platform":
        pytest.skip(found["identity"].message)
    return found


def test_the_program_has_the_same_unprivileged_account_as_elsewhere(runs):
    assert runs["identity"].program_log == "1001 1001 []\n"
    assert runs["identity"].isolation.uid == 1001
    assert runs["identity"].isolation.seccomp
    assert "user" in runs["identity"].isolation.namespaces


def test_a_program_sees_only_the_processes_of_its_run(runs):
    assert runs["processes"].program_log == "[1, 2]\n"


def test_tools_can_be_called(runs):
    assert runs["tool"].program_log == f"{SAID}\n"


def test_the_first_process_of_the_cell_is_out_of_reach_although_it_is_the_same_user(runs):
    assert runs["init"].program_log.split() == ["refused"] * 3


def test_the_folder_of_the_socket_is_read_only(runs):
    assert runs["socket"].program_log == "Read-only file system\n"


def test_the_files_of_the_bundle_are_read_only_although_they_are_the_same_user_s(runs):
    assert runs["bundle"].program_log == "Read-only file system\n" * 2 + "Thorns\n\n"


def test_a_folder_that_the_program_shut_is_removed_and_the_next_run_is_fresh(runs):
    assert [file.path for file in runs["shut"].files] == ["turn_0001/outputs/sums"]
    assert runs["next"].program_log == "next\n"


def test_root_without_the_capability_gets_a_remedy():
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root and setpriv")
    code = "from tests.unit.adapters.process.test_process_unprivileged import refused; refused()"
    done = subprocess.run(
        [*WITHOUT_SYS_ADMIN, sys.executable, "-c", code],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    error, _, message = done.stdout.partition(" ")
    assert error == "unsupported_platform", done.stderr
    assert "CAP_SYS_ADMIN" in message
    assert "Docker" in message


def refused() -> None:
    with process_bench() as bench:
        run = bench.run("pass")
    sys.stdout.write(f"{run.error} {run.message}")
