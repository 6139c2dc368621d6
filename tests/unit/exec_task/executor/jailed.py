"""A separate process that closes the jail around itself and runs a few lines in it: no namespaces, no supervisor."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HOME = Path(__file__).parents[4] / "exec_task"
UID = 1001 if os.geteuid() == 0 else os.geteuid()
GID = 1001 if os.geteuid() == 0 else os.getegid()

linux = pytest.mark.skipif(sys.platform != "linux", reason="the jail is made of Linux")
PAYLOAD = {
    "limits": {
        "timeout_s": 60,
        "max_file_bytes": 1 << 20,
        "memory_bytes": 4 << 30,
        "processes": 512,
        "open_files": 64,
    },
    "uid": UID,
    "gid": GID,
    "backend": "process",
    "namespaces": [],
    "protected_pids": [],
    "own_pid_ns": False,
}

BOOT = """
import json, os, sys

def reach(path):
    # Root's interpreter may lie where another uid cannot go: lay an open folder over the closed one, for us alone.
    parents = path.split("/")
    closed = ["/".join(parents[:n]) for n in range(2, len(parents) + 1)]
    closed = [name for name in closed if not os.stat(name).st_mode & 1]
    if os.geteuid() or not closed:
        return
    kernel.unshare(kernel.CLONE_NEWNS)
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    held = os.open(path, os.O_PATH)
    kernel.mount("tmpfs", closed[0], "tmpfs", 0, "mode=755")
    os.makedirs(path, exist_ok=True)
    kernel.mount(f"/proc/self/fd/{held}", path, None, kernel.MS_BIND)
    os.close(held)

given = json.load(sys.stdin)
sys.path.insert(0, given["home"])
os.dup2(1, 3)
os.set_inheritable(3, True)
os.dup2(2, 1)
from executor import jail, kernel, landlock, seccomp
payload = given["payload"]
for path in given["reachable"]:
    reach(path)
exec(given["before"])
try:
    isolation = jail.confine(payload, keep={3})
except jail.JailError as error:
    os.write(3, json.dumps({"refused": str(error)}).encode())
    os._exit(126)
found = {}
exec(given["program"])
os.write(3, json.dumps({"isolation": isolation, "found": found}).encode())
"""


@dataclass(frozen=True)
class Jailed:
    """The result: `found` has the values that the program stored, `refused` the reason that the jail did not close."""

    returncode: int
    found: dict[str, Any]
    isolation: dict[str, Any]
    refused: str
    stderr: str


def run_jailed(
    program: str,
    *,
    before: str = "",
    python: str = sys.executable,
    pass_fds: tuple[int, ...] = (),
    **payload: Any,
) -> Jailed:
    """Run `program`, which fills `found`, with `jail`, `kernel` and `seccomp`; `before` runs outside the jail."""
    given = {"home": str(HOME), "payload": {**PAYLOAD, **payload}, "program": program, "before": before}
    given["reachable"] = [sys.base_prefix, str(Path(python).parent.parent.resolve())]
    done = subprocess.run(
        [python, "-I", "-B", "-c", BOOT],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        pass_fds=pass_fds,
        cwd="/",
    )
    said = json.loads(done.stdout or "{}")
    return Jailed(
        returncode=done.returncode,
        found=said.get("found", {}),
        isolation=said.get("isolation", {}),
        refused=said.get("refused", ""),
        stderr=done.stderr,
    )
