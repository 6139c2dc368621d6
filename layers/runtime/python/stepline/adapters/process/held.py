"""Holdings of a run that no name leads to: removed files that are still open or mapped, and descriptors in flight.

A removed file takes its room until the last descriptor of it is closed, and a descriptor that was sent over a socket and
not received yet is in no process's table. The kernel shows them to a supervisor with CAP_SYS_PTRACE, as root has it;
to any other this finds nothing. Source: man pages proc(5), unix(7).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from stepline.adapters.process.family import GONE, PROC, family

IN_FLIGHT_MAX: Final = 64
"""A process that is started with descriptors of another one needs a handful."""

_UNREADABLE: Final = (*GONE, PermissionError)
_IN_FLIGHT: Final = re.compile(r"^scm_fds:\s*(\d+)$", re.MULTILINE)
_MAPPED: Final = re.compile(r"^([0-9a-f]+-[0-9a-f]+) .* \(deleted\)$", re.MULTILINE)


class Held:
    """The holdings of processes when they were looked at: `nameless` are the states of files, `in_flight` a number."""

    def __init__(self, pidfds: Iterable[int]) -> None:
        """Look at these processes and their descendants."""
        files: dict[tuple[int, int], os.stat_result] = {}
        flights: dict[int, int] = {}
        for pid in family(pidfds):
            for status, path in _open_files(PROC / str(pid)):
                if stat.S_ISREG(status.st_mode) and not status.st_nlink:
                    files[status.st_dev, status.st_ino] = status
                elif stat.S_ISSOCK(status.st_mode) and status.st_ino not in flights:
                    flights[status.st_ino] = _in_flight(path)
        self.nameless = tuple(files.values())
        self.in_flight = sum(flights.values())


def _open_files(process: Path) -> Iterator[tuple[os.stat_result, Path]]:
    """Yield the states of what a process has open or mapped, and the place of its facts."""
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
