"""The processes of a run, by the descriptors of its first ones. Source: man page proc(5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
GONE: Final = (FileNotFoundError, ProcessLookupError)
"""Errors of a process that has ended meanwhile."""


def family(pidfds: Iterable[int]) -> Iterator[int]:
    """Yield the living processes among these and their descendants."""
    found = dict.fromkeys(pid for pidfd in pidfds if (pid := pid_of(pidfd)) > 0)
    left = list(found)
    while left:
        pid = left.pop()
        yield pid
        born = [child for child in _children(pid) if child not in found]
        found.update(dict.fromkeys(born))
        left += born


def pid_of(pidfd: int) -> int:
    """Return a process's id here; -1 when it is gone."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1


def _children(pid: int) -> Iterator[int]:
    try:
        for thread in os.listdir(PROC / str(pid) / "task"):  # noqa: PTH208 - names alone, many times a second
            yield from map(int, (PROC / str(pid) / "task" / thread / "children").read_text().split())
    except GONE:
        return
