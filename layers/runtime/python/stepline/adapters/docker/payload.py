"""What the executor is told of its run, and where everything lies in the image. Pure.

Source: docs/reference/executor-protocol.md; exec_task/Dockerfile makes the places.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import msgspec

from stepline.model.execution import ExecRequest, Strategy

WORKSPACE: Final = Path("/workspace")
PRIVATE: Final = Path("/private")
"""The supervisor's own folder: nobody else may enter."""

UID: Final = 1001
GID: Final = 1001

SUPERVISOR_COMMAND: Final = ("/opt/supervisor/bin/python", "-I", "-B", "-m", "exec_task.supervisor")
EXECUTOR_COMMAND: Final = ("/opt/exec/bin/python", "-I", "-B", "/opt/executor/executor/__main__.py")
INIT_COMMAND: Final = ("/opt/exec/bin/python", "-I", "-B", "/opt/executor/init.py")
"""The executor as process 1 of a container."""

NAMESPACES: Final = ("pid", "ipc", "mnt", "uts")
"""What any container is separated by; one that holds the executor alone has no network either."""

_SYSTEM: Final = ("/bin", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys/devices/system/cpu", "/usr")
_READ: Final = (*_SYSTEM, "/opt/exec", "/opt/executor", "/dev/urandom", "/dev/random")
_WRITE: Final = ("/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108 - the container's own, made for this run


def render_payload(request: ExecRequest, token: str, strategy: Strategy, *, root: Path = WORKSPACE) -> bytes:
    """Return the executor's standard input: JSON.

    In a combined container process 1 is the supervisor: its network and its processes are shared, so the filter
    alone keeps the program from the one, and signals to the others are its own account's only.
    """
    alone = strategy == "split"
    limits = request.limits
    work, out = str(root / "work"), str(root / "out")
    payload: dict[str, Any] = {
        "v": 1,
        "exec_id": request.exec_id,
        "turn": request.turn,
        "work": work,
        "out": out,
        "socket": str(root / "socket/supervisor.sock"),
        "token": token,
        "aliases": plan_aliases(request.tools),
        "limits": {
            "timeout_s": limits.timeout_s,
            "max_file_bytes": limits.max_file_bytes,
            "memory_bytes": limits.memory_bytes,
            "processes": limits.processes,
            "open_files": limits.open_files,
        },
        "uid": UID,
        "gid": GID,
        "backend": "docker",
        "namespaces": [*NAMESPACES, "net"] if alone else list(NAMESPACES),
        "own_pid_ns": alone,
        "protected_pids": [] if alone else [1],
        "read": [*_READ, str(root)],
        "write": [*_WRITE, work, out],
    }
    return msgspec.json.encode(payload)


def plan_aliases(tools: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the functions of each alias: `react.read` is function `read` of alias `react`."""
    aliases: dict[str, list[str]] = {}
    for tool in tools:
        alias, _, function = tool.rpartition(".")
        aliases.setdefault(alias, []).append(function)
    return aliases
