"""Restores a run's files into its artifact root, with names and hashes checked.

The root belongs to us and no other process runs yet. Names and links are still not trusted, because names come from
earlier turns and the root may be reused.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepline.adapters.sandbox.tree import open_folder, opened_folder
from stepline.errors import DependencyError, NotFoundError, PathError, SandboxError
from stepline.model.program.execution import WorkFile
from stepline.model.traversal import Names
from stepline.programs.manifest import FileFact, Manifest, reserve_path

Owner = tuple[int, int]

FILE_MODE: Final = 0o644
FOLDER_MODE: Final = 0o755
ROOTS: Final = ("files", "outputs", "attachments")
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def restore_files(
    files: Sequence[WorkFile],
    root: Path,
    fetch: Callable[[str], bytes],
    *,
    max_bytes: int,
    owner: Owner | None,
    turn: str,
) -> Manifest:
    """Write the files below `root` and create the roots of the current turn.

    `owner` is (uid, gid), for root only.

    Nothing is fetched before all names and the total size are checked, and no file is written before its bytes are
    checked. `root` exists and is not changed; new entries belong to `owner`, 0644 and 0755.

    Raises:
        SandboxError: `restore_failed`, with the path.
    """
    _check(files, max_bytes)
    facts: dict[str, FileFact] = {}
    try:
        with opened_folder(root) as fd:
            for name in ROOTS:
                os.close(_folder(fd, (turn, name), owner))
            for file in files:
                _write(fd, file.path, _bytes(file, fetch), owner)
                facts[file.path] = FileFact(sha256=file.sha256, size_bytes=file.size_bytes, mode=FILE_MODE)
    except OSError as error:
        raise SandboxError(f"the workspace cannot be written: {error}", code="restore_failed") from error
    return Manifest(files=facts)


def place_bundle(files: Mapping[str, bytes], root: Path) -> None:
    """Write a bundle's files below `root`, as our own: 0644 and 0755. Raises SandboxError `restore_failed`."""
    try:
        with opened_folder(root) as fd:
            for path, body in files.items():
                _write(fd, path, body, None)
    except OSError as error:
        raise SandboxError(f"the bundle cannot be written: {error}", code="restore_failed") from error


def _check(files: Sequence[WorkFile], max_bytes: int) -> None:
    names = Names()
    for file in files:
        try:
            reserve_path(names, file.path)
        except PathError as error:
            raise _failed(file.path, str(error)) from error
    total_bytes = sum(file.size_bytes for file in files)
    if total_bytes > max_bytes:
        raise SandboxError(
            f"the workspace has {total_bytes} bytes, {max_bytes} are allowed", code="restore_failed"
        )


def _bytes(file: WorkFile, fetch: Callable[[str], bytes]) -> bytes:
    """Fetch the bytes of one file and verify their size and hash."""
    try:
        body = fetch(file.key)
    except (NotFoundError, DependencyError) as error:
        raise _failed(file.path, str(error)) from error
    if len(body) != file.size_bytes:
        raise _failed(file.path, f"it has {len(body)} bytes instead of {file.size_bytes}")
    if hashlib.sha256(body).hexdigest() != file.sha256:
        raise _failed(file.path, "its bytes are others than its hash says")
    return body


def _write(root: int, path: str, body: bytes, owner: Owner | None) -> None:
    *folders, name = path.split("/")
    try:
        folder = _folder(root, folders, owner)
        try:
            fd = os.open(name, _CREATE, FILE_MODE, dir_fd=folder)
        finally:
            os.close(folder)
        with open(fd, "wb", closefd=True) as target:  # noqa: PTH123 - a descriptor, no path
            _hand_over(fd, FILE_MODE, owner)
            target.write(body)
    except OSError as error:
        raise _failed(path, error.strerror or "it cannot be written") from error


def _folder(root: int, names: Sequence[str], owner: Owner | None) -> int:
    """Open the folder below the root, creating missing ones; the caller closes it."""
    fd = os.dup(root)
    for name in names:
        try:
            inner = _step(fd, name, owner)
        finally:
            os.close(fd)
        fd = inner
    return fd


def _step(fd: int, name: str, owner: Owner | None) -> int:
    try:
        return open_folder(name, dir_fd=fd)
    except FileNotFoundError:
        os.mkdir(name, FOLDER_MODE, dir_fd=fd)
    inner = open_folder(name, dir_fd=fd)
    try:
        _hand_over(inner, FOLDER_MODE, owner)
    except OSError:
        os.close(inner)
        raise
    return inner


def _hand_over(fd: int, mode: int, owner: Owner | None) -> None:
    """Set the mode of a file or folder, independent of the umask, and its owner."""
    os.fchmod(fd, mode)
    if owner is not None:
        os.fchown(fd, *owner)


def _failed(path: str, reason: str) -> SandboxError:
    return SandboxError(f"{path[:200]!r} cannot be restored: {reason}", code="restore_failed", path=path)
