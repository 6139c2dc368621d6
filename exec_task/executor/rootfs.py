"""The file tree of the sandbox: a read-only part that all runs share, and the few writable folders of each run.

`build` creates it once, in its own mount namespace: a small read-only tmpfs with binds of the system's libraries
and of the interpreter, and nothing else of the machine. Files in them that may hold passwords are covered by empty
files. `fit` adds the folders of one run, in that run's mount namespace, which starts as a copy of the first and ends
with its last process.

A program can still read the sources of its mounts: /proc/self/mountinfo names the folders that were bound, such as
the interpreter's folder and the server's temporary folder. That cannot be hidden without hiding /proc.

Source: docs/concepts/execution.md#the-tree; man pages mount_setattr(2), pivot_root(2), pid_namespaces(7).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from . import kernel

RUNS: Final = Path("/runs")
WORKSPACE: Final = Path("/workspace")
PLACES: Final = ("work", "out", "bundle", "socket")
SEALED: Final = ("bundle", "socket")
"""The paths that a program cannot write to."""
PROC: Final = Path("/proc")
TMP: Final = Path("/tmp")  # noqa: S108 - the run's own tmpfs
SHM: Final = Path("/dev/shm")  # noqa: S108 - the run's own tmpfs
TMP_BYTES: Final = 256 * 1024 * 1024
SHM_BYTES: Final = 64 * 1024 * 1024
TMP_FILES: Final = 32_768
COVERED: Final = (RUNS, WORKSPACE, PROC, Path("/dev"))
"""Paths that cannot be a bind's source: the tree's own mounts are there."""
KEPT: Final = Path("/kept")
"""Holds the folders from below /tmp, which are bound to the same paths in every run's own /tmp."""

# Folders, or links where the system has merged them into /usr.
SYSTEM: Final = tuple(Path("/", name) for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"))
CONFIGURATION: Final = ("ld.so.cache", "alternatives", "fonts", "localtime", "mime.types")
DEVICES: Final = ("null", "zero", "full", "random", "urandom")
EMPTY: Final = Path("/empty")
"""Holds an empty file and an empty folder, which are bound over hidden ones."""
LOCAL_CONFIGURATION: Final = Path("/usr/local/etc")
INDEX_CONFIGURATION: Final = "pip.conf"
"""Contains the package indexes, often with a password, next to the packages installed from them."""
WRITTEN: Final = {
    "passwd": "root:x:0:0::/:/bin/false\nexecutor:x:{uid}:{gid}::/tmp:/bin/false\n",
    "group": "root:x:0:\nexecutor:x:{gid}:\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hosts": "127.0.0.1 localhost\n",
}
LINKS: Final = {"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"}

_MOUNT_SETATTR: Final = 442
_AT_FDCWD: Final = -100
_AT_RECURSIVE: Final = 0x8000
_NO_POWER: Final = kernel.MS_NOSUID | kernel.MS_NODEV
_READ_ONLY: Final = kernel.MS_RDONLY | _NO_POWER
_DATA_ONLY: Final = kernel.MS_NOEXEC | _NO_POWER


def build(root: Path, *, runs: Path, prefixes: Iterable[str], uid: int, gid: int) -> list[Path]:
    """Create the tree in the empty folder `root` and change into it.

    Nothing outside can be reached afterwards.

    The caller has its own mount namespace. `runs` is the folder of all run folders; `prefixes` are the folders of
    the interpreter and its packages: each appears at its own path, below new parents. Returns the outermost
    prefixes.
    """
    kernel.mount(None, "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("tmpfs", root, "tmpfs", _NO_POWER, "mode=755,size=1m")
    named = _named(prefixes)
    outermost = _outermost(named)
    for path in (*SYSTEM, *outermost):
        if path.is_symlink():
            _inside(root, path).symlink_to(path.readlink())
        elif path.is_dir():
            _bind(path, _inside(root, _kept(path) if path.is_relative_to(TMP) else path), _READ_ONLY)
    _configure(root, uid, gid)
    _fill_dev(root / "dev")
    _inside(root, EMPTY / "folder").mkdir(parents=True)
    _inside(root, EMPTY / "file").touch()
    _bind(runs, _inside(root, RUNS), _DATA_ONLY)
    for path in (PROC, TMP, *(WORKSPACE / place for place in PLACES)):
        _inside(root, path).mkdir(parents=True, exist_ok=True)
    # For imports that write a cache or inspect their process; every run covers both with its own mounts.
    _tmpfs(_inside(root, TMP), TMP_BYTES)
    _mount_proc(_inside(root, PROC))
    _enter(root)
    _put_back(outermost)
    _cover([LOCAL_CONFIGURATION, *(prefix / INDEX_CONFIGURATION for prefix in named)])
    return outermost


def fit(run: str, outermost: Iterable[Path]) -> None:
    """Add the folders of one run, in a new mount and pid namespace.

    `run` names the run's folder below RUNS, which is inaccessible afterwards. `outermost` is the result of
    `build`.
    """
    for place in PLACES:
        kernel.mount(RUNS / run / place, WORKSPACE / place, None, kernel.MS_BIND)
    for place in SEALED:
        _set_attributes(WORKSPACE / place, kernel.MS_RDONLY)
    kernel.umount(RUNS, kernel.MNT_DETACH)
    _tmpfs(TMP, TMP_BYTES)
    _put_back(outermost)
    _tmpfs(SHM, SHM_BYTES)
    if not _mount_proc(PROC, "subset=pid"):
        _uncover(PROC)


def _kept(path: Path) -> Path:
    return KEPT / path.relative_to(TMP)


def _cover(paths: Iterable[Path]) -> None:
    """Hide existing `paths`, under every name that a run can reach them by."""
    for path in {path.resolve() for path in paths if path.exists()}:
        source = EMPTY / ("folder" if path.is_dir() else "file")
        kernel.mount(source, _kept(path) if path.is_relative_to(TMP) else path, None, kernel.MS_BIND)


def _put_back(outermost: Iterable[Path]) -> None:
    """Bind the folders from below /tmp into the newly mounted one."""
    for path in outermost:
        if path.is_relative_to(TMP):
            path.mkdir(parents=True)
            kernel.mount(_kept(path), path, None, kernel.MS_BIND | kernel.MS_REC)


def _uncover(path: Path) -> None:
    try:
        kernel.umount(path)
    except OSError as error:
        if error.errno != errno.EINVAL:  # it is not a mount
            raise


def _mount_proc(path: Path, options: str | None = None) -> bool:
    """Mount the pid namespace's /proc, if allowed; a container whose own /proc is masked does not allow it.

    A user namespace may mount a /proc only while it sees another one, so the tree has its own.
    """
    try:
        kernel.mount("proc", path, "proc", _DATA_ONLY, options)
    except PermissionError:
        return False
    return True


def _named(prefixes: Iterable[str]) -> list[Path]:
    """Return the folders in `prefixes`, as named and with links resolved."""
    both = {path for prefix in prefixes for path in (Path(prefix), Path(prefix).resolve()) if path.is_dir()}
    return sorted(both - {Path("/")})


def _outermost(named: Iterable[Path]) -> list[Path]:
    """Return the folders that are not below another one or a system folder; `named` is sorted."""
    found: list[Path] = []
    for path in named:
        if path == TMP or any(path.is_relative_to(place) for place in COVERED):
            raise OSError(errno.EINVAL, "programs cannot read what lies there; move it", str(path))
        if not any(path.is_relative_to(other) for other in (*SYSTEM, *found)):
            found.append(path)
    return found


def _configure(root: Path, uid: int, gid: int) -> None:
    folder = root / "etc"
    folder.mkdir()
    for name in CONFIGURATION:
        if Path("/etc", name).exists():
            _bind(Path("/etc", name), folder / name, kernel.MS_RDONLY | _DATA_ONLY)
    for name, text in WRITTEN.items():
        (folder / name).write_text(text.format(uid=uid, gid=gid), encoding="utf-8")


def _fill_dev(folder: Path) -> None:
    (folder / "shm").mkdir(parents=True)
    for name in DEVICES:
        _bind(Path("/dev", name), folder / name, kernel.MS_NOSUID | kernel.MS_NOEXEC)
    for name, of in LINKS.items():
        (folder / name).symlink_to(f"/proc/self/fd{of}")


def _enter(root: Path) -> None:
    os.chdir(root)
    kernel.pivot_root(".", ".")
    kernel.umount(".", kernel.MNT_DETACH)
    os.chdir("/")
    kernel.mount(None, "/", None, kernel.MS_REMOUNT | kernel.MS_BIND | _READ_ONLY)


def _inside(root: Path, path: Path) -> Path:
    return root / path.relative_to("/")


def _bind(source: Path, target: Path, attributes: int) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        target.touch()
    kernel.mount(source, target, None, kernel.MS_BIND | kernel.MS_REC)
    _set_attributes(target, attributes, recursive=True)


def _tmpfs(path: Path, size_bytes: int) -> None:
    kernel.mount("tmpfs", path, "tmpfs", _DATA_ONLY, f"mode=1777,size={size_bytes},nr_inodes={TMP_FILES}")


def _set_attributes(path: Path, attributes: int, *, recursive: bool = False) -> None:
    """Add mount attributes; the four in use have the same numbers in MOUNT_ATTR_* and MS_*."""
    wanted = attributes.to_bytes(8, "little") + bytes(24)
    flags = _AT_RECURSIVE if recursive else 0
    kernel.syscall(_MOUNT_SETATTR, _AT_FDCWD, os.fsencode(path) + b"\0", flags, wanted, len(wanted))
