"""Builds the executor's payload for a run in a container. Pure.

Source: docs/reference/executor-protocol.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import msgspec

from stepline.adapters.sandbox.payload import plan_payload
from stepline.model.program.execution import ContainerStrategy, ExecRequest
from stepline.model.program.image import WORKSPACE

INIT_TASKS: Final = 1
"""Our processes in a container that holds only the executor."""

NAMESPACES: Final = ("pid", "ipc", "mnt", "uts")
"""The namespaces of any container; one that holds only the executor has no network either."""

_SYSTEM: Final = ("/bin", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys/devices/system/cpu", "/usr")
_READ: Final = (*_SYSTEM, "/opt/exec", "/opt/executor", "/dev/urandom", "/dev/random")
_WRITE: Final = ("/tmp", "/dev/shm", "/dev/null", "/dev/zero", "/dev/full")  # noqa: S108 - the container's own, made for this run


def render_container_payload(
    request: ExecRequest,
    token: str,
    strategy: ContainerStrategy,
    *,
    root: Path = WORKSPACE,
    backend: Literal["docker", "fargate"] = "docker",
) -> bytes:
    """Return the executor's standard input: JSON.

    In a combined container the supervisor is process 1: network and processes are shared, so only the filter and
    Landlock keep the program off the network, and signals reach only its own account's processes. A task's containers
    share a network with no other member. The container counts processes where possible: the kernel's own limit counts
    those of an account on the whole machine, so that one run could keep another from starting any. A task has its own
    machine, and no limit on its containers' processes.
    """
    alone = strategy == "split"
    apart = alone and backend == "docker"
    work, out = str(root / "work"), str(root / "out")
    payload = plan_payload(
        request,
        token,
        work=work,
        out=out,
        bundle=str(root / "bundle"),
        socket=str(root / "socket/supervisor.sock"),
    )
    payload |= {
        "backend": backend,
        "namespaces": [*NAMESPACES, "net"] if apart else list(NAMESPACES),
        "shared_network": _shared_network(request, strategy, backend),
        "own_pid_ns": alone,
        "protected_pids": [] if alone else [1],
        "read": [*_READ, str(root)],
        "write": [*_WRITE, work, out],
    }
    if backend == "fargate":
        payload["limits"]["processes"] = request.limits.processes + INIT_TASKS
    return msgspec.json.encode(payload)


def _shared_network(
    request: ExecRequest, strategy: ContainerStrategy, backend: str
) -> bool | Literal["task"]:
    if strategy == "combined":
        return request.profile.network_mode != "none"
    return "task" if backend == "fargate" else False
