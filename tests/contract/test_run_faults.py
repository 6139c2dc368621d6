"""Whatever a run dies of, its envelope has the same keys: on every backend, and without one."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from exec_task.executor import kernel, seccomp
from stepline.errors import NotFoundError
from stepline.loop.programs.make_outcome import NOT_STARTED, UNVERIFIED
from stepline.model.program.execution import ContractFile, Run
from stepline.ports.executor import Job
from stepline.programs.envelope import lost_envelope, make_envelope, output_bodies
from stepline.programs.outcome import Envelope
from stepline.programs.outputs import validate_outputs
from tests.contract.executor_jobs import BACKENDS, DEADLINES_S, LIMITS, Bench, process_bench, skip_unsupported
from tests.support.container_profile import write_interpreter

PROMISE = "outputs/out.txt"
WRITES = "open('outputs/out.txt', 'w').write('kept')\n"
KEYS = set(msgspec.to_builtins(Envelope(exec_id="x", ok=True, result_filename="")))
ERROR_KEYS = {"code", "message", "error", "description", "details", "where", "managed"}
DETAIL_KEYS = {"missing", "errors", "run", "stderr_tail"}


@pytest.fixture(scope="module", params=BACKENDS)
def bench(request) -> Iterator[Bench]:
    with BACKENDS[request.param]() as made:
        yield made


def promised(bench: Bench) -> tuple[ContractFile, ...]:
    filename = f"{bench.turn}/{PROMISE}"
    return (ContractFile(name="out", filename=filename, description="what it found", mime="text/plain"),)


def settle(bench: Bench, job: Job) -> dict[str, Any]:
    """Run a job as the loop does, and return what the next state reads."""
    job = dataclasses.replace(job, request=replace(job.request, contract=promised(bench)))
    run = bench.executor.run(job)
    verdicts = validate_outputs(job.request, run, job.spool)
    assert all(
        path.stat().st_size == body.size_bytes
        for path, body in output_bodies(job.request, verdicts, job.spool)
    )
    return read(make_envelope(job.request, run, verdicts))


def read(envelope: Envelope) -> dict[str, Any]:
    return json.loads(msgspec.json.encode(envelope))


def check(envelope: dict[str, Any], code: str) -> None:
    assert set(envelope) == KEYS
    if not code:
        assert (envelope["ok"], envelope["error"]) == (True, None)
        return
    assert envelope["ok"] is False
    assert set(envelope["error"]) == ERROR_KEYS
    assert set(envelope["error"]["details"]) == DETAIL_KEYS
    assert envelope["error"]["code"] == code
    assert envelope["report_text"].startswith(f"Status: error — {code}")
    assert envelope["error"]["description"]


FAULTS = {
    "exit 0": (WRITES, {}, ""),
    "exit 3": (f"{WRITES}raise SystemExit(3)", {}, "nonzero_exit"),
    "an exception": (f"{WRITES}1 / 0", {}, "nonzero_exit"),
    "killed by itself": (f"{WRITES}import os; os.kill(os.getpid(), 9)", {}, "nonzero_exit"),
    "aborted": ("import os; os.abort()", {}, "nonzero_exit"),
    "no promised file": ("print('nothing')", {}, "missing_output_files"),
    "an empty file": ("open('outputs/out.txt', 'w')", {}, "missing_output_files"),
    "a link for a file": (
        "import os; os.symlink('/etc/passwd', 'outputs/out.txt')",
        {},
        "artifact_validation_failed",
    ),
    "no Python": ("this is no program", {}, "nonzero_exit"),
    "its deadline": (f"{WRITES}print('so far', flush=True)\nwhile True: pass", {"timeout_s": 2}, "timeout"),
    "a file too large": (
        "open('outputs/out.txt', 'wb').write(bytes(3 << 20))",
        {"max_file_bytes": 1 << 20},
        "file_size_limit",
    ),
    "too many bytes": (
        "import time\nfor i in range(8): open(f'outputs/{i}', 'wb').write(bytes(1 << 19))\ntime.sleep(30)",
        {"max_delta_bytes": 1 << 20},
        "exec_workspace_delta_limit",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_end_of_a_program_has_the_same_envelope(bench, name):
    code, limits, error = FAULTS[name]
    envelope = settle(bench, bench.job(code, limits=replace(LIMITS, **limits)))
    check(envelope, error)
    assert envelope["backend"] == bench.executor.backend


def test_a_run_ended_at_its_deadline_has_its_files_and_output_in_the_envelope(bench):
    code, _, _ = FAULTS["its deadline"]
    for timeout_s in DEADLINES_S:
        envelope = settle(bench, bench.job(code, limits=replace(LIMITS, timeout_s=timeout_s)))
        if envelope["files"] and envelope["user_out_tail"]:
            break
    assert [file["path"] for file in envelope["files"]] == [f"{bench.turn}/{PROMISE}"]
    assert "so far" in envelope["user_out_tail"]


def test_an_input_that_is_gone_ends_the_run_before_it_begins(bench):
    lost = bench.file("outputs/in.csv", b"x")

    def fetch(key: str) -> bytes:
        raise NotFoundError("no such object", key=key)

    job = dataclasses.replace(bench.job(WRITES, files=(lost,)), fetch=fetch)
    envelope = settle(bench, job)
    check(envelope, "restore_failed")
    assert envelope["returncode"] is None


def test_a_sandbox_that_is_killed_under_its_program_is_an_error_of_the_run(bench):
    ended = threading.Event()
    job = bench.job("import time\ntime.sleep(600)")
    # Its containers are found by its name, so the name must be unique.
    name = f"tc_{uuid.uuid4().hex[:12]}"
    job = dataclasses.replace(job, request=replace(job.request, exec_id=name))
    killer = threading.Thread(target=kill_sandbox, args=(bench.executor.backend, name, ended))
    killer.start()
    try:
        envelope = settle(bench, job)
    finally:
        ended.set()
        killer.join()
    check(envelope, envelope["error"]["code"])
    assert envelope["error"]["code"] in ("sandbox_execution_failed", "nonzero_exit")


def kill_sandbox(mode: str, name: str, ended: threading.Event) -> None:
    """Kill all processes of one run as soon as they exist."""
    while not ended.wait(0.3):
        alive = children(os.getpid()) if mode == "process" else containers(name)
        if alive and not ended.wait(0.7):
            for one in alive:
                _kill(mode, one)
            return


def _kill(mode: str, one: str) -> None:
    if mode != "process":
        subprocess.run(["docker", "kill", one], capture_output=True, check=False)
    else:
        os.kill(int(one), signal.SIGKILL)


def containers(name: str) -> list[str]:
    listed = subprocess.run(
        ["docker", "ps", "--quiet", "--filter", f"name={name}"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def children(parent: int) -> list[str]:
    """Return the executor's processes among the children; a suite has others."""
    found = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(parent)], capture_output=True, text=True, check=False
    )
    return [line.split()[0] for line in found.stdout.splitlines() if "exec_task" in line]


def test_an_image_that_is_not_there_is_an_error_of_the_run(bench):
    if bench.executor.backend != "docker":
        pytest.skip("only containers have an image")
    job = bench.job(WRITES)
    profile = replace(job.request.profile, image="stepline-no-such-image:1")
    job = dataclasses.replace(job, request=replace(job.request, profile=profile))
    check(settle(bench, job), "docker_image_missing")


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux")
@pytest.mark.parametrize("code", ["EPERM", "ENOSYS"])
def test_refused_calls_are_in_the_envelope_of_a_run_that_continues(tmp_path, code):
    with process_bench(python=write_interpreter(tmp_path, getattr(errno, code))) as bench:
        skip_unsupported(bench)
        envelope = settle(bench, bench.job(WRITES))
    check(envelope, "")
    assert "landlock_abi" not in envelope["isolation"]  # a field at its default
    assert envelope["isolation"]["refused"] == [f"close_range: {code}", f"landlock_create_ruleset: {code}"]


@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is made of Linux")
@pytest.mark.parametrize("code", ["EPERM", "ENOSYS"])
def test_a_host_that_refuses_the_filter_runs_nothing(tmp_path, code):
    numbers = {"seccomp": seccomp.ARCHITECTURES[kernel.MACHINE].seccomp}
    with process_bench(python=write_interpreter(tmp_path, getattr(errno, code), numbers)) as bench:
        skip_unsupported(bench)
        envelope = settle(bench, bench.job(WRITES))
    check(envelope, "isolation_failed")
    assert envelope["files"] == []


@pytest.mark.parametrize(
    "code", [NOT_STARTED, UNVERIFIED, "timeout", "backend_unavailable", "sandbox_execution_failed"]
)
def test_a_run_that_left_nothing_has_the_same_envelope(bench, code):
    envelope = read(lost_envelope(bench.job(WRITES).request, code, "why"))
    check(envelope, code)


def test_an_unknown_exit_status_is_no_success(bench):
    job = bench.job(WRITES)
    check(
        read(
            make_envelope(job.request, Run(returncode=None), validate_outputs(job.request, Run(), job.spool))
        ),
        "execution_failed",
    )
