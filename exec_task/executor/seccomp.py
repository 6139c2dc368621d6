"""The system-call filter: a table of rules, assembled to BPF before the fork, bound to a pid and installed after it.

The filter looks at numbers and at the low words of arguments only, never at memory, so nothing can be changed
between the check and the use. A number beyond the table's is answered like a kernel that does not know it yet.
Source: seccomp(2); docs/concepts/execution.md.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from . import kernel
from .calls import LAST_KNOWN, NUMBERS

# Whom a program may signal: anybody in its own pid namespace; anybody in its own Landlock domain, or of its own
# uid where nobody of ours has that; itself.
Reach: TypeAlias = Literal["namespace", "domain", "self"]


class UnsupportedMachineError(Exception):
    """No table for this architecture: nothing may run."""


@dataclass(frozen=True)
class Architecture:
    """`column` is the architecture's place in the table of numbers, `foreign` the first number of another ABI."""

    column: int
    audit: int
    seccomp: int
    foreign: int | None


ARCHITECTURES: Final = {
    "x86_64": Architecture(column=0, audit=0xC000003E, seccomp=317, foreign=0x40000000),
    "aarch64": Architecture(column=1, audit=0xC00000B7, seccomp=277, foreign=None),
}

ALLOW: Final = 0x7FFF0000
KILL_PROCESS: Final = 0x80000000
ERRNO: Final = 0x00050000
MODE_FILTER: Final = 2

# Stand for the pid of the process that installs the filter, and for its negative: its process group.
OWN_PID: Final = 1 << 32
OWN_GROUP: Final = 2 << 32


@dataclass(frozen=True)
class Check:
    """What the low 32 bits of argument `arg` must be.

    A value passes that is one of `one_of`; any other passes only if `none_of` is given and does not hold it, or
    if `no_bits` is given and shares no bit with it.
    """

    arg: int
    one_of: tuple[int, ...] = ()
    none_of: tuple[int, ...] = ()
    no_bits: int = 0


@dataclass(frozen=True)
class Rule:
    """Refuse with `code` unless every check holds; without checks, refuse always."""

    code: int
    checks: tuple[Check, ...] = ()


_REFUSED: Final = Rule(errno.EPERM)

# Calls with no use for a program that computes: each is a way out, a way in, or outlives the process.
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
"""
# The last line: contexts of which the machine has few, writes of everybody to wait for, memory that no limit counts.

_AF_UNIX: Final = 1
_CLONE_PARENT: Final = 0x8000  # would hand the new process to our parent
_F_SETOWN, _F_SETOWN_EX = 8, 15  # name a process that the kernel signals for us
_FIOSETOWN, _SIOCSPGRP = 0x8901, 0x8902  # the same by ioctl
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into a terminal that others read
# Reserve blocks, free some, zero some, ask for more at every write (FS_IOC_*): disk that is in no file's size.
_RESERVE: Final = (0x40305828, 0x40305829, 0x4030582A, 0x4030582B, 0x40305839, 0x401C5820)
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
    """Return the rule of every call that has one; `protected` pids are spared where `reach` is a domain."""
    table = dict.fromkeys(_NO_USE.split(), _REFUSED)
    for call in ("socket", "socketpair"):
        table[call] = _refuse_unless(Check(0, one_of=(_AF_UNIX,)), code=errno.EACCES)
    table["clone"] = _refuse_unless(Check(0, no_bits=kernel.CLONE_NEW_ANY & ~0xFF | _CLONE_PARENT))
    table["clone3"] = Rule(errno.ENOSYS)  # its flags lie in memory, where a filter cannot look
    for call in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        table[call] = _refuse_unless(_signal_check(reach, protected))
    for call in (
        "prlimit64",
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
    table["fcntl"] = _refuse_unless(Check(1, none_of=(_F_SETOWN, _F_SETOWN_EX)))
    forbidden = (_TIOCSTI, _TIOCLINUX, _FIOSETOWN, _SIOCSPGRP, *_RESERVE)
    table["ioctl"] = _refuse_unless(Check(1, none_of=forbidden))
    # Mode 0 lets the file grow, where its limit holds; what any other mode takes or frees is in no file's size.
    table["fallocate"] = _refuse_unless(Check(1, one_of=(0,)), code=errno.EOPNOTSUPP)
    return table


_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data
_INSTRUCTION: Final = struct.Struct("<HBBI")  # both architectures are little-endian
_PROTECTED_MAX: Final = 64


@dataclass(frozen=True)
class Filter:
    """An assembled filter. `slots` are the places (offset, sign) where the pid of its owner belongs."""

    code: bytes
    slots: tuple[tuple[int, int], ...]

    def bind(self, pid: int) -> bytes:
        """Return the filter's bytes for the process `pid`."""
        code = bytearray(self.code)
        for offset, sign in self.slots:
            struct.pack_into("<I", code, offset, sign * pid & 0xFFFFFFFF)
        return bytes(code)


class _Assembler:
    """Collects instructions; a branch names where it goes on, None for the next instruction. All go forward."""

    def __init__(self) -> None:
        self._code: list[tuple[int, int, str | None, str | None]] = []
        self._labels: dict[str, int] = {}

    def load(self, offset: int) -> None:
        self._code.append((_LOAD, offset, None, None))

    def give(self, verdict: int) -> None:
        self._code.append((_RETURN, verdict, None, None))

    def branch(self, condition: int, value: int, *, yes: str | None = None, no: str | None = None) -> None:
        self._code.append((condition, value, yes, no))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._code)

    def assemble(self) -> Filter:
        """Return the filter; a jump beyond the 255 instructions that one can skip is a struct.error."""
        code, slots = bytearray(), []
        for at, (operation, value, yes, no) in enumerate(self._code):
            if value in (OWN_PID, OWN_GROUP):
                slots.append((len(code) + 4, 1 if value == OWN_PID else -1))
            skips = (0 if label is None else self._labels[label] - at - 1 for label in (yes, no))
            code += _INSTRUCTION.pack(operation, *skips, value & 0xFFFFFFFF)
        return Filter(bytes(code), tuple(slots))


_Range: TypeAlias = tuple[int, "Rule | None"]  # from this number up to the next range's


def _ranges(rules_by_number: dict[int, Rule]) -> list[_Range]:
    ranges: list[_Range] = [(0, None)]
    for number, rule in sorted(rules_by_number.items()):
        if ranges[-1][0] == number:
            ranges.pop()
        if not ranges or ranges[-1][1] != rule:
            ranges.append((number, rule))
        ranges.append((number + 1, None))
    ranges.append((LAST_KNOWN + 1, Rule(errno.ENOSYS)))
    return ranges


def _emit_search(out: _Assembler, ranges: Sequence[_Range], names: dict[Rule | None, str]) -> None:
    """Emit a binary search. The kernel walks the filter once for every number to install it: a list costs a ms."""
    middle = len(ranges) // 2
    below, above = ranges[:middle], ranges[middle:]
    start = above[0][0]
    inner = f"from {start}"
    out.branch(
        _IF_AT_LEAST,
        start,
        yes=inner if len(above) > 1 else names[above[0][1]],
        no=None if len(below) > 1 else names[below[0][1]],
    )
    if len(below) > 1:
        _emit_search(out, below, names)
    if len(above) > 1:
        out.label(inner)
        _emit_search(out, above, names)


def _emit_rule(out: _Assembler, rule: Rule, name: str) -> None:
    """Emit the rule's checks and both its verdicts, for a jump cannot go back to somebody else's."""
    out.label(name)
    refuse = f"{name} refuses"
    for place, check in enumerate(rule.checks):
        passed = f"{name} passed {place}"
        out.load(_ARGUMENTS_AT + 8 * check.arg)
        for value in check.one_of:
            out.branch(_IF_EQUAL, value, yes=passed)
        for value in check.none_of:
            out.branch(_IF_EQUAL, value, yes=refuse)
        # The last word: what no value above decided passes only where something was forbidden, and is not this.
        last = (_IF_BITS, check.no_bits) if check.no_bits or check.none_of else (_IF_AT_LEAST, 0)
        out.branch(*last, yes=refuse)
        out.label(passed)
    if rule.checks:
        out.give(ALLOW)
    out.label(refuse)
    out.give(ERRNO | rule.code)


def build(machine: str, reach: Reach, protected: Iterable[int] = ()) -> Filter:
    """Assemble the filter for `machine` (as `platform.machine()` names it); raises UnsupportedMachineError."""
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        raise UnsupportedMachineError(f"no system-call table for {machine}")
    spared = frozenset(protected)
    if len(spared) > _PROTECTED_MAX:
        raise ValueError(f"more than {_PROTECTED_MAX} protected pids")
    ranges = _ranges(
        {
            number: rule
            for call, rule in rules(reach, spared).items()
            if (number := NUMBERS[call][architecture.column]) is not None
        }
    )
    names: dict[Rule | None, str] = {None: "allow"}
    for _, rule in ranges:
        names.setdefault(rule, f"rule {len(names)}")
    out = _Assembler()
    out.load(_ARCHITECTURE_AT)
    out.branch(_IF_EQUAL, architecture.audit, no="kill")
    out.load(_NUMBER_AT)
    if architecture.foreign is not None:
        out.branch(_IF_AT_LEAST, architecture.foreign, yes="kill")
    _emit_search(out, ranges, names)
    out.label("kill")
    out.give(KILL_PROCESS)
    out.label("allow")
    out.give(ALLOW)
    for rule, name in names.items():
        if rule is not None:
            _emit_rule(out, rule, name)
    return out.assemble()


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


_SET_MODE_FILTER, _ALL_THREADS = 1, 1


def install(code: bytes, machine: str = kernel.MACHINE) -> None:
    """Put the bytes of `Filter.bind` over every thread of this process, for good; raises OSError."""
    program = _Program(len(code) // _INSTRUCTION.size, code)
    number = ARCHITECTURES[machine].seccomp
    thread = kernel.syscall(number, _SET_MODE_FILTER, _ALL_THREADS, ctypes.addressof(program))
    if thread:
        raise OSError(errno.EBUSY, f"thread {thread} has a filter of its own")
