"""The jail in real processes: the remaining authority of a process, and the calls that still work in it."""

import errno
import os
import platform
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from exec_task.executor import kernel, landlock, rules, seccomp
from exec_task.executor.calls import NUMBERS
from tests.support.temporary import open_folder
from tests.unit.exec_task.executor.jailed import GID, PAYLOAD, UID, linux, run_jailed

pytestmark = linux
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to have something to give up")
EXEC_PYTHON = Path(__file__).parents[4] / ".stepline" / "exec-env" / "bin" / "python"

CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    if libc.syscall(ctypes.c_long(number), *(ctypes.c_long(arg) for arg in args)) >= 0:
        return 0
    return ctypes.get_errno()
"""
# An outer filter that exists before the jail: one call fails with one errno.
OUTER = """
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
out = seccomp._Assembler()
out.load(0)
out.branch(0x15, {number}, no="allow")
out.give(seccomp.ERRNO | {code})
out.label("allow")
out.give(seccomp.ALLOW)
seccomp.install(out.assemble().code)
"""


def status(found: dict) -> dict[str, str]:
    return dict(line.split(":\t", 1) for line in found["status"].splitlines() if ":\t" in line)


def test_the_kernel_confirms_what_the_jail_reports():
    done = run_jailed("found['status'] = open('/proc/self/status').read()", namespaces=["pid", "net"])
    assert done.isolation == {
        "backend": "process",
        "seccomp": True,
        "no_new_privs": True,
        "landlock_abi": landlock.kernel_abi(),
        "uid": UID,
        "namespaces": ["pid", "net"],
        "kernel": platform.release(),
        "signals": "domain" if os.geteuid() == 0 or landlock.kernel_abi() >= 6 else "self",
        "refused": [],
    }
    reported = status(done.found)
    assert reported["Uid"].split() == [str(UID)] * 4
    assert reported["Gid"].split() == [str(GID)] * 4
    assert (reported["NoNewPrivs"], reported["Seccomp"]) == ("1", "2")
    assert {reported[f"Cap{name}"] for name in ("Eff", "Prm", "Inh", "Amb")} == {"0" * 16}


def test_the_kernel_ends_the_program_first_when_memory_is_short():
    done = run_jailed("found['score'] = open('/proc/self/oom_score_adj').read().strip()")
    assert done.found == {"score": "1000"}


@as_root
def test_root_keeps_no_group_and_no_bounding_set():
    done = run_jailed(
        "found['status'] = open('/proc/self/status').read()", before="os.setgroups([0, 4, 27, 1001])"
    )
    reported = status(done.found)
    assert reported["Groups"].split() == ["1001"]
    assert reported["CapBnd"] == "0" * 16


def test_limits_are_lowered_permanently():
    done = run_jailed(
        """
import resource
for name in ("FSIZE", "NPROC", "NOFILE", "AS", "CPU", "MSGQUEUE"):
    found[name] = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (65, 65))
except ValueError as error:
    found["raise"] = str(error)
"""
    )
    expected = {"FSIZE": 1 << 20, "NPROC": 512, "NOFILE": 64, "AS": 4 << 30, "MSGQUEUE": 0}
    assert {name: done.found[name] for name in expected} == {n: [v, v] for n, v in expected.items()}
    assert done.found["CPU"][0] >= 60
    assert "maximum limit" in done.found["raise"]


def test_a_crash_dumps_no_core_and_this_cannot_be_changed():
    """Only at a limit of 1 does the kernel neither write a core dump nor pass it to a program of the machine."""
    done = run_jailed("""
import resource
for limit in ((0, 1), (0, 0), (1, 1)):
    try:
        resource.setrlimit(resource.RLIMIT_CORE, limit)
        found["set"] = limit
    except ValueError:  # as Python says EPERM here
        found["refused"] = True
found["read"] = resource.getrlimit(resource.RLIMIT_CORE)
(found["limit"],) = [line.split()[4:6] for line in open("/proc/self/limits") if line.startswith("Max core file")]
""")
    assert done.found == {"refused": True, "read": [1, 1], "limit": ["1", "1"]}


def test_processes_are_not_limited_if_the_container_counts_them():
    limits = {name: value for name, value in PAYLOAD["limits"].items() if name != "processes"}
    done = run_jailed(
        "import resource; found['now'] = resource.getrlimit(resource.RLIMIT_NPROC)", limits=limits
    )
    assert done.found["now"] == list(resource.getrlimit(resource.RLIMIT_NPROC))


def test_a_limit_that_is_lower_already_stays():
    done = run_jailed(
        "import resource; found['now'] = resource.getrlimit(resource.RLIMIT_NOFILE)",
        before="import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))",
    )
    assert done.found["now"] == [32, 32]


def test_inherited_descriptors_are_closed_but_those_that_are_named():
    inside, outside = os.pipe()
    try:
        done = run_jailed(
            f"""
for fd in ({inside}, {outside}, 40, 63):
    try:
        os.fstat(fd)
        found[str(fd)] = "open"
    except OSError as error:
        found[str(fd)] = error.errno
os.fstat(3)
""",
            before="os.dup2(0, 40); os.dup2(0, 63)",
            pass_fds=(inside, outside),
        )
    finally:
        os.close(inside)
        os.close(outside)
    assert set(done.found.values()) == {errno.EBADF}


@pytest.mark.parametrize("code", [errno.EPERM, errno.ENOSYS])
def test_descriptors_are_closed_one_by_one_where_closing_a_range_is_refused(code):
    done = run_jailed(
        """
for fd in (4, 5, 40, 63):
    try:
        os.fstat(fd)
        found[str(fd)] = "open"
    except OSError as error:
        found[str(fd)] = error.errno
os.fstat(3)
""",
        before="for fd in (4, 5, 40, 63): os.dup2(0, fd)\n" + OUTER.format(number=436, code=code),
    )
    assert set(done.found.values()) == {errno.EBADF}, done
    assert done.isolation["refused"] == [f"close_range: {errno.errorcode[code]}"]


def test_a_range_that_cannot_be_closed_for_another_reason_runs_nothing():
    done = run_jailed("found['ran'] = True", before=OUTER.format(number=436, code=errno.EIO))
    assert (done.returncode, done.found) == (126, {})


def test_the_process_leads_its_own_session_and_its_files_are_readable_for_others():
    done = run_jailed("found['own'] = os.getsid(0) == os.getpid(); found['umask'] = os.umask(0)")
    assert done.found == {"own": True, "umask": 0o022}


def test_the_death_signal_outlives_the_change_of_identity():
    done = run_jailed(
        """
import ctypes
held = ctypes.c_int()
kernel.prctl(kernel.PR_GET_PDEATHSIG, ctypes.addressof(held))
found["signal"] = held.value
""",
        before="kernel.set_pdeathsig(9)",
    )
    assert done.found["signal"] == signal.SIGKILL


def test_a_process_of_the_same_uid_cannot_inspect_the_program():
    done = run_jailed(
        """
import subprocess, sys
peek = '''
import os, sys
for name in ("mem", "environ", "maps", "fd", "root"):
    try:
        os.listdir(f"/proc/{sys.argv[1]}/{name}") if name in ("fd", "root") else open(f"/proc/{sys.argv[1]}/{name}", "rb").read(1)
        print(name)
    except OSError:
        pass
'''
done = subprocess.run([sys.executable, "-I", "-c", peek, str(os.getpid())], capture_output=True, text=True)
found["readable"], found["error"] = done.stdout, done.stderr
"""
    )
    assert done.found == {"readable": "", "error": ""}


@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_NETLINK", "AF_ALG", "AF_VSOCK", "AF_PACKET"])
def test_no_socket_but_a_unix_one(family):
    done = run_jailed(f"""
import socket
try:
    socket.socket(socket.{family}, socket.SOCK_RAW if "{family}" in ("AF_NETLINK", "AF_PACKET") else socket.SOCK_STREAM)
except PermissionError as error:
    found["errno"] = error.errno
""")
    assert done.found == {"errno": errno.EACCES}


def test_the_kernel_enforces_every_refusal_of_the_table():
    column = seccomp.ARCHITECTURES[platform.machine()].column
    refused = {
        call: NUMBERS[call][column]
        for call, rule in rules.rules("self").items()
        if not rule.checks and NUMBERS[call][column] is not None
    }
    expected = {call: rule.code for call, rule in rules.rules("self").items() if call in refused}
    done = run_jailed(
        CALL + f"found.update({{name: call(nr, -1, -1, -1, -1) for name, nr in {refused}.items()}})"
    )
    assert done.found == expected
    assert len(expected) > 60


def test_signals_leave_the_process_neither_with_nor_without_landlock():
    victim = subprocess.Popen(["sleep", "600"], user=UID if os.geteuid() == 0 else None)
    attempts = f"""
import signal
for pid in (1, -1, {victim.pid}, -{victim.pid}):
    try:
        os.kill(pid, signal.SIGTERM)
        found[str(pid)] = "sent"
    except OSError as error:
        found[str(pid)] = error.errno
"""
    number = OUTER.format(number=444, code=errno.ENOSYS)
    try:
        for before in ("", number):
            done = run_jailed(attempts, before=before, protected_pids=[victim.pid])
            assert set(done.found.values()) <= {errno.EPERM, errno.ESRCH}, done.found
            assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


END_A_CHILD = """
waits, ends = os.pipe()
child = os.fork()
if child == 0:
    os.close(ends)
    os.read(waits, 1)
    os._exit(0)
try:
    os.kill(child, 9)
    found["status"] = os.waitpid(child, 0)[1]
except OSError as error:
    found["errno"] = error.errno
"""


@as_root
def test_a_program_of_another_uid_than_its_supervisor_ends_its_children_without_landlock():
    before = OUTER.format(number=444, code=errno.ENOSYS)
    assert run_jailed(END_A_CHILD, before=before).found == {"status": 9}


def test_a_program_with_its_supervisors_uid_and_no_landlock_signals_itself_only():
    before = f"os.setgroups([]); os.setresgid({GID}, {GID}, {GID}); os.setresuid({UID}, {UID}, {UID})\n"
    before = (before if os.geteuid() == 0 else "") + OUTER.format(number=444, code=errno.ENOSYS)
    assert run_jailed(END_A_CHILD, before=before).found == {"errno": errno.EPERM}


def test_a_shared_network_runs_nothing_where_abstract_sockets_cannot_be_held_off():
    without = OUTER.format(number=444, code=errno.ENOSYS)
    refused = run_jailed("found['ran'] = True", before=without, shared_network=True)
    assert (refused.returncode, refused.found) == (126, {})
    assert "abstract sockets" in refused.refused
    assert run_jailed("found['ran'] = True", before=without, shared_network=False).found == {"ran": True}
    held = run_jailed("found['ran'] = True", shared_network=True)
    assert held.found == ({"ran": True} if landlock.kernel_abi() >= landlock.ABSTRACT_SCOPE_ABI else {})


@as_root
@pytest.mark.parametrize(
    ("bind", "found"),
    [
        ("", {"ran": True}),
        ("held.bind('/proc/self/cwd/tmp/with-a-path'); os.unlink('/tmp/with-a-path')", {"ran": True}),
        ("held.bind('\\0without-a-path')", {}),
    ],
)
def test_a_task_network_is_accepted_if_no_abstract_socket_exists(bind, found):
    before = f"""
import socket
kernel.unshare(kernel.CLONE_NEWNET)
held = socket.socket(socket.AF_UNIX)
{bind}
""" + OUTER.format(number=444, code=errno.ENOSYS)
    done = run_jailed("found['ran'] = True", before=before, shared_network="task")
    assert done.found == found
    assert bool(done.isolation) == bool(found)
    assert ("abstract sockets" in done.refused) == (not found)


def test_files_are_synced_one_by_one_and_grow_by_what_they_take():
    done = run_jailed(
        """
import tempfile
with tempfile.TemporaryFile(dir="/tmp") as file:
    os.posix_fallocate(file.fileno(), 0, 8192)
    os.fsync(file.fileno()); os.fdatasync(file.fileno())
    found["size"] = os.fstat(file.fileno()).st_size
"""
    )
    assert done.found == {"size": 8192}


def test_a_program_may_have_processes_and_threads_and_end_them():
    done = run_jailed(
        """
import asyncio, multiprocessing, socket, subprocess, sys, threading, time, concurrent.futures
from multiprocessing import shared_memory
found["subprocess"] = subprocess.run([sys.executable, "-I", "-c", "print(6 * 7)"], capture_output=True, text=True).stdout
sleeper = subprocess.Popen([sys.executable, "-I", "-c", "import time; time.sleep(60)"])
sleeper.terminate()
found["terminated"] = sleeper.wait()
worker = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
worker.start(); worker.kill(); worker.join()
found["killed"] = worker.exitcode
queue = multiprocessing.Queue()
multiprocessing.get_context("fork").Process(target=queue.put, args=("sent",)).start()
found["queue"] = queue.get()
memory = shared_memory.SharedMemory(create=True, size=4096)
memory.buf[0] = 7
again = shared_memory.SharedMemory(memory.name)
found["shared"] = again.buf[0]
again.close(); memory.close(); memory.unlink()
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found["threads"] = sum(pool.map(abs, range(100)))
async def talk():
    left, right = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=left)
    right.sendall(b"hello\\n"); right.close()
    process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "print(1)", stdout=-1)
    out, _ = await process.communicate()
    line = await reader.readline(); writer.close()
    return line.decode() + out.decode()
found["asyncio"] = asyncio.run(talk())
""",
        own_pid_ns=True,
    )
    assert done.found == {
        "subprocess": "42\n",
        "terminated": -15,
        "killed": -9,
        "queue": "sent",
        "shared": 7,
        "threads": 4950,
        "asyncio": "hello\n1\n",
    }, done.stderr


@pytest.mark.skipif(
    not os.access(EXEC_PYTHON, os.X_OK),
    reason="the executor's packages are not installed (.stepline/exec-env)",
)
def test_the_packages_of_data_work_in_it():
    with open_folder() as folder:
        folder.chmod(0o777)
        done = run_jailed(
            f"""
os.environ.update(MPLCONFIGDIR={str(folder)!r}, MPLBACKEND="Agg", HOME={str(folder)!r})
import multiprocessing
import numpy, pandas, matplotlib.pyplot as plot
found["solve"] = float(numpy.linalg.solve(numpy.eye(200) * 2, numpy.ones(200)).sum())
frame = pandas.DataFrame({{"a": range(1000), "b": ["x", "y"] * 500}})
found["grouped"] = int(frame.groupby("b")["a"].sum()["x"])
frame["a"].plot(); plot.savefig({str(folder / "chart.png")!r})
with multiprocessing.get_context("fork").Pool(2) as pool:
    found["pool"] = pool.map(abs, [-1, -2])
""",
            python=str(EXEC_PYTHON),
            own_pid_ns=True,
            limits={
                "timeout_s": 60,
                "max_file_bytes": 1 << 24,
                "memory_bytes": 4 << 30,
                "processes": 512,
                "open_files": 256,
            },
        )
        assert done.found == {"solve": 100.0, "grouped": 249500, "pool": [1, 2]}, done.stderr
        assert (folder / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_a_program_never_runs_as_root():
    done = run_jailed("found['ran'] = True", uid=0)
    assert (done.returncode, done.found) == (126, {})
    assert "root" in done.refused


def test_a_payload_without_limits_runs_nothing():
    done = run_jailed("found['ran'] = True", limits={})
    assert (done.returncode, done.found) == (126, {})
    assert "max_file_bytes" in done.refused


def test_a_kernel_that_refuses_the_filter_runs_nothing():
    number = seccomp.ARCHITECTURES[platform.machine()].seccomp
    done = run_jailed("found['ran'] = True", before=OUTER.format(number=number, code=errno.EACCES))
    assert (done.returncode, done.found) == (126, {})
    assert "PermissionError" in done.refused


def test_a_landlock_that_fails_runs_nothing_and_one_that_is_missing_is_reported():
    broken = run_jailed("found['ran'] = True", before=OUTER.format(number=446, code=errno.EIO))
    missing = run_jailed("found['ran'] = True", before=OUTER.format(number=444, code=errno.ENOSYS))
    disabled = run_jailed("found['ran'] = True", before=OUTER.format(number=444, code=errno.EOPNOTSUPP))
    refused = run_jailed("found['ran'] = True", before=OUTER.format(number=444, code=errno.EPERM))
    halfway = run_jailed("found['ran'] = True", before=OUTER.format(number=446, code=errno.EPERM))
    if landlock.kernel_abi():
        assert (broken.returncode, broken.found) == (halfway.returncode, halfway.found) == (126, {})
    assert missing.found == disabled.found == refused.found == {"ran": True}
    for done, code in ((missing, errno.ENOSYS), (disabled, errno.EOPNOTSUPP), (refused, errno.EPERM)):
        assert done.isolation["landlock_abi"] == 0
        assert done.isolation["refused"] == [f"landlock_create_ruleset: {errno.errorcode[code]}"]


def test_a_second_thread_is_not_left_outside():
    done = run_jailed(
        "found['ran'] = True",
        before="import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()",
    )
    assert (done.returncode, done.found) == (126, {})
    assert "Threads" in done.refused


def test_an_unknown_machine_runs_nothing():
    done = run_jailed("found['ran'] = True", before="kernel.MACHINE = 'riscv64'")
    assert (done.returncode, done.found) == (126, {})
    assert "riscv64" in done.refused


def test_every_constant_of_a_namespace_is_refused_to_clone():
    flags = [
        getattr(kernel, name)
        for name in dir(kernel)
        if name.startswith("CLONE_NEW") and name != "CLONE_NEW_ANY"
    ]
    column = seccomp.ARCHITECTURES[platform.machine()].column
    number = NUMBERS["clone"][column]
    done = run_jailed(
        CALL + f"found['errnos'] = [call({number}, flag | 17) for flag in {flags} if flag > 0xff]"
    )
    assert set(done.found["errnos"]) == {errno.EPERM}
    assert len(done.found["errnos"]) == 7
