"""`extra_args` of a profile: resources may be set, walls may not. Pure.

By default an argument is refused. What is listed only shares out the machine, or names a runtime the daemon's
owner has set up; everything that opens a container (mounts, capabilities, networks, namespaces, devices,
variables, accounts) or that we set ourselves is not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepline.errors import SandboxError

CODE: Final = "docker_args_refused"

COUNTS: Final = frozenset({"--cpus", "--memory", "-m", "--pids-limit"})
"""Limits that zero or less would lift."""

ALLOWED: Final = COUNTS | {
    "--blkio-weight",
    "--cpu-count",
    "--cpu-percent",
    "--cpu-period",
    "--cpu-quota",
    "--cpu-rt-period",
    "--cpu-rt-runtime",
    "--cpu-shares",
    "--cpuset-cpus",
    "--cpuset-mems",
    "--device-read-bps",
    "--device-read-iops",
    "--device-write-bps",
    "--device-write-iops",
    "--hostname",
    "--label",
    "--memory-reservation",
    "--memory-swap",
    "--memory-swappiness",
    "--platform",
    "--runtime",
    "--shm-size",
    "--ulimit",
}

_OURS: Final = ("stepline.",)
"""Labels that only we set."""


def plan_arguments(extra: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments as `--name=value`, each allowed. Raises SandboxError `docker_args_refused`."""
    return tuple(f"{name}={_checked(name, value)}" for name, value in _pairs(extra))


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
        if not value or value.startswith("-"):
            raise SandboxError(f"extra_args: {name} needs a value that limits something", code=CODE)
        yield name.replace("-m", "--memory") if name == "-m" else name, value


def _checked(name: str, value: str) -> str:
    if name in COUNTS and not value.strip("0.bkmgBKMG"):
        raise SandboxError(f"extra_args: {name} of zero lifts the limit", code=CODE)
    if name == "--label" and value.startswith(_OURS):
        raise SandboxError(f"extra_args: the label {value[:80]!r} is ours", code=CODE)
    return value
