"""`extra_args` of a profile: resources may be set, walls may not. Pure.

By default an argument is refused. What is listed only shares out the machine, or names a runtime the daemon's
owner has set up; everything that opens a container (mounts, capabilities, networks, namespaces, devices,
variables, accounts) or that we set ourselves is not. A value has the one form that is listed for it: the daemon
reads numbers in many, and takes a zero in any of them for no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stepline.errors import SandboxError

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
    # `stepline.…` are the labels by which we find what is ours.
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
"""What may be set, and the form of its value."""


def plan_arguments(extra: Sequence[str]) -> tuple[str, ...]:
    """Return the arguments as `--name=value`, each allowed. Raises SandboxError `docker_args_refused`."""
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
