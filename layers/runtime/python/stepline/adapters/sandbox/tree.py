"""Folders written by hostile code: opened by descriptor, walked without recursion, removed with any content.

Rule 1: a name is resolved only as one segment against an open folder, and never through a link. Rule 2:
a check by name is repeated by descriptor. Rule 3: depth and number of entries are under the hostile side's
control, so neither the stack nor the number of descriptors may depend on them.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

logger = logging.getLogger(__name__)

TREE_DEPTH_MAX: Final = 64
"""The maximum depth of folders that are read: one descriptor is held for each."""

FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH: Final = 1024


def open_folder(name: str | Path, *, dir_fd: int | None = None) -> int:
    """Open one folder, not a link; our own folder is opened even if it denies access. Raises OSError."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=dir_fd)
    except PermissionError:
        handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        # The descriptor names the folder itself, so the mode cannot change anything else.
        os.chmod(f"/proc/self/fd/{handle}", 0o700)  # noqa: PTH101 - a descriptor's own name, no path
        return os.open(".", FOLDER_FLAGS, dir_fd=handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def opened_folder(path: str | Path, *, dir_fd: int | None = None) -> Iterator[int]:
    """Hold `open_folder` during a `with` block."""
    fd = open_folder(path, dir_fd=dir_fd)
    try:
        yield fd
    finally:
        os.close(fd)


def kind_of(mode: int) -> str:
    """Return the name of a file type by `st_mode`, for people."""
    kinds = {
        stat.S_IFLNK: "a symbolic link",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a device",
        stat.S_IFCHR: "a device",
        stat.S_IFDIR: "a folder",
    }
    return kinds.get(stat.S_IFMT(mode), "a file")


def remove_tree(path: Path) -> bool:
    """Remove a folder and everything below it; return True if nothing is left.

    Neither modes of our own folders nor depth matter: a folder inside another one is first moved up next to it, so two
    descriptors are enough for any tree. Links are removed, never followed. Entries that cannot be removed are left and
    logged.
    """
    try:
        root = open_folder(path)
    except FileNotFoundError:
        return True
    except OSError as error:
        return _given_up(error)
    try:
        _empty(root)
        path.rmdir()
    except OSError as error:
        return _given_up(error)
    finally:
        os.close(root)
    return True


def _given_up(error: OSError) -> bool:
    logger.warning("folder not removed", extra={"errno": errno.errorcode.get(error.errno or 0, "")})
    return False


def _empty(root: int) -> None:
    """Remove everything in an open folder. Raises the OSError of an entry that resists."""
    serial = itertools.count()
    _unlock(root)
    while found := _some(root):
        errors = [error for entry in found if (error := _remove(root, entry, serial)) is not None]
        if len(errors) == len(found):
            raise errors[0]


def _some(fd: int) -> list[os.DirEntry[str]]:
    with os.scandir(fd) as entries:
        return list(itertools.islice(entries, _BATCH))


def _unlock(fd: int) -> None:
    """Make our own folder writable; a foreign folder may already be writable."""
    if os.fstat(fd).st_mode & stat.S_IRWXU != stat.S_IRWXU:
        with contextlib.suppress(PermissionError):
            os.fchmod(fd, stat.S_IRWXU)


def _remove(root: int, entry: os.DirEntry[str], serial: Iterator[int]) -> OSError | None:
    """Remove one entry of the root; folders inside it become entries of the root. Return the error, if any."""
    try:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=root)
        elif not _is_removed(root, entry.name):
            _clear(root, entry.name, serial)
            os.rmdir(entry.name, dir_fd=root)
    except FileNotFoundError:
        return None
    except OSError as error:
        return error
    return None


def _is_removed(fd: int, name: str) -> bool:
    """Remove a folder if it is empty; return True if it was."""
    try:
        os.rmdir(name, dir_fd=fd)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
            return False
        raise
    return True


def _clear(root: int, name: str, serial: Iterator[int]) -> None:
    """Remove the content of a folder of the root, and move its folders up into the root."""
    with opened_folder(name, dir_fd=root) as folder:
        _unlock(folder)
        while found := _some(folder):
            for entry in found:
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.name, dir_fd=folder)
                elif not _is_removed(folder, entry.name):
                    _lift(folder, entry.name, root, serial)


def _lift(folder: int, name: str, root: int, serial: Iterator[int]) -> None:
    """Move a folder into the root under a free name."""
    with opened_folder(name, dir_fd=folder) as inner:
        _unlock(inner)  # moving a folder needs write access to it, since its `..` changes
    while True:
        # Renaming onto an empty folder replaces it, onto a full one fails; both are safe, so no check is
        # needed.
        try:
            os.rename(name, f".{next(serial)}", src_dir_fd=folder, dst_dir_fd=root)
        except OSError as error:
            if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise
        else:
            return
