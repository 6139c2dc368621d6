"""Linux calls without a function in Python; each raises OSError with its errno.

Source: man pages prctl(2), unshare(2), mount(2), pivot_root(2), capset(2); include/uapi/linux of the kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
from typing import Final, TypeAlias

Path: TypeAlias = "str | bytes | os.PathLike[str]"

MACHINE: Final = platform.machine()

CLONE_NEWTIME: Final = 0x00000080
CLONE_NEWNS: Final = 0x00020000
CLONE_NEWCGROUP: Final = 0x02000000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
CLONE_NEW_ANY: Final = (
    CLONE_NEWTIME
    | CLONE_NEWNS
    | CLONE_NEWCGROUP
    | CLONE_NEWUTS
    | CLONE_NEWIPC
    | CLONE_NEWUSER
    | CLONE_NEWPID
    | CLONE_NEWNET
)

MS_RDONLY: Final = 0x1
MS_NOSUID: Final = 0x2
MS_NODEV: Final = 0x4
MS_NOEXEC: Final = 0x8
MS_REMOUNT: Final = 0x20
MS_BIND: Final = 0x1000
MS_REC: Final = 0x4000
MS_PRIVATE: Final = 0x40000
MNT_DETACH: Final = 0x2

PR_SET_PDEATHSIG: Final = 1
PR_GET_PDEATHSIG: Final = 2
PR_GET_DUMPABLE: Final = 3
PR_SET_DUMPABLE: Final = 4
PR_GET_SECCOMP: Final = 21
PR_CAPBSET_DROP: Final = 24
PR_SET_NO_NEW_PRIVS: Final = 38
PR_GET_NO_NEW_PRIVS: Final = 39
PR_CAP_AMBIENT: Final = 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4

ABSENT: Final = (errno.ENOSYS, errno.EPERM)
"""Errors of a call that the kernel lacks, or that a container's profile refuses."""

REFUSED: Final[dict[str, str]] = {}
"""The calls that failed in this process or in an ancestor, each with its error."""

_CAPABILITY_VERSION_3: Final = 0x20080522
_CAP_SETPCAP: Final = 8
_NR_CLOSE_RANGE: Final = 436  # since Linux 5.9, on every architecture
_NR_PIVOT_ROOT: Final = {"x86_64": 155, "aarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.prctl.argtypes = [ctypes.c_int, *[ctypes.c_ulong] * 4]
_libc.mount.argtypes = [
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
]
_libc.umount2.argtypes = [ctypes.c_char_p, ctypes.c_int]
_libc.capset.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
_libc.capget.argtypes = [ctypes.c_char_p, ctypes.c_char_p]


def _checked(result: int, call: str, path: Path | None = None) -> int:
    if result >= 0:
        return result
    code = ctypes.get_errno()
    raise OSError(code, f"{call}: {os.strerror(code)}", None if path is None else os.fsdecode(path))


def prctl(option: int, arg2: int = 0, arg3: int = 0, arg4: int = 0, arg5: int = 0) -> int:
    """Call prctl; an address is passed as an int."""
    return _checked(_libc.prctl(option, arg2, arg3, arg4, arg5), "prctl")


def syscall(number: int, *args: int | bytes | None) -> int:
    """Call the kernel by number; addresses are passed as ints, bytes as pointers, None as a null pointer."""
    values = (ctypes.c_long(value) if isinstance(value, int) else value for value in args)
    return _checked(_libc.syscall(ctypes.c_long(number), *values), "syscall")


def note_refusal(call: str, error: OSError) -> None:
    """Record for the report that `call` is not available here."""
    REFUSED[call] = errno.errorcode.get(error.errno or 0, str(error.errno))


def unshare(flags: int) -> None:
    """Leave the shared namespaces named by `flags` (CLONE_NEW*)."""
    _checked(_libc.unshare(ctypes.c_int(flags)), f"unshare {flags:#x}")


def mount(
    source: Path | None, target: Path, fstype: str | None = None, flags: int = 0, data: str | None = None
) -> None:
    """Mount `source` on `target`; `flags` are MS_*, `data` the file system's own options."""
    result = _libc.mount(
        None if source is None else os.fsencode(source),
        os.fsencode(target),
        None if fstype is None else fstype.encode(),
        flags,
        None if data is None else data.encode(),
    )
    _checked(result, "mount", target)


def umount(target: Path, flags: int = 0) -> None:
    """Unmount the topmost mount of `target`; `flags` are MNT_DETACH, UMOUNT_NOFOLLOW."""
    _checked(_libc.umount2(os.fsencode(target), flags), "umount", target)


def pivot_root(new: Path, old: Path) -> None:
    """Make `new` the root of this mount namespace and move the former root to `old`."""
    number = _NR_PIVOT_ROOT.get(MACHINE)
    if number is None:
        raise OSError(f"pivot_root: no call number for {MACHINE}")
    _checked(int(_libc.syscall(number, os.fsencode(new), os.fsencode(old))), "pivot_root", new)


def set_pdeathsig(signum: int) -> None:
    """Have the kernel send `signum` to this process when the thread that forked it ends."""
    prctl(PR_SET_PDEATHSIG, signum)


def set_dumpable(dumpable: bool) -> None:
    """Set whether processes of the same uid may read this one through /proc and ptrace."""
    prctl(PR_SET_DUMPABLE, int(dumpable))


def _capability_header() -> bytes:
    return _CAPABILITY_VERSION_3.to_bytes(4, "little") + (0).to_bytes(4, "little")


def capabilities() -> tuple[int, int, int]:
    """Return this thread's effective, permitted and inheritable capabilities as bit masks."""
    words = ctypes.create_string_buffer(24)
    _checked(_libc.capget(_capability_header(), words), "capget")
    low = [int.from_bytes(words.raw[at : at + 4], "little") for at in range(0, 12, 4)]
    high = [int.from_bytes(words.raw[at : at + 4], "little") for at in range(12, 24, 4)]
    effective, permitted, inheritable = (a | b << 32 for a, b in zip(low, high, strict=True))
    return effective, permitted, inheritable


def drop_bounding_set() -> None:
    """Empty the bounding set, which limits what an executed file may gain.

    This needs CAP_SETPCAP. Without it the set stays, and no_new_privs makes it useless.
    """
    if not capabilities()[0] >> _CAP_SETPCAP & 1:
        return
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as error:
            if error.errno == errno.EINVAL:  # past the last capability of this kernel
                return
            raise


def drop_capabilities() -> None:
    """Empty this thread's ambient, inheritable, permitted and effective capabilities."""
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    _checked(_libc.capset(_capability_header(), bytes(24)), "capset")


def close_range(first: int, last: int = 0xFFFFFFFF) -> None:
    """Close every descriptor from `first` to `last`, both included.

    An old kernel lacks the call, and a container's profile may refuse it: then close those that /proc lists.
    """
    try:
        syscall(_NR_CLOSE_RANGE, first, last, 0)
    except OSError as error:
        if error.errno not in ABSENT:
            raise
        note_refusal("close_range", error)
        _close_listed(first, last)


def _close_listed(first: int, last: int) -> None:
    for fd in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - pathlib costs 4 ms
        if first <= fd <= last:
            try:
                os.close(fd)
            except OSError as error:
                if error.errno != errno.EBADF:  # the descriptor used to list the folder is closed already
                    raise
