"""Builds the executor's payload for a run in this machine's namespaces. Pure.

Source: docs/reference/executor-protocol.md; exec_task/executor/rootfs.py creates the folders.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from stepline.adapters.sandbox.payload import plan_payload
from stepline.model.program.execution import ExecRequest

CODE_FILE: Final = "user_code.py"

_WORK: Final = "/workspace/work"
_OUT: Final = "/workspace/out"
_BUNDLE: Final = "/workspace/bundle"
_SOCKET: Final = "/workspace/socket/supervisor.sock"
_READ: Final = (
    *("/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/sbin", "/usr", "/workspace"),
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
"""The complete environment of the zygote's imports; the executor gives a program its own."""


def render_payload(
    request: ExecRequest, token: str, *, namespaces: Sequence[str], readable: Sequence[Path]
) -> bytes:
    """Return the executor's standard input: JSON. `readable` are the folders of interpreter and packages.

    The kernel counts the run's processes, in the user namespace of its fork server.
    """
    payload = plan_payload(request, token, work=_WORK, out=_OUT, bundle=_BUNDLE, socket=_SOCKET)
    payload["limits"]["processes"] = request.limits.processes
    payload |= {
        "backend": "process",
        "namespaces": list(namespaces),
        "shared_network": False,
        "own_pid_ns": True,
        "protected_pids": [],
        "read": [*_READ, *map(str, readable)],
        "write": list(_WRITE),
    }
    return msgspec.json.encode(payload)
