"""The end of a program: its cause and its name in a run's report; and the program's memory limit.

A control group limits memory, or a watch over the run's processes and the machine's free memory. Without a group, the
kernel only limits single processes; with a group, it limits the whole run.

A removed file uses disk space until its last descriptor is closed, and a descriptor that was sent over a socket and not
received yet is in no process's table. The kernel shows them to a supervisor with CAP_SYS_PTRACE, which root has.
Source: man pages proc(5), unix(7).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from stepline.adapters.process.fork_server import Cell, ForkServer, is_readable, pid_of
from stepline.adapters.process.group import PROC, ControlGroup
from stepline.adapters.sandbox.exit_code import (
    CANCELLED,
    IN_FLIGHT,
    REFUSED,
    STOP_REASONS,
    TIMED_OUT,
    render_exit,
    render_stop,
)
from stepline.adapters.sandbox.quota import IDLE_FACTOR, INTERVAL_MIN_S, Quota
from stepline.errors import SandboxError
from stepline.model.base import Value
from stepline.model.program.execution import MIB, RunLimits
from stepline.ports.signal import Cancel

IN_FLIGHT_MAX: Final = 64
"""A process that is started with another process's descriptors needs only a few."""

_GONE: Final = (FileNotFoundError, ProcessLookupError)
"""Errors for a process that has ended meanwhile."""
_UNREADABLE: Final = (*_GONE, PermissionError)
_IN_FLIGHT: Final = re.compile(r"^scm_fds:\s*(\d+)$", re.MULTILINE)
_MAPPED: Final = re.compile(r"^([0-9a-f]+-[0-9a-f]+) .* \(deleted\)$", re.MULTILINE)


class Held:
    """Resources that processes hold at one time: `nameless` are removed files, `in_flight` counts sent descriptors."""

    def __init__(self, pidfds: Iterable[int]) -> None:
        """Inspect these processes and their descendants."""
        files: dict[tuple[int, int], os.stat_result] = {}
        flights: dict[int, int] = {}
        for pid in _family(pidfds):
            for status, path in _open_files(PROC / str(pid)):
                if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                    files[status.st_dev, status.st_ino] = status
                elif stat.S_ISSOCK(status.st_mode) and status.st_ino not in flights:
                    flights[status.st_ino] = _in_flight(path)
        self.nameless = tuple(files.values())
        self.in_flight = sum(flights.values())


def _open_files(process: Path) -> Iterator[tuple[os.stat_result, Path]]:
    """Yield the status of each file that a process has open or mapped, and the path of its details."""
    try:
        names = os.listdir(process / "fd")  # noqa: PTH208 - names alone, many times a second
        removed = _MAPPED.findall((process / "maps").read_text())
    except _UNREADABLE:
        return
    places = [(process / "fd" / name, process / "fdinfo" / name) for name in names]
    for path, facts in (*places, *((process / "map_files" / area, process) for area in removed)):
        try:
            yield path.stat(), facts
        except _UNREADABLE:
            continue


def _in_flight(facts: Path) -> int:
    try:
        found = _IN_FLIGHT.search(facts.read_text())
    except _UNREADABLE:
        return 0
    return int(found[1]) if found else 0


TERM_S: Final = 1.0
MEMORY: Final = "memory_limit"
GLANCE_S: Final = 0.1
"""The interval of cheap checks: short memory, and cancellation."""


class Ending(Value):
    """`error`, `message` and `returncode` of a Run; `suspect` if the fork server itself may be affected."""

    error: str = ""
    message: str = ""
    returncode: int | None = None
    suspect: bool = False


def attend(
    server: ForkServer, cell: Cell, *, memory: Memory, quota: Quota, limits: RunLimits, cancel: Cancel
) -> Ending:
    """Wait for the program to end.

    Stop it at its deadline, at a limit or when cancelled: TERM, a second later KILL.

    Only the program is stopped here; its descendants die with its cell. The cell is killed immediately if the whole run
    uses more memory than one process may.
    """
    stopped = _watch(server, cell, memory, quota, limits, cancel)
    if stopped == MEMORY:  # in another second it could use as much again
        _signal(cell.init, signal.SIGKILL)
    elif stopped:
        _signal(cell.program, signal.SIGTERM)
        if not is_readable(server.ending, TERM_S):
            _signal(cell.program, signal.SIGKILL)
    try:
        status = server.status()
    except SandboxError as error:
        return Ending(error=stopped or error.reason, message=str(error), suspect=True)
    if not stopped:
        code = os.waitstatus_to_exitcode(status)
        if code and memory.is_short():  # the kernel was faster
            return Ending(error=MEMORY, message=render_stop(MEMORY, limits), returncode=code)
        return Ending(returncode=code)
    returncode = TIMED_OUT if stopped == "timeout" else os.waitstatus_to_exitcode(status)
    return Ending(error=stopped, message=render_stop(stopped, limits), returncode=returncode)


def judge_ending(ending: Ending, *, confined: bool, quota: Quota, limits: RunLimits) -> Ending:
    """Classify an end that was not forced. `confined`: the jail reported itself, so the program did run."""
    code = ending.returncode
    if ending.error == CANCELLED and not confined:
        return replace(ending, message=f"the program did not begin: {STOP_REASONS[CANCELLED]}")
    if ending.error or code is None:
        return ending
    if not confined:
        error = "isolation_failed" if code == REFUSED else "sandbox_execution_failed"
        return Ending(error=error, message=f"the program did not begin: {render_exit(code)}", returncode=code)
    exceeded = "file_size_limit" if code == -signal.SIGXFSZ else quota.check()
    if exceeded:
        return Ending(error=exceeded, message=render_stop(exceeded, limits), returncode=code)
    if code:
        return Ending(error="nonzero_exit", message=f"the program {render_exit(code)}", returncode=code)
    return ending


def _watch(  # noqa: PLR0917 - every limit of a run
    server: ForkServer, cell: Cell, memory: Memory, quota: Quota, limits: RunLimits, cancel: Cancel
) -> str:
    """Return the code of the reason to stop the program, "" when it has ended on its own."""
    now_s = time.monotonic()
    deadline_s = now_s + limits.timeout_s
    rest_s = max(limits.monitor_interval_s, INTERVAL_MIN_S)
    look_s = now_s + rest_s
    while not is_readable(server.ending, min(GLANCE_S, look_s - now_s, deadline_s - now_s)):
        if cancel.requested:
            return CANCELLED
        if memory.is_short():
            return MEMORY
        now_s = time.monotonic()
        if now_s >= deadline_s:
            return "timeout"
        if now_s < look_s:
            continue
        if memory.is_exceeded():
            return MEMORY
        if exceeded := _exceeded(cell, quota):
            return exceeded
        began_s, now_s = now_s, time.monotonic()
        # Checks use at most a fifth of the time, even in large workspaces.
        rest_s = max(rest_s, (now_s - began_s) * IDLE_FACTOR)
        look_s = now_s + rest_s
    return ""


def _exceeded(cell: Cell, quota: Quota) -> str | None:
    """Return the code of the limit that the run exceeds on disk or in its sockets, or None."""
    held = Held((cell.init, cell.program))
    return IN_FLIGHT if held.in_flight > IN_FLIGHT_MAX else quota.check(held.nameless)


def _signal(program: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(program, number)


RESERVE_BYTES: Final = 1024 * MIB
"""The machine's memory that runs without a group leave free; at most half of the free memory at a run's start."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")


class Memory(Protocol):
    """The memory limit of one run."""

    def is_short(self) -> bool:
        """True if memory has run out: a quick check, including memory outside processes."""

    def is_exceeded(self) -> bool:
        """True if the processes together exceed the limit: a thorough check."""


class Grouped:
    """A run in a control group: the kernel kills a process over the limit, and counts that."""

    def __init__(self, group: ControlGroup) -> None:
        self._group = group

    def is_short(self) -> bool:
        return self._group.exceeded

    def is_exceeded(self) -> bool:
        return False


class Watched:
    """A run whose processes are measured. Memory outside processes is only known for the whole machine."""

    def __init__(self, pidfds: tuple[int, ...], limit_bytes: int, meminfo: Path) -> None:
        self._pidfds = pidfds
        self._limit_bytes = limit_bytes
        self._meminfo = meminfo
        self._reserve_bytes = min(RESERVE_BYTES, available_bytes(meminfo) // 2)

    def is_short(self) -> bool:
        return available_bytes(self._meminfo) < self._reserve_bytes

    def is_exceeded(self) -> bool:
        return used_bytes(self._pidfds, enough_bytes=self._limit_bytes) > self._limit_bytes


def limit_memory(server: ForkServer, cell: Cell, limit_bytes: int) -> Memory:
    """Limit the memory of a cell's program and its descendants, before the program begins. Raises SandboxError."""
    if cell.group is None:
        return Watched((cell.init, cell.program), limit_bytes, server.proc / "meminfo")
    try:
        cell.group.limit(limit_bytes)
    except OSError as error:
        raise SandboxError(f"the memory of the program cannot be limited: {error}") from error
    return Grouped(cell.group)


def available_bytes(meminfo: Path) -> int:
    """Return the kernel's estimate of the machine's available memory."""
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise OSError(f"{meminfo} does not report the available memory")


def used_bytes(pidfds: Iterable[int], *, enough_bytes: int) -> int:
    """Return the memory of the processes and their descendants.

    Shared pages count for each process as long as the sum is at most `enough_bytes`; above that, a slower count without
    duplicates is made. Processes that do not report it count with their shared pages.
    """
    pids = list(_family(pidfds))
    held_bytes = {pid: _resident_bytes(pid) for pid in pids}
    total_bytes = sum(held_bytes.values())
    if total_bytes <= enough_bytes:
        return total_bytes
    return sum(_proportional_bytes(pid, held_bytes[pid]) for pid in pids)


def _resident_bytes(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
    except _GONE:
        return 0


def _proportional_bytes(pid: int, resident_bytes: int) -> int:
    """Return a process's memory, with each page divided among the processes that share it."""
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except PermissionError:
        return resident_bytes
    except _GONE:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def _family(pidfds: Iterable[int]) -> Iterator[int]:
    """Yield those of the processes and their descendants that are alive."""
    found = dict.fromkeys(pid for pidfd in pidfds if (pid := pid_of(pidfd)) > 0)
    left = list(found)
    while left:
        pid = left.pop()
        yield pid
        born = [child for child in _children(pid) if child not in found]
        found.update(dict.fromkeys(born))
        left += born


def _children(pid: int) -> Iterator[int]:
    try:
        for thread in os.listdir(PROC / str(pid) / "task"):  # noqa: PTH208 - names alone, many times a second
            yield from map(int, (PROC / str(pid) / "task" / thread / "children").read_text().split())
    except _GONE:
        return
