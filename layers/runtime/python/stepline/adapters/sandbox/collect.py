"""Collects the files that a program left in its artifact root.

The program controls everything below the root: names, links, pipes, holes, depth, numbers, and changes during the walk.
The walk holds one descriptor per level and opens each entry by one name in an open folder, never through a link; an
entry's type is read from its descriptor; sizes are counted on the bytes read. Only plain files with a valid name, type
and location are collected; others are refused with a code, and a refused file keeps its previous version. A folder that
no path can name is refused as a whole.
`Spool` is a private folder for collected bytes, each file under its sha256.

Source: docs/concepts/execution.md.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import time
import unicodedata
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, Self

from stepline.adapters.sandbox.tree import TREE_DEPTH_MAX, kind_of, open_folder
from stepline.errors import PathError, SandboxError
from stepline.model.base import Value
from stepline.model.path import FilePath, from_physical, physical
from stepline.model.program.execution import CollectedFile, RefusedFile, RunLimits
from stepline.model.traversal import ancestors, check_relative, clean_text, find_clashes
from stepline.programs.manifest import Manifest

PATH_MAX_CHARS: Final = 1_000
_PLACE_SEGMENTS: Final = 2
"""`<turn>/files/` and similar prefixes, which do not count for a path's length."""
OUR_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Errors on our side, independent of the entry."""


class _EntryRefusal(Exception):  # noqa: N818 - not an error: it ends one entry and never leaves this package
    """A refused entry: the code of the reason, and a sentence for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def _check_kind(status: os.stat_result) -> None:
    """Refuse an entry that is not a file with one name. Raises Refusal."""
    if not stat.S_ISREG(status.st_mode):
        raise kind_refusal(status.st_mode)
    if status.st_nlink > 1:
        raise _EntryRefusal(
            "artifact_not_regular_file", "it has more than one name (hard link); write a copy"
        )


def _check_folder(path: str) -> None:
    """Refuse a folder below which no file can have a valid path; its parent has passed. Raises Refusal."""
    *_, name = segments = path.split("/")
    try:
        clean_text(name)
        if rel := "/".join(segments[_PLACE_SEGMENTS:]):
            check_relative(unicodedata.normalize("NFC", rel))
    except PathError as error:
        raise _EntryRefusal(error.reason, str(error)) from error


def kind_refusal(mode: int) -> _EntryRefusal:
    """Return the refusal of an entry that is neither file nor folder."""
    if stat.S_ISLNK(mode):
        return _EntryRefusal("artifact_symlink_blocked", "symbolic links are not taken over")
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return _EntryRefusal("artifact_unstable", "it changed while it was taken over, or cannot be read")
    return _EntryRefusal("artifact_not_regular_file", f"it is {kind_of(mode)}, not a file")


def read_refusal(fd: int, name: str, error: OSError) -> _EntryRefusal:
    """Return the refusal of an entry that could not be opened or read, by its current type."""
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except OSError:
        return _EntryRefusal("artifact_unstable", "it vanished while it was taken over")
    if error.errno in (errno.EACCES, errno.EPERM):
        return _EntryRefusal("artifact_unreadable", "its mode closes it to us")
    return kind_refusal(mode)


def printable(path: str) -> str:
    """Return a path in the grammar's form, or else escaped for logs, and cut if it is too long."""
    try:
        return clean_text(path)
    except PathError:
        text = os.fsencode(path[:PATH_MAX_CHARS]).decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return shown[:PATH_MAX_CHARS]


CHUNK_BYTES: Final = 1024 * 1024
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_PARTIAL: Final = "partial"


class TooLarge(Exception):  # noqa: N818 - not an error: it ends one copy and never leaves this package
    """The source is larger than allowed."""


def _digest_file(fd: int, max_bytes: int, *, into: int | None = None) -> tuple[str, int]:
    """Return the sha256 and size of the rest of an open file, and copy it to another file at the same time.

    Raises:
        TooLarge: the file has more than `max_bytes`.
        OSError: the file cannot be read.
        SandboxError: `collect_failed`, the other file cannot be written.
    """
    sha256, size_bytes = hashlib.sha256(), 0
    while chunk := os.read(fd, CHUNK_BYTES):
        size_bytes += len(chunk)
        if size_bytes > max_bytes:
            raise TooLarge
        sha256.update(chunk)
        if into is not None:
            _write(into, chunk)
    return sha256.hexdigest(), size_bytes


class Spool:
    """Copies and hashes files, within a limit that is counted on the bytes read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            self._fd = open_folder(self._path)
        except OSError as error:
            raise _failed(error) from error
        return self

    def __exit__(self, *_exc: object) -> None:
        os.close(self._fd)

    def take(self, source: int, max_bytes: int) -> tuple[str, int]:
        """Copy the rest of an open file into the spool under its hash; return sha256 and size.

        A file that grows while it is read is copied up to the limit and then refused; a hole counts as zeros. Bytes
        that the spool already has are not stored twice.

        Raises:
            TooLarge: the file has more than `max_bytes`; the copy is removed.
            OSError: the source cannot be read.
            SandboxError: `collect_failed`, the spool cannot be written.
        """
        target = self._open()
        try:
            sha256, size_bytes = _digest_file(source, max_bytes, into=target)
            self._keep(sha256)
        except BaseException:
            with contextlib.suppress(OSError):  # the first failure is the one to report
                os.unlink(_PARTIAL, dir_fd=self._fd)
            raise
        finally:
            os.close(target)
        return sha256, size_bytes

    def _open(self) -> int:
        try:
            return os.open(_PARTIAL, _CREATE, 0o600, dir_fd=self._fd)
        except OSError as error:
            raise _failed(error) from error

    def _keep(self, sha256: str) -> None:
        """Rename the copy to its hash; an existing file has the same bytes, so replacing it changes nothing."""
        try:
            os.rename(_PARTIAL, sha256, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        except OSError as error:
            raise _failed(error) from error


def _write(target: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    try:
        while view:
            view = view[os.write(target, view) :]
    except OSError as error:
        raise _failed(error) from error


def _failed(error: OSError) -> SandboxError:
    return SandboxError(f"the spool cannot be written: {error.strerror}", code="collect_failed")


ENTRIES_MAX: Final = 10_000
REFUSED_MAX: Final = 200
WALK_S: Final = 30.0
"""A longer walk fails: the program left too much, or made it slow on purpose."""

_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CACHE: Final = "__pycache__"
_SCRATCH: Final = "tmp"


class Collected(Value):
    """The result of a collection, by physical path, each list sorted.

    `files` are new or changed; their bytes are in the spool, possibly with those of refused files. `deleted` are inputs
    of the current turn's `files/` and `outputs/` that are certainly gone: not those below a refused folder.
    """

    files: tuple[CollectedFile, ...] = ()
    unchanged: tuple[str, ...] = ()
    refused: tuple[RefusedFile, ...] = ()
    deleted: tuple[str, ...] = ()


def collect(root: Path, before: Manifest, spool: Path, *, limits: RunLimits, turn: str) -> Collected:
    """Compare the root with the restored files, and copy new bytes of the current turn into the spool.

    One file may have `limits.max_file_bytes`; all copied files together may have the restored size plus
    `limits.max_delta_bytes`.

    Raises:
        SandboxError: `collect_failed`, the root cannot be read, at all or within `WALK_S`, or the spool cannot be
            written. A partial collection would look like a complete one.
    """
    try:
        with Spool(spool) as target:
            top = open_folder(root)
            walk = _Walk(before=before, spool=target, limits=limits, turn=turn, device=os.fstat(top).st_dev)
            walk.run(top)
    except OSError as error:
        raise SandboxError(
            f"the workspace cannot be read: {error.strerror}", code="collect_failed"
        ) from error
    return walk.result()


@dataclass
class _Level:
    """One open folder of the walk; `left` are its remaining entries, the next one last."""

    fd: int
    path: str
    left: list[os.DirEntry[str]]


@dataclass
class _Walk:
    before: Manifest
    spool: Spool
    limits: RunLimits
    turn: str
    device: int
    files: dict[str, CollectedFile] = field(default_factory=dict)
    unchanged: set[str] = field(default_factory=set)
    refused: list[RefusedFile] = field(default_factory=list)
    refusals: int = 0
    seen: set[str] = field(default_factory=set)
    unlooked: set[str] = field(default_factory=set)
    entries: int = 0
    copied_bytes: int = 0

    def __post_init__(self) -> None:
        self.deadline_s = time.monotonic() + WALK_S
        self.known_folders = self.before.folders()
        self.copy_max_bytes = self.before.total_bytes + self.limits.max_delta_bytes

    def run(self, top: int) -> None:
        levels = [_Level(top, "", [])]
        try:
            levels[0].left = self._list(top, "")
            while levels:
                if time.monotonic() >= self.deadline_s:
                    raise SandboxError(
                        f"the workspace could not be read in {WALK_S:g} s", code="collect_failed"
                    )
                level = levels[-1]
                if not level.left:
                    os.close(levels.pop().fd)
                    continue
                inner = self._meet(level, level.left.pop(), len(levels))
                if inner is not None:
                    levels.append(inner)
        finally:
            for level in levels:
                os.close(level.fd)

    def _list(self, fd: int, path: str) -> list[os.DirEntry[str]]:
        """Read the entries of a folder, up to the remaining limit."""
        room = ENTRIES_MAX - self.entries
        with os.scandir(fd) as found:
            entries = list(islice(found, room + 1))
        if len(entries) > room:
            self._refuse(path, "artifact_too_many_entries", f"only {ENTRIES_MAX} entries are looked at")
            entries = entries[:room]
        self.entries += len(entries)
        return sorted(entries, key=lambda entry: entry.name, reverse=True)

    def _meet(self, level: _Level, entry: os.DirEntry[str], depth: int) -> _Level | None:
        """Process one entry; return the level of a folder to enter."""
        path = f"{level.path}/{entry.name}" if level.path else entry.name
        try:
            return self._look(level.fd, entry, path, depth)
        except _EntryRefusal as refusal:
            self._refuse(path, refusal.code, str(refusal))
        except OSError as error:
            if error.errno in OUR_ERRORS:
                raise
            why = read_refusal(level.fd, entry.name, error)
            self._refuse(path, why.code, str(why))
        return None

    def _look(self, fd: int, entry: os.DirEntry[str], path: str, depth: int) -> _Level | None:
        if entry.is_dir(follow_symlinks=False):
            return self._enter(fd, entry.name, path, depth)
        if not entry.is_file(follow_symlinks=False):
            raise kind_refusal(entry.stat(follow_symlinks=False).st_mode)
        self._take(fd, entry.name, path)
        return None

    def _enter(self, fd: int, name: str, path: str, depth: int) -> _Level | None:
        if self._is_scratch(name, path):  # it holds no input, so no input is missing if it is skipped
            return None
        if depth >= TREE_DEPTH_MAX:
            raise _EntryRefusal("path_too_deep", f"folders are looked into {TREE_DEPTH_MAX} deep")
        _check_folder(path)
        inner = open_folder(name, dir_fd=fd)
        try:
            self._check_device(inner)
            return _Level(inner, path, self._list(inner, path))
        except BaseException:
            os.close(inner)
            raise

    def _check_device(self, fd: int) -> None:
        if os.fstat(fd).st_dev != self.device:
            raise _EntryRefusal("artifact_path_escape_blocked", "it lies on another file system")

    def _is_scratch(self, name: str, path: str) -> bool:
        """Return True for a folder of temporary files without an input. Only names below the root count."""
        scratch = name == _CACHE or path == f"{self.turn}/{_SCRATCH}"
        return scratch and path not in self.known_folders

    def _take(self, fd: int, name: str, path: str) -> None:
        """Collect one file, or record that it is unchanged."""
        if name.endswith(".pyc") and path not in self.before.files:
            return
        source = os.open(name, _READ, dir_fd=fd)
        try:
            status = os.fstat(source)
            _check_kind(status)
            self._check_device(source)
            place = self._physical_path(path)
            if not self._is_unchanged(source, status.st_size, place):
                self._check_writable(place)
                self._copy(source, status, place)
        finally:
            os.close(source)

    def _physical_path(self, path: str) -> str:
        """Return the file's physical path: in Unicode NFC, and unique."""
        try:
            place = physical(from_physical(path))
        except PathError as error:
            if error.reason == "path_not_physical":
                raise _EntryRefusal(
                    error.reason, "only what lies in files/ or outputs/ is taken over"
                ) from error
            raise _EntryRefusal(error.reason, str(error)) from error
        if place is None or place in self.seen:
            raise _EntryRefusal("path_clash", "another file has the same name in Unicode NFC")
        self.seen.add(place)
        return place

    def _is_unchanged(self, source: int, size_bytes: int, place: str) -> bool:
        """Compare the bytes with the restored ones, because time stamps and inode numbers can be forged."""
        fact = self.before.files.get(place)
        if fact is None or fact.size_bytes != size_bytes:
            return False
        try:
            same = _digest_file(source, fact.size_bytes) == (fact.sha256, fact.size_bytes)
        except TooLarge:
            same = False
        if same:
            self.unchanged.add(place)
        else:
            os.lseek(source, 0, os.SEEK_SET)
        return same

    def _check_writable(self, place: str) -> None:
        if not place.startswith(f"{self.turn}/"):
            raise _EntryRefusal("artifact_not_current_turn", "files of other turns never change")
        if not isinstance(from_physical(place), FilePath):
            raise _EntryRefusal("path_not_writable", "attachments never change; write to files/ or outputs/")

    def _copy(self, source: int, status: os.stat_result, place: str) -> None:
        room = self.copy_max_bytes - self.copied_bytes
        most = min(self.limits.max_file_bytes, room)
        if status.st_size > most:  # a file with one huge hole is not even read
            raise self._too_large(room)
        try:
            sha256, size_bytes = self.spool.take(source, most)
        except TooLarge:
            raise self._too_large(room) from None
        self.copied_bytes += size_bytes
        mode = 0o755 if status.st_mode & 0o111 else 0o644
        self.files[place] = CollectedFile(path=place, sha256=sha256, size_bytes=size_bytes, mode=mode)

    def _too_large(self, room: int) -> _EntryRefusal:
        if self.limits.max_file_bytes <= room:
            return _EntryRefusal("file_size_limit", f"a file has at most {self.limits.max_file_bytes} bytes")
        return _EntryRefusal(
            "exec_workspace_delta_limit", f"at most {self.copy_max_bytes} bytes are taken over"
        )

    def _refuse(self, path: str, code: str, message: str) -> None:
        """Record a refusal. The path and everything below it is not known to be deleted."""
        if path in self.before.files or path in self.known_folders or not path:
            self.unlooked.add(path)
        self.refusals += 1
        if len(self.refused) < REFUSED_MAX:
            self.refused.append(RefusedFile(path=printable(path), code=code, message=message))

    def result(self) -> Collected:
        """Resolve name clashes and deletions."""
        for path, taken in find_clashes([*self.unchanged, *self.files], settled=self.before.files).items():
            self.files.pop(path, None)
            self.unchanged.discard(path)
            self._refuse(path, "path_clash", f"it cannot stand beside {taken!r}")
        refused = sorted(self.refused, key=lambda one: one.path)
        if more := self.refusals - len(refused):
            message = f"{more} more entries are refused"
            refused.append(RefusedFile(path="", code="artifact_too_many_entries", message=message))
        return Collected(
            files=tuple(self.files[path] for path in sorted(self.files)),
            unchanged=tuple(sorted(self.unchanged)),
            refused=tuple(refused),
            deleted=tuple(path for path in sorted(self.before.files) if self._is_deleted(path)),
        )

    def _is_deleted(self, path: str) -> bool:
        if path in self.seen or "" in self.unlooked:
            return False
        own = path.startswith((f"{self.turn}/files/", f"{self.turn}/outputs/"))
        return own and not any(above in self.unlooked for above in (path, *ancestors(path)))
