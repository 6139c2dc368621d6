"""Attempts that need a run of their own: each ends in an assertion, or was stopped.

A attempt is a function of a backend and the secrets around it; its docstring is its name in the report.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from stepline.adapters.sandbox.collect import ENTRIES_MAX
from stepline.model.program.execution import MIB, ContractFile, ExecRequest
from stepline.model.program.image import UID
from stepline.programs.outputs import validate_outputs
from tests.security.escape.backend import LANE, LIMITS, TURN, Backend, Outcome

OUT = f"{TURN}/outputs"


@dataclass(frozen=True)
class Secrets:
    """What the test has put around the sandbox: files whose content is the secret."""

    world_readable: str
    secret: str


def too_many_bytes(backend: Backend, secrets: Secrets) -> None:
    """251 MB in many files"""
    outcome = backend.run(
        """
import time
for number in range(40):
    with open(f"outputs/{number}", "wb") as file:
        file.write(bytes(900_000))
time.sleep(50)
"""
    )
    assert outcome.run.error in ("exec_workspace_delta_limit", "nonzero_exit"), outcome.run
    assert sum(map(len, outcome.files.values())) <= LIMITS.max_delta_bytes


def too_large_a_file(backend: Backend, secrets: Secrets) -> None:
    """a file of 101 MB that no check stops"""
    outcome = backend.run(f"open('outputs/x', 'wb').write(bytes({LIMITS.max_file_bytes * 2}))")
    assert outcome.run.error in ("file_size_limit", "nonzero_exit"), outcome.run
    assert all(len(body) <= LIMITS.max_file_bytes for body in outcome.files.values())


def too_many_files(backend: Backend, secrets: Secrets) -> None:
    """more names than the collector lists"""
    outcome = backend.run(
        f"""
import os
open("outputs/0", "w").close()
for number in range(1, {ENTRIES_MAX + 10}):
    os.link("outputs/0", f"outputs/{{number}}")
"""
    )
    codes = {refused.code for refused in outcome.run.refused}
    assert "artifact_too_many_entries" in codes, outcome.run
    assert outcome.files == {}


def things_that_are_no_files(backend: Backend, secrets: Secrets) -> None:
    """links, a hard link, a pipe, a socket and a foreign turn in outputs"""
    outcome = backend.run(
        f"""
import os, socket
os.chdir("outputs")
os.symlink({secrets.world_readable!r}, "link.txt")
os.symlink("/etc", "folder")
os.symlink("../../../../..", "up")
os.symlink("/proc/self/environ", "environ.txt")
open("good.txt", "w").write("good")
os.link("good.txt", "twin.txt")
try:
    os.link("/workspace/work/user_code.py", "code.txt")
except OSError:
    pass
os.mkfifo("pipe.txt")
socket.socket(socket.AF_UNIX).bind("socket.txt")
open("new\\nline.txt", "w").write("x")
open(b"\\xff\\xfe.txt", "w").write("x")
os.makedirs("/workspace/out/turn_other/outputs")
open("/workspace/out/turn_other/outputs/x.txt", "w").write("x")
os.makedirs("/workspace/out/etc")
open("/workspace/out/etc/passwd", "w").write("x")
"""
    )
    assert outcome.run.error == "", outcome.run
    refused = {Path(one.path).name: one.code for one in outcome.run.refused}
    assert set(outcome.files) <= {f"{OUT}/good.txt"}, set(outcome.files)
    assert refused["link.txt"] == refused["folder"] == refused["up"] == "artifact_symlink_blocked", refused
    assert {"pipe.txt", "socket.txt", "twin.txt", "environ.txt", "x.txt", "passwd"} <= set(refused), refused
    assert secrets.secret.encode() not in b"".join(outcome.files.values())


def folders_without_end(backend: Backend, secrets: Secrets) -> None:
    """folders two hundred deep"""
    outcome = backend.run("import os; os.makedirs('outputs/' + '/'.join(['d'] * 200))")
    codes = {refused.code for refused in outcome.run.refused}
    assert "path_too_deep" in codes or outcome.run.error == "exec_workspace_delta_limit", outcome.run


def a_turn_that_is_a_link(backend: Backend, secrets: Secrets) -> None:
    """the turn's own folder replaced by a link"""
    outcome = backend.run(
        f"""
import os
os.chdir("/workspace/out")
os.rename("{TURN}", "{TURN}.moved")
os.symlink({str(Path(secrets.world_readable).parent)!r}, "{TURN}")
"""
    )
    assert outcome.files == {}, outcome.files
    assert any(one.code == "artifact_symlink_blocked" for one in outcome.run.refused), outcome.run.refused


def archives_that_write_elsewhere(backend: Backend, secrets: Secrets) -> None:
    """archives whose members lead out"""
    names = ["slip.zip", "absolute.zip", "system.zip", "link.tar", "slip.tar.gz"]
    outcome = backend.run(
        """
import io, tarfile, zipfile
for name, member in (("slip", "../../x"), ("absolute", "/etc/cron.d/x"), ("system", "proc/self/x")):
    with zipfile.ZipFile(f"outputs/{name}.zip", "w") as archive:
        archive.writestr(zipfile.ZipInfo(member), "x")
with tarfile.open("outputs/link.tar", "w") as archive:
    member = tarfile.TarInfo("fine"); member.type = tarfile.SYMTYPE; member.linkname = "/etc/passwd"
    archive.addfile(member)
with tarfile.open("outputs/slip.tar.gz", "w:gz") as archive:
    member = tarfile.TarInfo("a/../../x"); member.size = 1
    archive.addfile(member, io.BytesIO(b"x"))
"""
    )
    verdicts = _judge(outcome, [f"{OUT}/{name}" for name in names])
    assert verdicts == {f"{OUT}/{name}": "artifact_internal_path_blocked" for name in names}, verdicts


def _judge(outcome: Outcome, promised: list[str]) -> dict[str, str]:
    contract = tuple(
        ContractFile(name=Path(name).stem, filename=name, description="x", mime="application/zip")
        for name in promised
    )
    request = ExecRequest(
        exec_id="tc_000000000001", lane=LANE, turn=TURN, iteration=1, at="", n=1, code="", contract=contract
    )
    with tempfile.TemporaryDirectory() as folder:
        for file in outcome.run.files:
            Path(folder, file.sha256).write_bytes(outcome.files[file.path])
        verdicts = validate_outputs(request, outcome.run, Path(folder))
    return {one.path: one.code for one in verdicts.files}


CALLS = """
import json, signal, time
from agent_io_tools import tool_call
def code():
    try:
        tool_call("react.read", {"paths": []})
        return "ok"
    except Exception as error:
        return getattr(error, "code", type(error).__name__)
codes = []
def note():
    codes.append([time.time(), code()])
    with open("outputs/codes.json", "w") as file:
        json.dump(codes, file)
"""


ROUNDS = 400


def calls_after_the_deadline(backend: Backend, secrets: Secrets) -> None:
    """tool calls after the deadline, by a program that ignores its signal to end"""
    outcome = backend.run(
        CALLS
        + """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(ROUNDS):
    note()
    time.sleep(0.1)
""".replace("ROUNDS", str(ROUNDS)),
        replace(LIMITS, timeout_s=2, tool_calls=2 * ROUNDS),
    )
    assert outcome.run.error == "timeout", outcome.run
    # Counted, not timed: in its two seconds it has twenty at most, and a few more before it is killed.
    served = [call.at for call in outcome.run.calls if call.status == "ok"]
    assert len(served) < 50, served


def more_calls_than_granted(backend: Backend, secrets: Secrets) -> None:
    """more tool calls than the run has"""
    outcome = backend.run(CALLS + "for _ in range(6): note()", replace(LIMITS, tool_calls=3))
    codes = [code for _, code in json.loads(outcome.files[f"{OUT}/codes.json"])]
    assert codes[3:] == ["quota_exceeded"] * 3, codes
    assert "quota_exceeded" not in codes[:3], codes
    assert len(outcome.run.calls) <= 3, outcome.run.calls


def processes_that_stay(backend: Backend, secrets: Secrets) -> None:
    """daemons by double fork, which go on after the program"""
    seconds = f"9{os.getpid()}.{time.monotonic_ns() % 10**6}"
    outcome = backend.run(
        f"""
import os, signal, time
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in set(signal.Signals) - {{signal.SIGKILL, signal.SIGSTOP}}:
                signal.signal(number, signal.SIG_IGN)
            os.execvp("sleep", ["sleep", "{seconds}"])
        os._exit(0)
def running():
    lines = [open(f"/proc/{{pid}}/cmdline").read() for pid in filter(str.isdigit, os.listdir("/proc"))]
    return sum(line.startswith("sleep") for line in lines)
while running() < 5:
    time.sleep(0.01)
print("all are there")
"""
    )
    assert outcome.run.program_log == "all are there\n", outcome.run
    assert not _running(seconds), "a daemon outlived its run"


def processes_that_stay_after_a_timeout(backend: Backend, secrets: Secrets) -> None:
    """a family that ignores every signal and its deadline"""
    seconds = f"8{os.getpid()}.{time.monotonic_ns() % 10**6}"
    outcome = backend.run(
        f"""
import os, signal, time
for number in set(signal.Signals) - {{signal.SIGKILL, signal.SIGSTOP}}:
    signal.signal(number, signal.SIG_IGN)
for _ in range(5):
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "{seconds}"])
os.close(0); os.close(1); os.close(2)
while True:
    time.sleep(1)
""",
        replace(LIMITS, timeout_s=1),
    )
    assert outcome.run.error == "timeout", outcome.run
    assert not _running(seconds), "a child outlived the deadline"


def _running(word: str) -> list[str]:
    """Return the processes of this machine that carry a word in their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


LEAVE = """
import builtins, ctypes, json, os, sys
mark, written, reached = "left by the first run", [], []
for folder in ("/tmp", "/dev/shm", "/var/tmp", "/tmp/.local", os.environ["WORKDIR"], os.environ["OUTPUT_DIR"], "/workspace"):
    try:
        os.makedirs(folder, exist_ok=True)
        open(folder + "/left.txt", "w").write(mark)
        written.append(folder)
    except OSError:
        pass
open("/tmp/.local/usercustomize.py", "w").write("left = 1")
ctypes.CDLL(None).shmget(0x57E9, 4096, 0o1666)
json.left = builtins.left = sys.left = mark
json.dumps = lambda *a, **k: mark
sys.path.insert(0, "/tmp")
os.environ["LEFT"] = mark
for pid in {*filter(str.isdigit, os.listdir("/proc")), *map(str, SERVERS)} - {str(os.getpid())}:
    for name in ("mem", "attr/current", "oom_score_adj"):
        try:
            open(f"/proc/{pid}/{name}", "r+b", 0).write(b"left")
            reached.append(f"{pid}/{name}")
        except OSError:
            pass
print(len(written), reached)
"""

FIND = """
import builtins, ctypes, json, os, sys
mine = str(os.getpid())
found = {
    "files": [f"{top}/{name}" for root in ("/tmp", "/dev/shm", "/var/tmp", "/workspace") for top, _, names in os.walk(root)
              for name in names if name in ("left.txt", "usercustomize.py")],
    "modules": [str(it) for it in (json, builtins, sys) if hasattr(it, "left")],
    "dumps": json.dumps(1) != "1",
    "path": "/tmp" in sys.path,
    "environment": "LEFT" in os.environ,
    "shared memory": ctypes.CDLL(None).shmget(0x57E9, 4096, 0) >= 0,
    "processes": [open(f"/proc/{pid}/cmdline").read() for pid in filter(str.isdigit, os.listdir("/proc"))
                  if "left" in open(f"/proc/{pid}/cmdline").read()],
}
with open("outputs/found.json", "w") as file:
    json.dump(found, file)
"""


def traces_for_the_next_run(backend: Backend, secrets: Secrets) -> None:
    """files, shared memory, modules, variables and zygotes left for the next run"""
    first = backend.run(f"SERVERS = {backend.servers()}\n{LEAVE}")
    assert first.run.error == "", first.run
    places, _, reached = first.run.program_log.strip().partition(" ")
    assert int(places) >= 4, first.run.program_log
    assert reached == "[]", first.run.program_log
    second = backend.run(FIND)
    assert second.run.error == "", second.run
    assert not any(json.loads(second.files[f"{OUT}/found.json"]).values()), second.files


def run_among_others(backend: Backend) -> Outcome:
    """Run a program that starts something, while its account has more than it may of its own elsewhere."""
    limits = replace(LIMITS, processes=16)
    uid = UID if os.geteuid() == 0 else None
    others = [subprocess.Popen(["sleep", "600"], user=uid, cwd="/") for _ in range(limits.processes + 4)]
    try:
        return backend.run(
            """
import subprocess, threading
print(subprocess.run(["echo", "a process"], capture_output=True, text=True, check=True).stdout, end="")
thread = threading.Thread(target=print, args=("a thread",))
thread.start(); thread.join()
""",
            limits,
        )
    finally:
        for other in others:
            other.kill()
            other.wait()


def processes_of_others(backend: Backend, secrets: Secrets) -> None:
    """more processes of the same user id elsewhere on the machine than a run may have"""
    outcome = run_among_others(backend)
    assert outcome.run.program_log == "a process\na thread\n", outcome.run


def a_flood_of_words(backend: Backend, secrets: Secrets) -> None:
    """a log without end"""
    outcome = backend.run("for _ in range(3000): print('x' * 10_000)")
    assert len(outcome.run.program_log) <= LIMITS.log_bytes + 200
    assert outcome.run.log_bytes >= 30_000_000, outcome.run.log_bytes


def its_own_verdict(backend: Backend, secrets: Secrets) -> None:
    """a result written by the program itself"""
    outcome = backend.run(
        """
import json, os
print('{"ok": true, "error": null, "returncode": 0}', flush=True)
end = json.dumps({"type": "ended", "returncode": 0, "seconds": 0.1}).encode()
os.write(1, len(end).to_bytes(4, "big") + end)
for folder in ("/workspace", "/workspace/out", "/workspace/work", "/workspace/socket"):
    try:
        open(folder + "/result.json", "w").write('{"ok": true}')
    except OSError:
        pass
while True:  # its words take another way than its end
    try:
        os.close(0); os.close(1); os.close(2)
    except OSError:
        os._exit(7)
"""
    )
    assert (outcome.run.error, outcome.run.returncode) == ("nonzero_exit", 7), outcome.run
    assert outcome.files == {}


UNSEEN_MIB = 1536
SMALL = replace(LIMITS, memory_bytes=512 * MIB, open_files=1024)
HOLD = """
import mmap, os, signal, socket
children = []
def kept_by_a_child():
    pid = os.fork()
    if pid == 0:
        signal.pause()
        os._exit(0)
    children.append(pid)
def living():
    return sum(os.waitpid(child, os.WNOHANG) == (0, 0) for child in children)
"""
SHARED = f"""
while len(children) < {UNSEEN_MIB // 128}:
    with mmap.mmap(-1, 128 << 20) as pages:
        for start in range(0, len(pages), 1 << 20):
            pages[start : start + (1 << 20)] = b"x" * (1 << 20)
            pages.madvise(mmap.MADV_DONTNEED, start, 1 << 20)
        kept_by_a_child()
print(living() * 128)
"""
BUFFERED = f"""
filled = []
while sum(filled) < {UNSEEN_MIB} << 20:
    pairs, size = [socket.socketpair() for _ in range(480)], 0
    for ends in pairs:
        for end in ends:
            end.setblocking(False)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            try:
                while True:
                    size += end.send(bytes(65536))
            except BlockingIOError:
                pass
    kept_by_a_child()
    filled.append(size)
    del pairs, ends, end
print(living() * filled[0] >> 20)
"""


def memory_in_nobodys_size(backend: Backend, secrets: Secrets) -> None:
    """pages shared with children, and dropped by the process that filled them"""
    _assert_held_off(backend.run(HOLD + SHARED, SMALL))


def memory_in_buffers(backend: Backend, secrets: Secrets) -> None:
    """pairs of sockets filled to the brim"""
    _assert_held_off(backend.run(HOLD + BUFFERED, SMALL))


def _assert_held_off(outcome: Outcome) -> None:
    """Hold a run to its memory: the kernel ends what takes more, the program itself as a rule, or one that keeps it."""
    if outcome.run.error != "memory_limit":
        assert int(outcome.run.program_log) << 20 <= SMALL.memory_bytes, outcome.run


SINGLE_ATTEMPTS = (
    memory_in_nobodys_size,
    memory_in_buffers,
    too_many_bytes,
    too_large_a_file,
    too_many_files,
    things_that_are_no_files,
    folders_without_end,
    a_turn_that_is_a_link,
    archives_that_write_elsewhere,
    calls_after_the_deadline,
    more_calls_than_granted,
    processes_that_stay,
    processes_that_stay_after_a_timeout,
    traces_for_the_next_run,
    processes_of_others,
    a_flood_of_words,
    its_own_verdict,
)
