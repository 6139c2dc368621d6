"""How a program came to its end: what stopped it, and what that is called in a run's report.

What holds a run to its memory: a control group, or somebody who looks at its processes and at what the machine has left.

Of one process alone the kernel keeps the limit. What all of a run hold, it keeps where there is a group.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from msgspec.structs import replace

from stepline.adapters.process.fork_server import Cell, ForkServer, is_readable
from stepline.adapters.process.group import Base, Group
from stepline.adapters.sandbox.exit_code import (
    CANCELLED,
    REFUSED,
    STOPPED,
    TIMED_OUT,
    render_end,
    render_stop,
)
from stepline.adapters.sandbox.quota import IDLE_FACTOR, INTERVAL_MIN_S, Quota
from stepline.errors import SandboxError
from stepline.model.base import Value
from stepline.model.program.execution import MIB, Limits
from stepline.ports.signal import Cancel

TERM_S: Final = 1.0
MEMORY: Final = "memory_limit"
GLANCE_S: Final = 0.1
"""How often is looked at what costs next to nothing to see: memory that is short, and that a run is cancelled."""


class Ending(Value):
    """`error`, `message` and `returncode` are a Run's; `suspect` if the fork server itself may have suffered."""

    error: str = ""
    message: str = ""
    returncode: int | None = None
    suspect: bool = False


def attend(
    server: ForkServer, cell: Cell, *, memory: Memory, quota: Quota, limits: Limits, cancel: Cancel
) -> Ending:
    """Wait until the program has ended; stop it at its deadline, at a limit or when it is cancelled: TERM, and a second later KILL.

    The program alone is stopped here; what it started dies with its cell. The cell dies at once if all of it together
    uses more memory than one process may.
    """
    stopped = _watch(server, memory, quota, limits, cancel)
    if stopped == MEMORY:  # a second more is time to take as much again
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
        if code and memory.is_short():  # the kernel was faster than we
            return Ending(error=MEMORY, message=render_stop(MEMORY, limits), returncode=code)
        return Ending(returncode=code)
    returncode = TIMED_OUT if stopped == "timeout" else os.waitstatus_to_exitcode(status)
    return Ending(error=stopped, message=render_stop(stopped, limits), returncode=returncode)


def judge(ending: Ending, *, confined: bool, quota: Quota, limits: Limits) -> Ending:
    """Name an ending that nothing forced. `confined`: the jail reported itself, so the program did run."""
    code = ending.returncode
    if ending.error == CANCELLED and not confined:
        return replace(ending, message=f"the program did not begin: {STOPPED[CANCELLED]}")
    if ending.error or code is None:
        return ending
    if not confined:
        error = "isolation_failed" if code == REFUSED else "sandbox_execution_failed"
        return Ending(error=error, message=f"the program did not begin: {render_end(code)}", returncode=code)
    exceeded = "file_size_limit" if code == -signal.SIGXFSZ else quota.check()
    if exceeded:
        return Ending(error=exceeded, message=render_stop(exceeded, limits), returncode=code)
    if code:
        return Ending(error="nonzero_exit", message=f"the program {render_end(code)}", returncode=code)
    return ending


def _watch(server: ForkServer, memory: Memory, quota: Quota, limits: Limits, cancel: Cancel) -> str:
    """Return the code of what the program must be stopped for, or nothing when it has ended by itself."""
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
        if exceeded := quota.check():
            return exceeded
        began_s, now_s = now_s, time.monotonic()
        # However much there is to look at, looking takes a fifth of the time at most.
        rest_s = max(rest_s, (now_s - began_s) * IDLE_FACTOR)
        look_s = now_s + rest_s
    return ""


def _signal(program: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(program, number)


logger = logging.getLogger(__name__)

RESERVE_BYTES: Final = 1024 * MIB
"""Of this machine's memory: what no run without a group takes, nor more than half of what is available when it begins."""
_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
_PROC: Final = Path("/proc")
_GONE: Final = (FileNotFoundError, ProcessLookupError)


class Memory(Protocol):
    """The memory of one run."""

    def is_short(self) -> bool:
        """Whether there is no more for it: a quick look, which sees what is in no process's size."""
        ...

    def is_exceeded(self) -> bool:
        """Whether its processes together hold more than they may: a thorough look."""
        ...


class Grouped:
    """A run in a control group: whoever takes too much is ended by the kernel, and that is counted."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def is_short(self) -> bool:
        return self._group.exceeded

    def is_exceeded(self) -> bool:
        return False


class Watched:
    """A run that is looked at. What is in no process's size is known for the whole machine only."""

    def __init__(self, pidfds: tuple[int, ...], limit_bytes: int, meminfo: Path) -> None:
        self._pidfds = pidfds
        self._limit_bytes = limit_bytes
        self._meminfo = meminfo
        self._reserve_bytes = min(RESERVE_BYTES, available_bytes(meminfo) // 2)

    def is_short(self) -> bool:
        return available_bytes(self._meminfo) < self._reserve_bytes

    def is_exceeded(self) -> bool:
        return used_bytes(self._pidfds, enough_bytes=self._limit_bytes) > self._limit_bytes


@contextlib.contextmanager
def hold(server: ForkServer, cell: Cell, limit_bytes: int) -> Iterator[Memory]:
    """Hold a cell's program, which has not begun, and all that it will start to `limit_bytes`. It is left when empty."""
    group = _enter(server.groups, cell.program, limit_bytes) if server.groups else None
    if group is None:
        yield Watched((cell.init, cell.program), limit_bytes, server.proc / "meminfo")
        return
    try:
        yield Grouped(group)
    finally:
        _remove(group)


def _enter(base: Base, program: int, limit_bytes: int) -> Group | None:
    try:
        group = base.make(limit_bytes)
    except OSError as error:
        logger.warning("no control group for a run", extra={"reason": str(error)})
        return None
    try:
        group.add(_pid(program))
    except OSError as error:
        logger.warning("no control group for a run", extra={"reason": str(error)})
        _remove(group)
        return None
    return group


def _remove(group: Group) -> None:
    try:
        group.remove()
    except OSError as error:  # the next fork server removes it, or whoever does so after us
        logger.warning("control group left", extra={"group": group.path.name, "reason": str(error)})


def available_bytes(meminfo: Path) -> int:
    """Return how much memory the machine has for whoever asks, as its kernel estimates it."""
    for line in meminfo.read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    raise OSError(f"{meminfo} does not say what is available")


def used_bytes(pidfds: Iterable[int], *, enough_bytes: int) -> int:
    """Return how much memory the processes and all below them hold.

    What several of them share counts for each as long as that makes no more than `enough_bytes`; only beyond that it
    is asked, for it takes longer, how much they hold without counting a page twice. Processes that do not tell us
    count with what they share.
    """
    pids = list(_family(pidfds))
    held_bytes = {pid: _resident_bytes(pid) for pid in pids}
    total_bytes = sum(held_bytes.values())
    if total_bytes <= enough_bytes:
        return total_bytes
    return sum(_proportional_bytes(pid, held_bytes[pid]) for pid in pids)


def _family(pidfds: Iterable[int]) -> Iterator[int]:
    """Yield the processes and their descendants, as far as they live."""
    found = dict.fromkeys(pid for pidfd in pidfds if (pid := _pid(pidfd)) > 0)
    left = list(found)
    while left:
        pid = left.pop()
        yield pid
        born = [child for child in _children(pid) if child not in found]
        found.update(dict.fromkeys(born))
        left += born


def _pid(pidfd: int) -> int:
    """Return a process's number here; none, -1, when it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _children(pid: int) -> Iterator[int]:
    try:
        for thread in os.listdir(_PROC / str(pid) / "task"):  # noqa: PTH208 - names alone, many times a second
            yield from map(int, (_PROC / str(pid) / "task" / thread / "children").read_text().split())
    except _GONE:
        return


def _resident_bytes(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
    except _GONE:
        return 0


def _proportional_bytes(pid: int, resident_bytes: int) -> int:
    """Return what a process holds, with each page divided among those who share it."""
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except PermissionError:
        return resident_bytes
    except _GONE:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
