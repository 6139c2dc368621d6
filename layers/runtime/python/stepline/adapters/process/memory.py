"""What holds a run to its memory: a control group, or somebody who looks at its processes and at what the machine has left.

Of one process alone the kernel keeps the limit. What all of a run hold, it keeps where there is a group.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

from stepline.adapters.process.fork_server import Cell, ForkServer
from stepline.adapters.process.group import Base, Group
from stepline.model.program.execution import MIB

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
