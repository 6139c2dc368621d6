"""The total memory of a run's processes."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepline.adapters.process.ending import Watched, used_bytes
from stepline.adapters.process.fork_server import IDLE_MAX_BYTES
from stepline.adapters.process.group import NAME, V2, Base, find_base, remove_left
from stepline.ports.executor import Job
from stepline.programs.host import ToolHost
from stepline.tools.context import ToolContext, ToolOutput
from tests.contract.executor_jobs import LIMITS, Bench, process_bench, skip_unsupported, sound_process_bench
from tests.unit.programs.tool_host import make_host, tool

MIB = 1 << 20

FAMILY = """
import os, sys
shared, own, children = (int(word) for word in sys.argv[1:])
held = bytearray(os.urandom(1)) * (shared << 20)
ends = os.pipe()
for _ in range(children):
    if not os.fork():
        more = bytearray(os.urandom(1)) * (own << 20)
        os.write(ends[1], b".")
        sys.stdin.read()
        os._exit(0)
for _ in range(children):
    os.read(ends[0], 1)
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def family(*, shared_mib: int = 0, own_mib: int = 0, children: int = 0) -> Iterator[int]:
    """Hold processes until the end: a parent, and children that each have its memory and some of their own."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", FAMILY, str(shared_mib), str(own_mib), str(children)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pidfd = os.pidfd_open(process.pid)
        try:
            yield pidfd
        finally:
            os.close(pidfd)
            process.communicate()


def test_processes_count_with_all_below_them():
    with family(own_mib=20, children=4) as pidfd:
        assert used_bytes((pidfd,), enough_bytes=0) > 80 * MIB


def test_shared_memory_counts_once():
    with family(shared_mib=60, children=4) as pidfd:
        assert 60 * MIB < used_bytes((pidfd,), enough_bytes=0) < 120 * MIB


def test_use_below_the_limit_is_not_measured_exactly():
    with family(shared_mib=60, children=4) as pidfd:
        assert used_bytes((pidfd,), enough_bytes=1 << 40) > 300 * MIB


def test_an_ended_process_uses_no_memory():
    with subprocess.Popen(["true"]) as process:
        pidfd = os.pidfd_open(process.pid)
    try:
        assert used_bytes((pidfd,), enough_bytes=0) == 0
    finally:
        os.close(pidfd)


def machine(folder: Path, available_mib: int) -> Path:
    """Return the proc folder of a machine without control groups, with this much memory available."""
    text = f"MemTotal: 8388608 kB\nMemAvailable: {available_mib << 10} kB\n"
    (folder / "new").write_text(text)
    (folder / "new").replace(folder / "meminfo")  # a watch may read it at any time
    return folder


@pytest.mark.parametrize(("at_first_mib", "reserve_mib"), [(8192, 1024), (1024, 512)])
def test_the_reserve_is_a_gibibyte_or_half_of_what_was_available(tmp_path, at_first_mib, reserve_mib):
    memory = Watched((), 1, machine(tmp_path, at_first_mib) / "meminfo")
    machine(tmp_path, reserve_mib)
    assert not memory.is_short()
    machine(tmp_path, reserve_mib - 1)
    assert memory.is_short()


def test_a_run_without_a_group_ends_when_the_machine_reaches_its_reserve(tmp_path):
    def fill(_params: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
        machine(tmp_path, 1)
        return ToolOutput(ret=None)

    def hosting(job: Job) -> ToolHost:
        return make_host(tool("test.fill", fill), allowed=job.request.tools)

    with process_bench(hosting, proc=machine(tmp_path, 8192)) as bench:
        skip_unsupported(bench)
        run = bench.run(
            """
            import time
            agent_io_tools.tool_call(tool_id="test.fill")
            time.sleep(50)
            """,
            tools=("test.fill",),
        )
    assert (run.error, run.returncode) == ("memory_limit", -9), run


def test_a_group_limits_the_memory_of_a_run_and_ends_with_it():
    with sound_process_bench() as bench:
        base = bench.executor._server.groups
        if base is None:
            pytest.skip("no control group can be had here")
        run = bench.run(
            "import os, time; os.fork(); held = bytearray(b'x') * (200 << 20); time.sleep(50)",
            limits=msgspec.structs.replace(LIMITS, memory_bytes=320 * MIB),
        )
        assert (run.error, run.returncode) == ("memory_limit", -9), run
        assert [prepared(bench)] == groups(base)
        assert bench.ran("print('next')").program_log == "next\n"
        bench.executor.close()
        assert not groups(base)


def groups(base: Base) -> list[Path]:
    """Return the groups of this process's runs."""
    return list(base.path.glob(f"{NAME}-*-{os.getpid()}-*"))


def prepared(bench: Bench) -> Path:
    """Return the group of the next run's cell, once it is ready."""
    return bench.executor._server._asked.result(30).group.path


def test_every_run_has_a_group_of_its_own_that_is_small_until_the_program_begins():
    with sound_process_bench() as bench:
        base = bench.executor._server.groups
        if base is None:
            pytest.skip("no control group can be had here")
        first = prepared(bench)
        assert int((first / base.version.limit).read_text()) == IDLE_MAX_BYTES
        assert (first / "cgroup.procs").read_text().split()
        bench.ran(f"held = bytearray(b'x') * {2 * IDLE_MAX_BYTES}")
        assert not first.exists()
        assert prepared(bench) != first


def test_a_limit_can_be_raised_and_lowered():
    base = find_base()
    if base is None:
        pytest.skip("no control group can be had here")
    group = base.make(64 * MIB)
    try:
        for limit_bytes in (512 * MIB, 128 * MIB):
            group.limit(limit_bytes)
            assert int((group.path / base.version.limit).read_text()) == limit_bytes
    finally:
        group.remove()


def test_a_run_whose_cell_gets_no_group_is_watched_and_the_reason_is_logged(tmp_path, caplog):
    with sound_process_bench() as bench:
        bench.executor._server.groups = Base(tmp_path / "missing", V2)
        for _ in range(2):  # the cell of the first run is prepared already
            bench.ran("pass")
        assert bench.ran("print('ran')").program_log == "ran\n"
    reasons = [record.reason for record in caplog.records if record.msg == "no control group for a run"]
    assert reasons
    assert all(str(tmp_path) in reason for reason in reasons)


def test_a_limit_that_cannot_be_set_runs_nothing():
    with sound_process_bench() as bench:
        if bench.executor._server.groups is None:
            pytest.skip("no control group can be had here")
        cell = bench.executor._server._asked.result(30)
        cell.group._version = dataclasses.replace(cell.group._version, limit="memory.missing")
        run = bench.run("print('ran')")
        assert (run.error, run.program_log) == ("sandbox_execution_failed", "")
        assert "memory" in run.message
        assert bench.ran("print('next')").program_log == "next\n"


def test_groups_of_dead_processes_are_removed_and_those_of_another_namespace_are_not(tmp_path):
    base = Base(tmp_path, V2)
    own = Path("/proc/self/ns/pid").stat().st_ino
    dead = Path("/proc/sys/kernel/pid_max").read_text().strip()  # no pid is as high
    kept = {f"{NAME}-{own}-{os.getpid()}-a", f"{NAME}-{own + 1}-{dead}-a"}
    for name in kept | {f"{NAME}-{own}-{dead}-a"}:
        (tmp_path / name).mkdir()
    remove_left(base)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_run_whose_processes_together_use_too_much_is_ended():
    with sound_process_bench() as bench:
        run = bench.run(
            """
            import os, time
            for _ in range(5):
                if not os.fork():
                    break
            held = bytearray(b"x") * (80 << 20)
            time.sleep(50)
            """,
            limits=msgspec.structs.replace(LIMITS, memory_bytes=320 * MIB),
        )
        assert (run.error, run.returncode) == ("memory_limit", -9), run
        assert str(320 * MIB) in run.message
        assert bench.ran("print('next')").program_log == "next\n"
