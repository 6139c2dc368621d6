"""The system-call filter: `rules` assembled to BPF before the fork, then bound to a pid and installed after it.

The filter reads only numbers and argument words, never memory, so nothing can change between check and use. A
number beyond the table gets the answer of a kernel that does not know it yet. Source: seccomp(2);
docs/concepts/execution.md.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from . import kernel
from .calls import LAST_KNOWN, NUMBERS
from .rules import OWN_GROUP, OWN_PID, Reach, Rule, rules


class UnsupportedMachineError(Exception):
    """There is no table for this architecture: nothing may run."""


@dataclass(frozen=True)
class Architecture:
    """`column` is the architecture's column in the table of numbers, `foreign` the first number of another ABI."""

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

_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_BITS, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16  # struct seccomp_data
_INSTRUCTION: Final = struct.Struct("<HBBI")  # both architectures are little-endian
_PROTECTED_MAX: Final = 64


@dataclass(frozen=True)
class Filter:
    """An assembled filter. `slots` are the positions (offset, sign) of its owner's pid."""

    code: bytes
    slots: tuple[tuple[int, int], ...]

    def bind(self, pid: int) -> bytes:
        """Return the filter's bytes for the process `pid`."""
        code = bytearray(self.code)
        for offset, sign in self.slots:
            struct.pack_into("<I", code, offset, sign * pid & 0xFFFFFFFF)
        return bytes(code)


class _Assembler:
    """Collects instructions; a branch names its target, or None for the next instruction.

    All targets are forward.
    """

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
        """Return the filter; a jump over more than 255 instructions raises struct.error."""
        code, slots = bytearray(), []
        for at, (operation, value, yes, no) in enumerate(self._code):
            if value in (OWN_PID, OWN_GROUP):
                slots.append((len(code) + 4, 1 if value == OWN_PID else -1))
            skips = (0 if label is None else self._labels[label] - at - 1 for label in (yes, no))
            code += _INSTRUCTION.pack(operation, *skips, value & 0xFFFFFFFF)
        return Filter(bytes(code), tuple(slots))


_Range: TypeAlias = tuple[int, Rule | None]  # from this number up to the start of the next range


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
    """Emit a binary search.

    The kernel evaluates the filter for every number on installation; a linear list takes 1 ms.
    """
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
    """Emit the rule's checks and both its verdicts: a jump cannot go back to another rule's verdicts."""
    out.label(name)
    refuse = f"{name} refuses"
    for place, check in enumerate(rule.checks):
        passed = f"{name} passed {place}"
        if check.null_at is not None:
            given, word = f"{name} given {place}", _ARGUMENTS_AT + 8 * check.null_at
            out.load(word)
            out.branch(_IF_EQUAL, 0, no=given)
            out.load(word + 4)
            out.branch(_IF_EQUAL, 0, yes=passed)
            out.label(given)
        out.load(_ARGUMENTS_AT + 8 * check.arg)
        for value in check.one_of:
            out.branch(_IF_EQUAL, value, yes=passed)
        for value in check.none_of:
            out.branch(_IF_EQUAL, value, yes=refuse)
        # The last instruction: a value not decided above passes only if the check forbids values, and this is not
        # one of them.
        last = (_IF_BITS, check.no_bits) if check.no_bits or check.none_of else (_IF_AT_LEAST, 0)
        out.branch(*last, yes=refuse)
        out.label(passed)
    if rule.checks:
        out.give(ALLOW)
    out.label(refuse)
    out.give(ERRNO | rule.code)


def build(machine: str, reach: Reach, protected: Iterable[int] = ()) -> Filter:
    """Assemble the filter for `machine` (as in `platform.machine()`); raises UnsupportedMachineError."""
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
    """Install the bytes of `Filter.bind` for every thread of this process, permanently; raises OSError."""
    program = _Program(len(code) // _INSTRUCTION.size, code)
    number = ARCHITECTURES[machine].seccomp
    thread = kernel.syscall(number, _SET_MODE_FILTER, _ALL_THREADS, ctypes.addressof(program))
    if thread:
        raise OSError(errno.EBUSY, f"thread {thread} has its own filter")
