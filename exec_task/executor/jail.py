"""The jail: one process gives up all its authority, in an order that keeps each step allowed.

It fails closed: an authority that cannot be given up raises JailError, and the caller then runs nothing.
Source: docs/concepts/execution.md#the-jail.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
from collections.abc import Collection, Mapping
from typing import Any, Final

from . import kernel, landlock, rules, seccomp

_UMASK: Final = 0o022  # the collector may have another uid, and needs read access
_STATUS: Final = "/proc/self/status"
_STATUS_MAX_BYTES: Final = 8192
_NO_CAPABILITY: Final = b"\t0000000000000000\n"
_UNBOUNDED: Final = b"CapBnd:" + _NO_CAPABILITY
_CLOSED: Final = (
    b"\nThreads:\t1\n",
    b"\nCapPrm:" + _NO_CAPABILITY,
    b"\nCapEff:" + _NO_CAPABILITY,
    b"\nCapAmb:" + _NO_CAPABILITY,
    b"\nNoNewPrivs:\t1\n",
    b"\nSeccomp:\t2\n",
)
_CPU_GRACE_S: Final = 5
# In bytes. Too few for a file, and the only size at which the kernel does not pass a core to the machine's handler
# program either (fs/coredump.c): at 0 it would run that program, as root and outside every namespace.
_NO_CORE: Final = 1
_SOCKETS: Final = "/proc/self/net/unix"
_NAME_COLUMN: Final = 7  # column of a socket's name; `@` is its first character if it is in no folder
_REACHABLE: Final = (
    "abstract sockets of others are within reach: the network is shared, and this kernel's Landlock does not hold "
    "them off (Linux 6.12 does); run without a network, or the supervisor in a container of its own"
)


class JailError(Exception):
    """Some authority is left; the program must not run."""


def prebuild(payload: Mapping[str, Any]) -> None:
    """Do the steps that do not depend on the run, before a fork.

    `payload` needs `own_pid_ns` and the fields that `_filter` reads.
    """
    try:
        _filter(payload)
    except (OSError, seccomp.UnsupportedMachineError) as error:
        raise JailError(str(error)) from error


def confine(payload: Mapping[str, Any], keep: Collection[int] = ()) -> dict[str, Any]:
    """Close the jail around this process permanently; return the measured isolation, as the fields of Isolation.

    `keep` names the descriptors above 2 that stay open. The process must have one thread. Raises JailError.
    """
    try:
        return _confine(payload, keep)
    except (OSError, ValueError, KeyError, TypeError, seccomp.UnsupportedMachineError) as error:
        raise JailError(f"{type(error).__name__}: {error}") from error


def _confine(payload: Mapping[str, Any], keep: Collection[int]) -> dict[str, Any]:
    uid, gid = int(payload["uid"]), int(payload["gid"])
    if uid <= 0 or gid <= 0:
        raise JailError("a program never runs as root")
    _check_neighbours(payload.get("shared_network"))
    reach, ready = _reach(payload), _filter(payload)
    _set_limits(payload["limits"])
    _close_descriptors(keep)
    if os.getsid(0) != os.getpid():
        os.setsid()
    os.umask(_UMASK)
    _go_first_when_memory_is_short()
    status = _open_status()
    if status is None or _UNBOUNDED not in os.pread(status, _STATUS_MAX_BYTES, 0):
        kernel.drop_bounding_set()  # forty calls, which a process that forks often has already made
    _become(uid, gid, payload.get("namespaces", ()))
    kernel.drop_capabilities()
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    kernel.set_dumpable(False)
    abi = landlock.restrict(payload.get("read"), payload.get("write"))
    seccomp.install(ready.bind(os.getpid()))
    _check(status, uid, gid)
    return {
        "backend": str(payload.get("backend", "")),
        "seccomp": True,
        "no_new_privs": True,
        "landlock_abi": abi,
        "uid": uid,
        "namespaces": [str(name) for name in payload.get("namespaces", ())],
        "kernel": os.uname().release,
        "signals": reach,
        "refused": [f"{call}: {code}" for call, code in sorted(kernel.REFUSED.items())],
    }


def _check_neighbours(shared: object) -> None:
    """Refuse a shared network unless its abstract sockets cannot be reached.

    The filter blocks all of a network except these sockets, which have no file to forbid. Landlock blocks them;
    and in a `task`, whose network has only our own containers, it is enough that none exist now.
    """
    if not shared or landlock.kernel_abi() >= landlock.ABSTRACT_SCOPE_ABI:
        return
    if shared != "task" or _has_abstract_sockets():
        raise JailError(_REACHABLE)


def _has_abstract_sockets() -> bool:
    with open(_SOCKETS, "rb") as sockets:  # noqa: PTH123 - pathlib costs 4 ms
        rows = [row.split(None, _NAME_COLUMN) for row in sockets.read().splitlines()]
    return any(len(row) > _NAME_COLUMN and row[_NAME_COLUMN].startswith(b"@") for row in rows)


def _filter(payload: Mapping[str, Any]) -> seccomp.Filter:
    """Return the filter for this run's reach of signals."""
    reach = _reach(payload)
    protected = payload.get("protected_pids", ()) if reach == "domain" else ()
    return _built(reach, frozenset(map(int, protected)))


def _reach(payload: Mapping[str, Any]) -> rules.Reach:
    """Return the processes that the program may signal; call this before the identity changes.

    Without a pid namespace, signals must be limited by Landlock, or by an identity that is about to differ
    from the supervisor's: then the kernel delivers them only to the program's own processes.
    """
    if payload.get("own_pid_ns"):
        return "namespace"
    limited = landlock.kernel_abi() >= landlock.SIGNAL_SCOPE_ABI or os.geteuid() != int(payload["uid"])
    return "domain" if limited else "self"


@functools.lru_cache(maxsize=8)
def _built(reach: rules.Reach, protected: frozenset[int]) -> seccomp.Filter:
    return seccomp.build(kernel.MACHINE, reach, protected)


def _set_limits(limits: Mapping[str, Any]) -> None:
    """Lower soft and hard limits; a lower one is kept.

    Without `processes` they are counted elsewhere: by a container, where the kernel's own limit would count all
    processes of the uid on the whole machine.
    """
    cores = os.cpu_count() or 1
    wanted = {
        resource.RLIMIT_FSIZE: int(limits["max_file_bytes"]),
        resource.RLIMIT_NOFILE: int(limits["open_files"]),
        resource.RLIMIT_AS: int(limits["memory_bytes"]),
        # Later than the wall clock's deadline: all cores for the whole time.
        resource.RLIMIT_CPU: int(limits["timeout_s"]) * cores + _CPU_GRACE_S,
        resource.RLIMIT_CORE: _NO_CORE,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_RTPRIO: 0,
        resource.RLIMIT_NICE: 0,
    }
    if "processes" in limits:
        wanted[resource.RLIMIT_NPROC] = int(limits["processes"])
    for which, value in wanted.items():
        hard = resource.getrlimit(which)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(which, (limit, limit))


def _close_descriptors(keep: Collection[int]) -> None:
    first = 3
    for kept in sorted(fd for fd in keep if fd > 2):
        if kept > first:
            kernel.close_range(first, kept - 1)
        first = kept + 1
    kernel.close_range(first)


def _become(uid: int, gid: int, namespaces: Collection[str]) -> None:
    """Switch to the identity, permanently.

    Keep the signal that ends the process with its parent.
    """
    death_signal = ctypes.c_int()
    kernel.prctl(kernel.PR_GET_PDEATHSIG, ctypes.addressof(death_signal))
    _set_groups(gid, namespaces)
    if os.getresgid() != (gid,) * 3:
        os.setresgid(gid, gid, gid)
    if os.getresuid() != (uid,) * 3:
        os.setresuid(uid, uid, uid)
    if death_signal.value:  # changing the identity clears it
        kernel.set_pdeathsig(death_signal.value)


def _set_groups(gid: int, namespaces: Collection[str]) -> None:
    if set(os.getgroups()) <= {gid}:
        return
    try:
        os.setgroups([gid])
    except PermissionError:
        # A user namespace created without privilege may not change its groups. They only apply to files
        # mounted here.
        if not {"user", "mnt"} <= set(namespaces):
            raise


def _go_first_when_memory_is_short() -> None:
    """Ask the kernel to kill this program, and no supervisor, when the machine runs out of memory.

    Many processes together can use more than each of them may. Only a privileged process could undo this.
    """
    try:
        score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        return  # no /proc, or a read-only one: only a container's own memory limit applies
    try:
        os.write(score, b"1000")
    finally:
        os.close(score)


def _open_status() -> int | None:
    """Open the process's status file for the final check, while it can still be opened."""
    try:
        return os.open(_STATUS, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


def _check(status: int | None, uid: int, gid: int) -> None:
    """Check what the kernel enforces on this process now."""
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3:
        raise JailError("identity was not taken on")
    if kernel.capabilities() != (0, 0, 0):
        raise JailError("capabilities are left")
    if kernel.prctl(kernel.PR_GET_NO_NEW_PRIVS) != 1 or kernel.prctl(kernel.PR_GET_DUMPABLE) != 0:
        raise JailError("no_new_privs or undumpable is not set")
    if kernel.prctl(kernel.PR_GET_SECCOMP) != seccomp.MODE_FILTER:
        raise JailError("the filter is not in force")
    if status is None:
        return
    found = os.pread(status, _STATUS_MAX_BYTES, 0)
    os.close(status)
    missing = [line.decode() for line in _CLOSED if line not in found]
    if missing:
        raise JailError(f"the kernel does not report {missing}")
