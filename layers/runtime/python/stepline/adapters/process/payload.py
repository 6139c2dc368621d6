"""What the executor is told of a run in this machine's namespaces. Pure.

Source: docs/reference/executor-protocol.md; exec_task/executor/rootfs.py makes the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from stepline.adapters.docker.payload import plan_aliases
from stepline.model.execution import ExecRequest

UID: Final = 1001
GID: Final = 1001
CODE: Final = "user_code.py"

_WORK: Final = "/workspace/work"
_OUT: Final = "/workspace/out"
_READ: Final = (
    "/bin",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/usr",
    "/workspace",
    "/dev",
)
_WRITE: Final = (_WORK, _OUT, "/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108 - the run's own mounts

ENVIRONMENT: Final = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/tmp",  # noqa: S108 - the run's own mount
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",  # noqa: S108 - the run's own mount
    "OPENBLAS_NUM_THREADS": "1",  # a fork must have one thread
    "OMP_NUM_THREADS": "1",
}
"""What the zygote imports under, all of it; the executor gives a program its own."""


def render_payload(
    request: ExecRequest, token: str, *, namespaces: Sequence[str], readable: Sequence[Path]
) -> bytes:
    """Return the executor's standard input: JSON. `readable` are the folders of interpreter and packages."""
    limits = request.limits
    payload: dict[str, Any] = {
        "v": 1,
        "exec_id": request.exec_id,
        "turn": request.turn,
        "work": _WORK,
        "out": _OUT,
        "socket": "/workspace/socket/supervisor.sock",
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
        "backend": "process",
        "namespaces": list(namespaces),
        "own_pid_ns": True,
        "protected_pids": [],
        "read": [*_READ, *map(str, readable)],
        "write": list(_WRITE),
    }
    return msgspec.json.encode(payload)
