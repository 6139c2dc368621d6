"""How much memory processes hold together: of one alone the kernel keeps the limit, of all of a run nobody."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

_PAGE_BYTES: Final = os.sysconf("SC_PAGESIZE")
_PROC: Final = Path("/proc")
_GONE: Final = (FileNotFoundError, ProcessLookupError)


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
