"""Limits on the growth of a run's folders.

A file counts with its length, so a hole counts as if it were written, or with its blocks if those are more: they can be
allocated beyond its end. The limit on one file only applies to its length, because some file systems allocate ahead. A
file with several names counts once. The number of entries and their depth are also limited, because a walk must stay
cheap. A walk does not find files without a name: a supervisor passes those that it sees open, and if the file system
below the folders has no size of its own, a reserve of its free space must stay free.
"""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from stepline.adapters.sandbox.tree import TREE_DEPTH_MAX, open_folder
from stepline.model.program.execution import MIB, RunLimits
from stepline.programs.manifest import Manifest

ENTRIES_MAX: Final = 50_000
INTERVAL_MIN_S: Final = 0.1
IDLE_FACTOR: Final = 4
"""A watch pauses this many times longer than its last check took."""

RESERVE_BYTES: Final = 1024 * MIB
_STAT_BLOCK_BYTES: Final = 512
_BLOCK_BYTES: Final = 4096

DELTA = "exec_workspace_delta_limit"
WORKSPACE_SIZE_LIMIT = "workspace_size_limit"
FILE_SIZE_LIMIT = "file_size_limit"


@dataclass(frozen=True)
class _Use:
    """The result of a walk; `whole` is false if it stopped at the limit of number or depth."""

    total_bytes: int = 0
    largest_bytes: int = 0
    whole: bool = True


class Quota:
    """Checks the folders of one run against its limits.

    Growth is counted from `baseline`, the manifest of the restored files; a restored file that is larger than a new one
    may be is not a violation. `reserve_bytes` of the file systems below the folders must stay free, regardless of the
    cause; 0 for folders with their own file system.
    """

    def __init__(
        self, roots: Sequence[Path], limits: RunLimits, baseline: Manifest, *, reserve_bytes: int = 0
    ) -> None:
        self._roots = tuple(roots)
        self._devices = {root.stat().st_dev for root in self._roots if root.exists()}
        self._reserve_bytes = reserve_bytes
        self._total_max_bytes = limits.max_workspace_bytes
        self._delta_max_bytes = baseline.total_bytes + limits.max_delta_bytes
        self._file_max_bytes = max(limits.max_file_bytes, baseline.largest_bytes)
        self._entries_max = ENTRIES_MAX + len(baseline.files)

    def check(self, nameless: Iterable[os.stat_result] = ()) -> str | None:
        """Return the code of the limit that is currently exceeded, or None.

        `nameless` are removed files that are still held; those on the folders' file systems count. Entries that vanish
        meanwhile are ignored.
        """
        if self._is_disk_full():
            return WORKSPACE_SIZE_LIMIT
        use = self._measure(nameless)
        if use.largest_bytes > self._file_max_bytes:
            return FILE_SIZE_LIMIT
        if 0 < self._total_max_bytes < use.total_bytes:
            return WORKSPACE_SIZE_LIMIT
        if use.total_bytes > self._delta_max_bytes or not use.whole:
            return DELTA
        return None

    def _is_disk_full(self) -> bool:
        """Return True if the reserve is used. A missing folder uses nothing."""
        for root in self._roots if self._reserve_bytes else ():
            with contextlib.suppress(FileNotFoundError):
                if free_bytes(root) < self._reserve_bytes:
                    return True
        return False

    def _measure(self, nameless: Iterable[os.stat_result]) -> _Use:
        total_bytes = largest_bytes = entries = 0
        for status in nameless:
            if status.st_dev in self._devices:
                total_bytes += _used_bytes(status)
                largest_bytes = max(largest_bytes, status.st_size)
        linked: set[tuple[int, int]] = set()
        for root in self._roots:
            with contextlib.closing(_entries(root)) as found:
                for depth, status in found:
                    entries += 1
                    if entries > self._entries_max or depth > TREE_DEPTH_MAX:
                        return _Use(total_bytes, largest_bytes, whole=False)
                    if not stat.S_ISREG(status.st_mode) or _is_known(status, linked):
                        continue
                    total_bytes += _used_bytes(status)
                    largest_bytes = max(largest_bytes, status.st_size)
        return _Use(total_bytes, largest_bytes)


def plan_reserve(root: Path) -> int:
    """Return the bytes of a folder's file system that programs should leave free. Raises OSError."""
    return min(RESERVE_BYTES, free_bytes(root) // 2)


def free_bytes(root: Path) -> int:
    """Return the bytes that may still be written below a folder. Raises OSError."""
    status = os.statvfs(root)
    return status.f_bavail * status.f_frsize


def _used_bytes(status: os.stat_result) -> int:
    """Return a file's length, or the size of its blocks if that exceeds the length by a block."""
    blocks_bytes = status.st_blocks * _STAT_BLOCK_BYTES
    return blocks_bytes if blocks_bytes - status.st_size >= _BLOCK_BYTES else status.st_size


def _is_known(status: os.stat_result, linked: set[tuple[int, int]]) -> bool:
    """Return True for a file already counted under another name; remember those with several names."""
    if status.st_nlink < 2:
        return False
    known = (status.st_dev, status.st_ino) in linked
    linked.add((status.st_dev, status.st_ino))
    return known


class _Level:
    """One open folder of a walk. Entries are read one by one: their number is under the program's control."""

    def __init__(self, name: str | Path, dir_fd: int | None) -> None:
        self.fd = open_folder(name, dir_fd=dir_fd)
        try:
            self._found = os.scandir(self.fd)
        except OSError:
            os.close(self.fd)
            raise

    def next(self) -> os.DirEntry[str] | None:
        return next(self._found, None)

    def close(self) -> None:
        self._found.close()
        os.close(self.fd)


def _entries(root: Path) -> Generator[tuple[int, os.stat_result], None, None]:
    """Yield depth and status of everything readable below a folder. Links are not followed."""
    levels: list[_Level] = []
    into: tuple[str | Path, int | None] | None = (root, None)
    try:
        while levels or into is not None:
            try:
                if into is not None:
                    levels.append(_Level(*into))
                    into = None
                entry = levels[-1].next()
                status = None if entry is None else entry.stat(follow_symlinks=False)
            except OSError:  # gone, replaced or unreadable: only existing and open entries count
                into = None
                continue
            if entry is None or status is None:
                levels.pop().close()
                continue
            yield len(levels), status
            if stat.S_ISDIR(status.st_mode):
                into = (entry.name, levels[-1].fd)
    finally:
        for level in levels:
            level.close()


def watch_quota(
    quota: Quota, interval_s: float, stop: threading.Event, on_violation: Callable[[str], None]
) -> threading.Thread:
    """Check every `interval_s` in a thread until `stop` is set.

    Pass the first violation's code to `on_violation`.
    """
    thread = threading.Thread(
        target=_watch, args=(quota, interval_s, stop, on_violation), name="quota", daemon=True
    )
    thread.start()
    return thread


def _watch(
    quota: Quota, interval_s: float, stop: threading.Event, on_violation: Callable[[str], None]
) -> None:
    rest_s = max(interval_s, INTERVAL_MIN_S)
    while not stop.wait(rest_s):
        began_s = time.monotonic()
        code = quota.check()
        if code is not None:
            on_violation(code)
            return
        rest_s = max(interval_s, INTERVAL_MIN_S, (time.monotonic() - began_s) * IDLE_FACTOR)
