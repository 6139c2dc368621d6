"""Control groups: the kernel's own limit on all memory of a run, including memory outside processes.

A user with write access can create a memory group below our own (cgroup v1, or the root of v2). Below a group that
systemd delegates, the fork server gets its own scope. Otherwise there is no group.

Source: docs/concepts/execution.md#memory; the kernel's admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

CONTROLLER: Final = "memory"
NAME: Final = "stepline-run"
PROBE_BYTES: Final = 1 << 30
SYSTEMD: Final = Path("/run/systemd/system")
SYSTEMD_S: Final = 5.0
PAUSE_S: Final = 0.01
_CALL: Final = (
    *("--timeout=5", "call", "org.freedesktop.systemd1", "/org/freedesktop/systemd1"),
    *("org.freedesktop.systemd1.Manager", "StartTransientUnit", "ssa(sv)a(sa(sv))"),
)
_PROPERTIES: Final = ("Delegate", "b", "true", "CollectMode", "s", "inactive-or-failed")
PROC: Final = Path("/proc")


@dataclass(frozen=True)
class _Version:
    """The files of a group: those of a limit, and the counter of processes killed for it."""

    limit: str
    fixed: Mapping[str, str]
    swap: str
    events: str


V1: Final = _Version("memory.limit_in_bytes", {}, "memory.memsw.limit_in_bytes", "memory.oom_control")
"""`memsw` limits memory and swap together."""

V2: Final = _Version("memory.max", {"memory.swap.max": "0", "memory.oom.group": "1"}, "", "memory.events")


@dataclass(frozen=True)
class Base:
    """A folder in which groups can be created."""

    path: Path
    version: _Version

    def make(self, limit_bytes: int) -> ControlGroup:
        """Return a new empty group. Raises OSError."""
        path = self.path / f"{NAME}-{_pids()}-{os.getpid()}-{secrets.token_hex(6)}"
        path.mkdir()
        group = ControlGroup(path, self.version)
        try:
            group.limit(limit_bytes)
        except OSError:
            group.remove()
            raise
        return group

    def enclose(self, pid: int, limit_bytes: int) -> ControlGroup:
        """Return a new group with a process in it. Raises OSError.

        After a pause the kernel waits for a grace period before it moves a process: 5 to 15 ms.
        """
        group = self.make(limit_bytes)
        try:
            group.add(pid)
        except OSError:
            group.remove()
            raise
        return group


class ControlGroup:
    """A limit on processes and their descendants."""

    def __init__(self, path: Path, version: _Version) -> None:
        self.path = path
        self._version = version
        self._limit_bytes = sys.maxsize

    def limit(self, limit_bytes: int) -> None:
        """Limit memory and forbid swap; a later call changes the limit. Raises OSError."""
        version = self._version
        values = [(version.limit, str(limit_bytes)), *version.fixed.items()]
        if version.swap:
            values.append((version.swap, str(limit_bytes)))
        if limit_bytes > self._limit_bytes:
            values.reverse()  # in v1, memory alone may never have the higher limit
        for name, value in values:
            # A file of swap is missing where the kernel does not count swap.
            if name == version.limit or (self.path / name).exists():
                self._write(name, value)
        self._limit_bytes = limit_bytes

    def add(self, pid: int) -> None:
        """Add a process, with its later children. Raises OSError."""
        self._write("cgroup.procs", str(pid))

    @property
    def exceeded(self) -> bool:
        """True if the kernel has killed a process for the limit."""
        lines = (line.split() for line in (self.path / self._version.events).read_text().splitlines())
        return any(line[0] == "oom_kill" and line[1] != "0" for line in lines)

    def remove(self) -> None:
        """Remove the group after its last process has ended. Raises OSError."""
        self.path.rmdir()

    def _write(self, name: str, value: str) -> None:
        # Not `write_text`: a control file needs its value in one write, and must not be created.
        fd = os.open(self.path / name, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, value.encode())
        finally:
            os.close(fd)


def find_base(proc: Path = PROC) -> Base | None:
    """Return the folder in which this process can create memory groups, None if there is none.

    It is found by trying, since the permissions and the accepted values depend on many settings.
    """
    version, own = _own(proc)
    if own is None:
        return None
    base = Base(own, version)
    try:
        if version is V2 and CONTROLLER not in (own / "cgroup.subtree_control").read_text().split():
            (own / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
        base.make(PROBE_BYTES).remove()
    except OSError as error:
        logger.info("no control group", extra={"reason": str(error)})
        return None
    remove_left(base)
    return base


def request_base(pid: int, proc: Path = PROC) -> Base | None:
    """Have systemd create a scope around a childless process of ours; return the scope's base.

    The process is then in a leaf of the scope, which ends with its last process. None without systemd, if it
    refuses, or if memory is not counted in v2.
    """
    if _own(proc)[0] is not V2 or not SYSTEMD.exists():
        return None
    name = f"stepline-exec-{pid}.scope"
    try:
        subprocess.run(  # noqa: S603 - our own arguments, no shell
            [*_bus(), *_CALL, name, "fail", "3", "PIDs", "au", "1", str(pid), *_PROPERTIES, "0"],
            env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=SYSTEMD_S,
        )
        scope = _await(pid, name, proc)
        leaf = scope / "server"  # next to the groups: a group with subgroups cannot have processes
        leaf.mkdir()
        (leaf / "cgroup.procs").write_text(str(pid))
        (scope / "cgroup.subtree_control").write_text(f"+{CONTROLLER}")
        base = Base(scope, V2)
        base.make(PROBE_BYTES).remove()
    except (OSError, subprocess.SubprocessError) as error:
        logger.info("no scope of systemd", extra={"reason": str(error)})
        return None
    return base


def _bus() -> tuple[str, str]:
    return "busctl", "--system" if os.geteuid() == 0 else "--user"


def _await(pid: int, name: str, proc: Path) -> Path:
    """Return a scope's folder once the process is in it. Raises OSError."""
    until_s = time.monotonic() + SYSTEMD_S
    while time.monotonic() < until_s:
        group = _path(proc / str(pid))
        if group is not None and group.endswith(f"/{name}"):
            path = _mounted(proc, group, "cgroup2")
            if path is None:
                raise FileNotFoundError(group)
            return path
        time.sleep(PAUSE_S)
    raise TimeoutError(f"{name} was not made in time")


def remove_left(base: Base) -> None:
    """Remove groups left by our killed processes; names contain their pid.

    Only groups named in our own pid namespace: in another namespace, the same number is another process.
    """
    head = f"{NAME}-{_pids()}-"
    for path in base.path.glob(f"{head}*-*"):
        pid = path.name.removeprefix(head).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            try:
                path.rmdir()
            except OSError as error:  # another process of ours was faster, or the group is still in use
                logger.info("group left", extra={"group": path.name, "reason": str(error)})


def _pids() -> int:
    """Return the number of our pid namespace."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _own(proc: Path) -> tuple[_Version, Path | None]:
    """Return this process's own memory group: in v1 if memory is counted there."""
    groups = [line.split(":", 2) for line in _lines(proc / "self/cgroup")]
    first = next((path for _, names, path in groups if CONTROLLER in names.split(",")), None)
    if first is not None:
        return V1, _mounted(proc, first, "cgroup")
    second = _path(proc / "self")
    return V2, None if second is None else _mounted(proc, second, "cgroup2")


def _path(process: Path) -> str | None:
    """Return the name of a process's group in v2."""
    for line in _lines(process / "cgroup"):
        if line.startswith("0::"):
            return line.removeprefix("0::")
    return None


def _mounted(proc: Path, group: str, kind: str) -> Path | None:
    """Return the folder of a group, where a hierarchy of this kind is mounted."""
    for line in _lines(proc / "self/mountinfo"):
        head, _, tail = line.partition(" - ")
        (_, _, _, root, target, *_), (found, _, options) = head.split(), tail.split(" ", 2)
        if found != kind or (kind == "cgroup" and CONTROLLER not in options.split(",")):
            continue
        path = Path(group)
        if path.is_relative_to(root):
            return Path(target) / path.relative_to(root)
    return None


def _lines(path: Path) -> list[str]:
    """Return the lines of a file; none if it is missing, as in a kernel without control groups."""
    try:
        return path.read_text().splitlines()
    except FileNotFoundError:
        return []
