"""What the executor is told of its run, and where everything lies in the image. Pure.

Source: docs/reference/executor-protocol.md; exec_task/Dockerfile makes the places.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from stepline.adapters.sandbox.payload import plan_payload
from stepline.model.execution import ExecRequest, Strategy

WORKSPACE: Final = Path("/workspace")
PRIVATE: Final = Path("/private")
"""The supervisor's own folder: nobody else may enter."""

SUPERVISOR_COMMAND: Final = ("/opt/supervisor/bin/python", "-I", "-B", "-m", "exec_task.supervisor")
EXECUTOR_COMMAND: Final = ("/opt/exec/bin/python", "-I", "-B", "/opt/executor/executor/__main__.py")
INIT_COMMAND: Final = (
    *("/usr/bin/env", "-i", "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/tmp"),
    *("/opt/exec/bin/python", "-I", "-B", "/opt/executor/init.py"),
)
"""The executor as process 1 of a container.

A process can read the variables it was started with whatever it does to them later, and the `docker` command adds
some by itself: proxies of its own configuration, with their passwords. So Python is started without them.
"""

NAMESPACES: Final = ("pid", "ipc", "mnt", "uts")
"""What any container is separated by; one that holds the executor alone has no network either."""

_SYSTEM: Final = ("/bin", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys/devices/system/cpu", "/usr")
_READ: Final = (*_SYSTEM, "/opt/exec", "/opt/executor", "/dev/urandom", "/dev/random")
_WRITE: Final = ("/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108 - the container's own, made for this run


def render_payload(request: ExecRequest, token: str, strategy: Strategy, *, root: Path = WORKSPACE) -> bytes:
    """Return the executor's standard input: JSON.

    In a combined container process 1 is the supervisor: its network and its processes are shared, so filter and
    Landlock alone keep the program from the one, and signals to the others are its own account's only. Processes
    are counted by the container: the kernel's own limit counts those of an account on the whole machine, so that
    one run could keep another from starting any.
    """
    alone = strategy == "split"
    work, out = str(root / "work"), str(root / "out")
    payload = plan_payload(request, token, work=work, out=out, socket=str(root / "socket/supervisor.sock"))
    payload |= {
        "backend": "docker",
        "namespaces": [*NAMESPACES, "net"] if alone else list(NAMESPACES),
        "shared_network": not alone and request.profile.network_mode != "none",
        "own_pid_ns": alone,
        "protected_pids": [] if alone else [1],
        "read": [*_READ, str(root)],
        "write": [*_WRITE, work, out],
    }
    return msgspec.json.encode(payload)
