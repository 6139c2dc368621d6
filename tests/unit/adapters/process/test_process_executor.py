"""Programs as forks of a warm process: the life of the fork server, and the environment of a program."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stepline.adapters.process.fork_server import Cell, is_readable
from stepline.adapters.sandbox.exit_code import render_exit
from stepline.ports.executor import Job
from stepline.programs.host import ToolHost
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Tool
from tests.contract.executor_jobs import (
    HOME,
    LIMITS,
    ROOT,
    Bench,
    process_bench,
    skip_unsupported,
    sound_process_bench,
)
from tests.unit.programs.tool_host import make_host, tool

cell_kill = Cell.kill
HIDDEN = (
    "/home",
    "/var",
    "/sys",
    "/boot",
    "/mnt",
    "/opt",
    "/srv",
    "/run",
    "/dev/kmsg",
    "/dev/mem",
    "/dev/tty",
)
PACKAGES = ROOT / ".stepline/exec-env/bin/python"


@pytest.fixture
def bench() -> Iterator[Bench]:
    with sound_process_bench() as made:
        yield made


def launcher(bench: Bench) -> int:
    """Return the pid of the process that we started, as soon as the next run's cell is ready.

    The warden is its child, the zygote the warden's first one, and the program to come the zygote's.
    """
    server = bench.executor._server
    assert server._asked.exception(30) is None
    return server._process.pid


def child_of(pid: int) -> int:
    (child, *_) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return int(child)


def descent(pid: int) -> list[int]:
    """Return the pids below a process, itself included."""
    found = [pid]
    for one in found:
        found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return found


def kill(pid: int) -> None:
    """Kill a process that we started, but no later process with the same number."""
    pidfd = os.pidfd_open(pid)
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    os.close(pidfd)


def hosting(*tools: Tool) -> Callable[[Job], ToolHost]:
    return lambda job: make_host(*tools, allowed=job.request.tools)


def test_a_program_sees_only_the_interpreter_and_the_system_of_the_machine(bench):
    here = [
        str(ROOT / "README.md"),
        str(HOME / "Dockerfile"),
        str(Path.home() / ".profile"),
        *map(str, HIDDEN),
    ]
    run = bench.ran(f"""
        import os, sys
        print([path for path in {here} if os.path.exists(path)])
        print(sorted(os.listdir("/dev")))
        print(sorted(set(os.listdir("/etc")) & {{"shadow", "hostname", "resolv.conf", "ssl"}}))
        print(os.path.exists(os.path.join(sys.base_prefix, "lib")), os.uname().nodename)
    """)
    devices = ["fd", "full", "null", "random", "shm", "stderr", "stdin", "stdout", "urandom", "zero"]
    assert run.program_log.splitlines() == [
        "[]",
        str(devices),
        "[]",
        "True executor",
    ]


def test_only_the_runs_own_folders_of_the_tree_are_writable(bench):
    run = bench.ran("""
        import os, sys
        for place in ("/", "/usr", "/etc", "/workspace", "/workspace/socket", "/runs", "/dev", sys.prefix, OUTPUT_DIR, WORKDIR, "/tmp", "/dev/shm"):
            try:
                open(os.path.join(place, "mine"), "w").close()
                print(place)
            except OSError:
                pass
    """)
    assert run.program_log.split() == ["/workspace/out", "/workspace/work", "/tmp", "/dev/shm"]


def test_a_program_cannot_execute_files_that_it_wrote(bench):
    run = bench.ran("""
        import os, shutil, subprocess
        for place in (OUTPUT_DIR, WORKDIR, "/tmp", "/dev/shm"):
            copy = shutil.copy("/bin/true", place)
            os.chmod(copy, 0o755)
            try:
                subprocess.run([copy])
                print("ran in", place)
            except PermissionError:
                print("refused")
            os.remove(copy)
    """)
    assert run.program_log.split() == ["refused"] * 4


def test_no_descriptor_is_inherited(bench):
    run = bench.ran("""
        import os
        for fd in sorted(map(int, os.listdir("/proc/self/fd"))):
            try:
                print(fd, os.readlink(f"/proc/self/fd/{fd}").split(":")[0])
            except FileNotFoundError:
                pass
    """)
    assert run.program_log.splitlines() == ["0 /dev/null", "1 pipe", "2 pipe", "3 socket"]


def test_no_control_group_of_the_machine_is_named(bench):
    run = bench.ran("print(open('/proc/self/cgroup').read())")
    if "cgroup" not in run.isolation.namespaces:
        pytest.skip("this kernel makes no namespace of control groups")
    above = {line.split(":", 2)[2] for line in Path("/proc/self/cgroup").read_text().splitlines()} - {"/"}
    assert [name for name in above if name in run.program_log] == []
    assert run.program_log.strip()


def test_a_run_has_all_namespaces_and_reports_them(bench):
    assert set(bench.ran("").isolation.namespaces) >= {"pid", "ipc", "mnt", "net", "uts"}


@pytest.mark.parametrize("victim", ["launcher", "warden", "zygote", "program"])
def test_a_fork_server_that_died_between_runs_is_replaced(bench, victim):
    bench.ran("pass")
    warden = child_of(launcher(bench))
    zygote = child_of(warden)
    waiting = child_of(zygote)
    pid = {"launcher": launcher(bench), "warden": warden, "zygote": zygote, "program": waiting}[victim]
    doomed = [waiting] if victim == "program" else descent(launcher(bench))
    pidfds = [os.pidfd_open(one) for one in doomed]
    kill(pid)
    for pidfd in pidfds:
        assert is_readable(pidfd, 60)
        os.close(pidfd)
    assert bench.ran("print('again')").program_log == "again\n"


@pytest.mark.parametrize("victim", ["launcher", "warden", "zygote"])
def test_a_fork_server_that_dies_fails_its_run_and_is_replaced(victim):
    def strike(_params: Mapping[str, Any], _context: ToolContext) -> ToolOutput:
        first = bench.executor._server._process.pid
        pid = {"launcher": first, "warden": child_of(first), "zygote": child_of(child_of(first))}[victim]
        kill(pid)
        return ToolOutput(ret=None)

    with process_bench(hosting(tool("test.strike", strike))) as bench:
        skip_unsupported(bench)
        run = bench.run(
            """
            import time
            open("outputs/before.txt", "w").write("b")
            print("before")
            agent_io_tools.tool_call(tool_id="test.strike")
            while True:
                time.sleep(1)
            """,
            tools=("test.strike",),
        )
        assert run.error == "sandbox_execution_failed"
        assert run.program_log == "before\n"
        assert bench.bytes(run, "outputs/before.txt") == b"b"
        assert [call.tool_id for call in run.calls] == ["test.strike"]
        assert run.isolation.seccomp
        assert bench.ran("print('next')").program_log == "next\n"


def test_the_report_contains_events_of_tools_for_the_user():
    with process_bench(hosting()) as bench:
        skip_unsupported(bench)
        run = bench.ran(
            "agent_io_tools.tool_call(tool_id='test.speak', params={'text': 'hi'})", tools=("test.speak",)
        )
    assert [(event.type, event.tool_id, event.data) for event in run.events] == [
        ("test.said", "test.speak", {"text": "hi"})
    ]


def test_closing_leaves_no_process_and_no_folder(bench):
    bench.ran("pass")
    pids = [os.pidfd_open(pid) for pid in descent(launcher(bench))]
    base = bench.executor._server.base
    assert len(pids) == 5
    bench.executor.close()
    for pidfd in pids:
        assert is_readable(pidfd, 60)
        os.close(pidfd)
    assert not base.exists()
    assert bench.ran("print('and again')").program_log == "and again\n"


def test_other_users_cannot_access_the_folders_of_a_run(bench):
    base = bench.executor._server.base
    assert stat.S_IMODE(base.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) & 0o077 for path in base.glob("runs/*")] == [0]


def test_folders_deeper_than_any_path_are_removed(bench):
    bench.run("""
        import os
        for _ in range(3000):
            os.mkdir("x" * 100)
            os.chdir("x" * 100)
    """)
    (prepared,) = (bench.executor._server.base / "runs").iterdir()
    assert prepared.name == bench.executor._next.name


def test_files_of_a_cell_that_does_not_die_are_not_collected(bench, monkeypatch):
    server = bench.executor._server
    with monkeypatch.context() as patch:
        # No process of a test survives SIGKILL: the cell dies, and the patch reports that it did not.
        patch.setattr(Cell, "kill", lambda cell: cell_kill(cell) and False)
        run = bench.run("open('outputs/x', 'w').write('x'); print('ran')")
    assert (run.error, run.files, run.program_log) == ("collect_failed", (), "ran\n")
    assert not server.base.exists()
    assert bench.ran("print('next')").program_log == "next\n"


def test_a_workspace_that_is_too_large_before_the_start_runs_nothing(bench):
    run = bench.run(
        "print('ran')",
        files=(bench.file("outputs/data.bin", bytes(4096)),),
        limits=msgspec.structs.replace(LIMITS, max_workspace_bytes=1024),
    )
    assert (run.error, run.returncode, run.program_log) == ("workspace_size_limit", 153, "")
    assert bench.ran("print('next')").program_log == "next\n"


def test_the_old_generator_of_numpy_is_seeded_for_every_run(bench):
    if not PACKAGES.exists():
        pytest.skip(f"no packages for programs in {PACKAGES.parents[1]}")
    with process_bench(python=PACKAGES) as other:
        code = "import numpy; print(numpy.random.random())"
        assert other.ran(code).program_log != other.ran(code).program_log


def test_a_missing_interpreter_is_an_error_of_the_run():
    with process_bench(python=Path("/nowhere/python")) as bench:
        run = bench.run("pass")
    assert run.error == "sandbox_execution_failed"
    assert "/nowhere/python" in run.message


def test_packages_where_a_run_has_its_own_folders_are_refused_with_the_reason(bench):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as covered:
        shutil.copytree(HOME / "executor", Path(covered, "executor"))
        with process_bench(home=Path(covered)) as other:
            run = other.run("pass")
    assert run.error == "unsupported_platform"
    assert covered in run.message


def test_other_systems_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with process_bench() as bench:
        run = bench.run("pass")
    assert run.error == "unsupported_platform"
    assert "Docker" in run.message


@pytest.mark.parametrize(
    ("returncode", "rendered"),
    [
        (0, "ended with 0"),
        (-11, "was killed by SIGSEGV"),
        (-64, "was killed by SIGRTMAX"),
        (-35, "was killed by signal 35"),
    ],
)
def test_an_exit_code_is_rendered_as_text(returncode, rendered):
    assert render_exit(returncode) == rendered
