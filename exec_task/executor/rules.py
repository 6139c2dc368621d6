"""The filter's rules: one for every system call that a program may not make, or may make only in some ways.

Source: docs/concepts/execution.md#the-jail; man pages of the calls.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from . import kernel

# The processes that a program may signal: those of its own pid namespace; those of its own Landlock domain, or of
# its own uid if none of our processes has that uid; only itself.
Reach: TypeAlias = Literal["namespace", "domain", "self"]

# Placeholder for the pid of the process that installs the filter, and for the negative pid: its process group.
OWN_PID: Final = 1 << 32
OWN_GROUP: Final = 2 << 32


@dataclass(frozen=True)
class Check:
    """A condition on the low 32 bits of argument `arg`.

    A value in `one_of` passes; any other value passes only if `none_of` is given and does not contain it, or if
    `no_bits` is given and shares no bit with it. All values pass if the argument `null_at` is a null pointer.
    """

    arg: int
    one_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()
    no_bits: int = 0
    null_at: int | None = None


@dataclass(frozen=True)
class Rule:
    """Refuse with `code` unless every check passes; without checks, refuse always."""

    code: int
    checks: tuple[Check, ...] = ()


_REFUSED: Final = Rule(errno.EPERM)

# Calls that computing programs do not need: each is a way out, a way in, or outlives the process.
_NO_USE: Final = """
    io_uring_setup io_uring_enter io_uring_register
    ptrace process_vm_readv process_vm_writev process_madvise process_mrelease kcmp pidfd_getfd pidfd_send_signal
    unshare setns mount umount2 pivot_root chroot move_mount open_tree open_tree_attr fsopen fsconfig fsmount
    fspick mount_setattr open_by_handle_at name_to_handle_at lookup_dcookie fanotify_init
    bpf keyctl add_key request_key userfaultfd perf_event_open
    kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff sethostname
    setdomainname quotactl quotactl_fd acct settimeofday clock_settime adjtimex clock_adjtime iopl ioperm
    modify_ldt syslog vhangup
    shmget shmat shmctl semget semop semctl semtimedop msgget msgsnd msgrcv msgctl mq_open mq_unlink
    io_setup sync syncfs memfd_create memfd_secret
    inotify_init inotify_init1 inotify_add_watch cachestat file_setattr
"""
# The last lines: contexts of which the machine has few, waits for the writes of all processes, memory outside all
# limits; changes to files shared by the whole machine, and attributes that let a file use more than its size.

_AF_UNIX: Final = 1
_CLONE_PARENT: Final = 0x8000  # would give the new process to our parent
# Copies, flags, locks, pipe sizes, seals. Other commands name a process that the kernel signals for us, report
# activity in a folder shared with others, delay every process that opens a file (leases, delegations), or are
# newer than this list.
_FCNTL: Final = (*range(8), 9, 11, 16, 17, 36, 37, 38, 1025, 1027, 1028, *range(1030, 1036), 1037)
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902  # the same by ioctl
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into a terminal that others read
# Reserve, free or zero blocks, ask for more at every write, set flags (FS_IOC_*): disk space outside file sizes.
_RESERVE: Final = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839, 0x401C5820, 0x40086602)
_RLIMIT_CORE: Final = (
    4  # the jail's limit of 1 keeps a core dump handler from running; a limit of 0 would not
)
_NEW_LIMIT: Final = 2
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

_ITSELF: Final = (0, OWN_PID)


def _refuse_unless(*checks: Check, code: int = errno.EPERM) -> Rule:
    return Rule(code, checks)


def _signal_check(reach: Reach, protected: frozenset[int]) -> Check:
    if reach == "self":
        return Check(0, one_of=(0, OWN_PID, OWN_GROUP))
    spared = {1} if reach == "namespace" else {1, *protected}
    return Check(0, one_of=(OWN_PID,), none_of=(*sorted(spared), *sorted(-pid for pid in spared)))


def rules(reach: Reach, protected: frozenset[int] = frozenset()) -> dict[str, Rule]:
    """Return the rules by call; `protected` pids cannot be signalled where `reach` is a domain."""
    table = dict.fromkeys(_NO_USE.split(), _REFUSED)
    for call in ("socket", "socketpair"):
        table[call] = _refuse_unless(Check(0, one_of=(_AF_UNIX,)), code=errno.EACCES)
    table["clone"] = _refuse_unless(Check(0, no_bits=kernel.CLONE_NEW_ANY & ~0xFF | _CLONE_PARENT))
    table["clone3"] = Rule(errno.ENOSYS)  # its flags are in memory, which a filter cannot read
    for call in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        table[call] = _refuse_unless(_signal_check(reach, protected))
    # Without a new limit as its third argument, the call only reads one.
    table["prlimit64"] = _refuse_unless(
        Check(0, one_of=_ITSELF), Check(1, none_of=(_RLIMIT_CORE,), null_at=_NEW_LIMIT)
    )
    table["setrlimit"] = _refuse_unless(Check(0, none_of=(_RLIMIT_CORE,)))
    for call in (
        "sched_setaffinity",
        "sched_setscheduler",
        "sched_setparam",
        "sched_setattr",
        "migrate_pages",
        "move_pages",
    ):
        table[call] = _refuse_unless(Check(0, one_of=_ITSELF))
    table["setpriority"] = _refuse_unless(Check(0, one_of=(_PRIO_PROCESS,)), Check(1, one_of=_ITSELF))
    table["ioprio_set"] = _refuse_unless(Check(0, one_of=(_IOPRIO_WHO_PROCESS,)), Check(1, one_of=_ITSELF))
    table["personality"] = _refuse_unless(Check(0, one_of=(0xFFFFFFFF,)))
    table["fcntl"] = _refuse_unless(Check(1, one_of=_FCNTL))
    forbidden = (_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP, *_RESERVE)
    table["ioctl"] = _refuse_unless(Check(1, none_of=forbidden))
    # Mode 0 grows the file, to which the size limit applies; all other modes use or free space outside its size.
    table["fallocate"] = _refuse_unless(Check(1, one_of=(0,)), code=errno.EOPNOTSUPP)
    return table
