"""The command lines of a run: which containers, with which walls. Pure.

Source: docs/reference/execution.md#docker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from stepline.adapters.docker.argument import plan_arguments
from stepline.adapters.docker.payload import (
    GID,
    INIT_COMMAND,
    PRIVATE,
    SUPERVISOR_COMMAND,
    UID,
    WORKSPACE,
)
from stepline.model.execution import MIB, ExecRequest, Limits

EXPIRES: Final = "stepline.expires"
"""The label of everything we make: when, in seconds since the epoch, nobody can need it any more."""

GRACE_S: Final = 600
SLACK_BYTES: Final = 32 * MIB
"""Beyond the growth a run may have, so that its end is ours to name before the file system is full."""

INODES_MAX: Final = 200_000
TEMPORARY_BYTES: Final = 256 * MIB

_SEALED: Final = ("--read-only", "--security-opt", "no-new-privileges", "--cap-drop", "ALL")
_COLLECTOR: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""To lay out the workspace for another account, and to read what that account shut."""

_KEEPER: Final = ("KILL", "SETGID", "SETPCAP", "SETUID")
"""To become that account for the program's process, and to end what it started."""

_MOUNT: Final = "nosuid,nodev,noexec"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The arguments after `docker` for each container; a combined run has one, and no volume."""

    supervisor: tuple[str, ...]
    executor: tuple[str, ...] = ()
    supervisor_name: str
    executor_name: str = ""
    volume: str = ""


def plan_run(request: ExecRequest, *, now_s: float) -> Plan:
    """Return the containers of one run. Raises SandboxError `docker_args_refused`."""
    return (
        _plan_split(request, now_s)
        if request.profile.container_strategy == "split"
        else _plan_combined(request, now_s)
    )


def _plan_split(request: ExecRequest, now_s: float) -> Plan:
    name = _name(request, now_s)
    volume = f"stepline-workspace-{name}"
    shared = ("--mount", _volume(volume, request, now_s))
    executor = f"stepline-executor-{name}"
    # The supervisor removes itself; the executor is removed when its exit code is known, which is sooner.
    return Plan(
        supervisor=(
            *_supervisor(request, now_s, f"stepline-supervisor-{name}", _COLLECTOR),
            *shared,
            *_command(request, SUPERVISOR_COMMAND),
        ),
        executor=(
            *_run(request, now_s, executor),
            *("--network", "none", "--ipc", "private", "--user", f"{UID}:{GID}"),
            *("--tmpfs", _temporary("/tmp", TEMPORARY_BYTES, "1777")),  # noqa: S108 - the container's own
            *shared,
            *_resources(request),
            *_command(request, INIT_COMMAND),
        ),
        supervisor_name=f"stepline-supervisor-{name}",
        executor_name=executor,
        volume=volume,
    )


def _plan_combined(request: ExecRequest, now_s: float) -> Plan:
    name = f"stepline-supervisor-{_name(request, now_s)}"
    return Plan(
        supervisor=(
            *_supervisor(request, now_s, name, (*_COLLECTOR, *_KEEPER)),
            *("--tmpfs", _temporary(str(WORKSPACE), _workspace_bytes(request), "0755")),
            *_resources(request),
            *_command(request, SUPERVISOR_COMMAND),
        ),
        supervisor_name=name,
    )


def _supervisor(
    request: ExecRequest, now_s: float, name: str, capabilities: tuple[str, ...]
) -> tuple[str, ...]:
    limits = request.limits
    private_bytes = limits.max_delta_bytes + sum(file.size_bytes for file in request.files) + SLACK_BYTES
    return (
        *_run(request, now_s, name),
        "--rm",
        *("--network", request.profile.network_mode),
        *(flag for capability in capabilities for flag in ("--cap-add", capability)),
        *("--tmpfs", _temporary("/tmp", TEMPORARY_BYTES, "1777")),  # noqa: S108 - the container's own
        *("--tmpfs", _temporary(str(PRIVATE), private_bytes, "0700")),
    )


def _run(request: ExecRequest, now_s: float, name: str) -> tuple[str, ...]:
    """Return what both containers have: nothing is pulled, nothing is logged by the daemon, nothing is writable."""
    expires = round(now_s) + request.limits.timeout_s + GRACE_S
    return (
        *("run", "--interactive", "--pull", "never", "--log-driver", "none"),
        *("--name", name, "--label", f"{EXPIRES}={expires}"),
        *_SEALED,
    )


def _resources(request: ExecRequest) -> tuple[str, ...]:
    """Return the limits of the container in which the program runs, the profile's own arguments last."""
    limits, profile = request.limits, request.profile
    memory = profile.memory or str(limits.memory_bytes)
    return (
        *("--memory", memory, "--memory-swap", memory),
        *(("--cpus", profile.cpus) if profile.cpus else ()),
        *("--pids-limit", str(limits.processes)),
        *_ulimits(limits),
        *plan_arguments(profile.extra_args),
    )


def _ulimits(limits: Limits) -> tuple[str, ...]:
    return tuple(
        flag
        for name, value in (("nofile", limits.open_files), ("core", 0))
        for flag in ("--ulimit", f"{name}={value}:{value}")
    )


def _command(request: ExecRequest, command: tuple[str, ...]) -> tuple[str, ...]:
    program, *arguments = command
    return ("--entrypoint", program, request.profile.image, *arguments)


def _volume(name: str, request: ExecRequest, now_s: float) -> str:
    """Return a volume in memory: as large as the run may need and no larger, gone with the two containers."""
    expires = round(now_s) + request.limits.timeout_s + GRACE_S
    options = f"size={_workspace_bytes(request)},nr_inodes={INODES_MAX},mode=0755,{_MOUNT}"
    return (
        f"type=volume,src={name},dst={WORKSPACE},volume-nocopy,volume-label={EXPIRES}={expires},"
        f'volume-opt=type=tmpfs,volume-opt=device=tmpfs,"volume-opt=o={options}"'
    )


def _workspace_bytes(request: ExecRequest) -> int:
    return sum(file.size_bytes for file in request.files) + request.limits.max_delta_bytes + SLACK_BYTES


def _temporary(path: str, size_bytes: int, mode: str) -> str:
    return f"{path}:rw,{_MOUNT},size={size_bytes},mode={mode}"


def _name(request: ExecRequest, now_s: float) -> str:
    return f"{re.sub('[^a-zA-Z0-9_.-]', '-', request.exec_id)}-{round(now_s * 1000)}"
