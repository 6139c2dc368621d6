"""Builds the command lines of a run: containers with their isolation. Pure.

Source: docs/reference/execution.md#docker.

`extra_args` of a profile may set resources, never isolation. An argument is refused by default. The allowed ones only
limit resources of the machine, or name a runtime that the daemon's owner has set up; arguments that open a container
(mounts, capabilities, networks, namespaces, devices, variables, accounts) or that we set ourselves are not allowed. A
value has exactly one accepted form: the daemon reads numbers in many forms, and a zero in any of them means no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from stepline.adapters.docker.payload import INIT_TASKS
from stepline.errors import SandboxError
from stepline.model.program.execution import MIB, ExecRequest, RunLimits
from stepline.model.program.image import GID, INIT_COMMAND, PRIVATE, SUPERVISOR_COMMAND, UID, WORKSPACE
from stepline.programs.bundle_files import BUNDLE_MAX_BYTES

CODE: Final = "docker_args_refused"

_COUNT: Final = "[1-9][0-9]{0,8}"
_SIZE: Final = "[1-9][0-9]{0,14}(?:[bB]|[kmgKMG](?:i?[bB])?)?"
_CORES: Final = "[0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*"
_DEVICE: Final = "/dev/[a-zA-Z0-9_/-]+:"
_NAME: Final = "[a-zA-Z0-9][a-zA-Z0-9_.-]{0,127}"

_FORMS: Final = {
    "--blkio-weight": "[1-9][0-9]{1,3}",
    "--cpu-count": _COUNT,
    "--cpu-percent": _COUNT,
    "--cpu-period": _COUNT,
    "--cpu-quota": _COUNT,
    "--cpu-rt-period": _COUNT,
    "--cpu-rt-runtime": _COUNT,
    "--cpu-shares": _COUNT,
    "--cpus": r"(?=[0-9.]*[1-9])[0-9]{1,4}(?:\.[0-9]{1,9})?",
    "--cpuset-cpus": _CORES,
    "--cpuset-mems": _CORES,
    "--device-read-bps": _DEVICE + _SIZE,
    "--device-read-iops": _DEVICE + _COUNT,
    "--device-write-bps": _DEVICE + _SIZE,
    "--device-write-iops": _DEVICE + _COUNT,
    "--hostname": "[a-zA-Z0-9](?:[a-zA-Z0-9.-]{0,61}[a-zA-Z0-9])?",
    # `stepline.…` are the labels that identify our objects.
    "--label": r"(?i:(?!stepline\.))[a-zA-Z0-9][a-zA-Z0-9_./-]{0,127}(?:=[ -~]{0,256})?",
    "--memory": _SIZE,
    "--memory-reservation": _SIZE,
    "--memory-swap": _SIZE,
    "--memory-swappiness": "[0-9]{1,3}",
    "--pids-limit": _COUNT,
    "--platform": "[a-z0-9]+(?:/[a-z0-9.]+){0,2}",
    "--runtime": _NAME,
    "--shm-size": _SIZE,
    "--ulimit": "[a-z]+=[0-9]{1,18}(?::[0-9]{1,18})?",
    "-m": _SIZE,
}
ALLOWED: Final[Mapping[str, re.Pattern[str]]] = {name: re.compile(form) for name, form in _FORMS.items()}
"""The allowed arguments, and the form of their values."""


def plan_arguments(extra: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments as `--name=value`, all checked. Raises SandboxError `docker_args_refused`."""
    return tuple(f"{name}={value}" for name, value in _pairs(extra))


def _pairs(extra: Sequence[str]) -> Iterator[tuple[str, str]]:
    left = iter(extra)
    for argument in left:
        name, joined, value = argument.partition("=")
        if name not in ALLOWED:
            raise SandboxError(
                f"extra_args: {name[:80]!r} is not a resource of the container; allowed are "
                f"{', '.join(sorted(ALLOWED))}",
                code=CODE,
            )
        if not joined:
            value = next(left, "")
        if not ALLOWED[name].fullmatch(value):
            raise SandboxError(
                f"extra_args: {value[:80]!r} is no value for {name} that limits something", code=CODE
            )
        yield "--memory" if name == "-m" else name, value


EXPIRES: Final = "stepline.expires"
"""The label of all our objects: the time, in seconds since the epoch, after which they are unused."""

GRACE_S: Final = 600
SLACK_BYTES: Final = 32 * MIB
"""Added to a run's allowed growth, so that we report the limit before the file system is full."""

HUGE_BYTES: Final = 64 * 1024 * MIB
INODES_MAX: Final = 200_000
SUPERVISOR_TASKS: Final = 64
"""Our processes and threads in a program's container, which its limit also counts."""

TEMPORARY_BYTES: Final = 256 * MIB

_SEALED: Final = ("--read-only", "--security-opt", "no-new-privileges", "--cap-drop", "ALL")
_COLLECTOR: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""Capabilities to set up the workspace for another account, and to read its private files."""

_KEEPER: Final = ("KILL", "SETGID", "SETPCAP", "SETUID")
"""Capabilities to become that account for the program's process, and to kill its descendants."""

_MOUNT: Final = "nosuid,nodev,noexec"


@dataclass(frozen=True, kw_only=True)
class ContainerPlan:
    """The arguments after `docker` for each container; a combined run has one, and no volume."""

    supervisor: tuple[str, ...]
    executor: tuple[str, ...] = ()
    supervisor_name: str
    executor_name: str = ""
    volume: str = ""


def plan_run(request: ExecRequest, *, now_s: float, salt: str) -> ContainerPlan:
    """Return the containers of one run. Raises SandboxError `docker_args_refused`.

    `salt` makes their names unpredictable: a name is enough to remove an object or share the workspace.
    """
    name = f"{re.sub('[^a-zA-Z0-9_.-]', '-', request.exec_id)}-{salt}"
    return (
        _plan_split(request, now_s, name)
        if request.profile.container_strategy == "split"
        else _plan_combined(request, now_s, name)
    )


def _plan_split(request: ExecRequest, now_s: float, name: str) -> ContainerPlan:
    volume = f"stepline-workspace-{name}"
    shared = ("--mount", _volume(volume, request, now_s))
    executor = f"stepline-executor-{name}"
    # The supervisor removes itself; the executor is removed when its exit code is known, which is sooner.
    return ContainerPlan(
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
            *_resources(request, INIT_TASKS),
            *_command(request, INIT_COMMAND),
        ),
        supervisor_name=f"stepline-supervisor-{name}",
        executor_name=executor,
        volume=volume,
    )


def _plan_combined(request: ExecRequest, now_s: float, name: str) -> ContainerPlan:
    supervisor = f"stepline-supervisor-{name}"
    return ContainerPlan(
        supervisor=(
            *_supervisor(request, now_s, supervisor, (*_COLLECTOR, *_KEEPER)),
            *("--tmpfs", _temporary(str(WORKSPACE), _workspace_bytes(request), "0755")),
            *_resources(request, SUPERVISOR_TASKS),
            *_command(request, SUPERVISOR_COMMAND),
        ),
        supervisor_name=supervisor,
    )


def _supervisor(
    request: ExecRequest, now_s: float, name: str, capabilities: tuple[str, ...]
) -> tuple[str, ...]:
    return (
        *_run(request, now_s, name),
        "--rm",
        *("--network", request.profile.network_mode),
        *(flag for capability in capabilities for flag in ("--cap-add", capability)),
        *("--tmpfs", _temporary("/tmp", TEMPORARY_BYTES, "1777")),  # noqa: S108 - the container's own
        *("--tmpfs", _temporary(str(PRIVATE), _workspace_bytes(request), "0700")),
    )


def _run(request: ExecRequest, now_s: float, name: str) -> tuple[str, ...]:
    """Return the arguments of both containers: no pull, no daemon logs, a read-only file system."""
    expires = round(now_s) + request.limits.timeout_s + GRACE_S
    return (
        *("run", "--interactive", "--pull", "never", "--log-driver", "none"),
        *("--name", name, "--label", f"{EXPIRES}={expires}"),
        *_SEALED,
    )


def _resources(request: ExecRequest, tasks: int) -> tuple[str, ...]:
    """Return the limits of the program's container, the profile's own arguments last."""
    limits, profile = request.limits, request.profile
    memory = profile.memory or str(limits.memory_bytes)
    return (
        *("--memory", memory, "--memory-swap", memory),
        *(("--cpus", profile.cpus) if profile.cpus else ()),
        *("--pids-limit", str(limits.processes + tasks)),
        *_ulimits(limits),
        *plan_arguments(profile.extra_args),
    )


def _ulimits(limits: RunLimits) -> tuple[str, ...]:
    return tuple(
        flag
        for name, value in (("nofile", limits.open_files), ("core", 1))
        for flag in ("--ulimit", f"{name}={value}:{value}")
    )


def _command(request: ExecRequest, command: tuple[str, ...]) -> tuple[str, ...]:
    program, *arguments = command
    return ("--entrypoint", program, request.profile.image, *arguments)


def _volume(name: str, request: ExecRequest, now_s: float) -> str:
    """Return a volume in memory of the run's size, removed with the two containers."""
    expires = round(now_s) + request.limits.timeout_s + GRACE_S
    options = f"size={_size(_workspace_bytes(request))},nr_inodes={INODES_MAX},mode=0755,{_MOUNT}"
    return (
        f"type=volume,src={name},dst={WORKSPACE},volume-nocopy,volume-label={EXPIRES}={expires},"
        f'volume-opt=type=tmpfs,volume-opt=device=tmpfs,"volume-opt=o={options}"'
    )


def _workspace_bytes(request: ExecRequest) -> int:
    inputs_bytes = sum(file.size_bytes for file in request.files) + (
        BUNDLE_MAX_BYTES if request.bundle else 0
    )
    return inputs_bytes + request.limits.max_delta_bytes + SLACK_BYTES


def _size(size_bytes: int) -> str:
    """Return the size of a file system in memory.

    Without a limit, half the memory of the machine that creates it.
    """
    return str(size_bytes) if size_bytes <= HUGE_BYTES else "50%"


def _temporary(path: str, size_bytes: int, mode: str) -> str:
    return f"{path}:rw,{_MOUNT},size={_size(size_bytes)},mode={mode}"
