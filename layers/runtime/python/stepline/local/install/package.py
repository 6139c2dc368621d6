"""Install locked packages with uv, from the indexes that pip is configured for.

uv takes a fraction of pip's time, but reads no pip.conf, so pip's settings are translated. This module uses the
standard library and uv only, since `make` runs it before anything else is installed.
"""

from __future__ import annotations

import ast
import filecmp
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError

STAMP: Final = ".lock.sha256"
_RANKS: Final = ("global", "install", ":env:")
"""Sections of pip's configuration; a later one overrides an earlier one."""

_LOCATIONS: Final = ("extra-index-url", "find-links", "index-url")
_UV_VARIABLES: Final = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
"""pip's settings, and the environment variables in which uv reads them."""

_YES: Final = ("1", "on", "t", "true", "y", "yes")


def make_environment(
    folder: Path, lock: Path, say: Callable[[], None], *, preload: Sequence[str] = ()
) -> Path:
    """Create an environment from a lock file unless it exists; return its interpreter.

    `say` is called if it takes time. The environment has no pip, and no tests and C sources of packages; files that are
    also in this interpreter's own environment are stored once. Only the modules in `preload` are compiled, by importing
    them once: compiling all would take more time and space than the rest of the installation.

    Raises:
        DependencyError: `local_install`.
    """
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return folder / "bin/python"
    say()
    # Built next to the old environment, which may be in use.
    fresh, old = (folder.with_name(f"{folder.name}.{word}") for word in ("new", "old"))
    shutil.rmtree(fresh, ignore_errors=True)
    _run([sys.executable, "-m", "venv", "--without-pip", str(fresh)])
    python = fresh / "bin/python"
    _install(python, "--no-build", *from_lock(lock))
    for path in list(fresh.glob("lib/*/site-packages/*/**/tests")):
        shutil.rmtree(path, ignore_errors=True)
    for path in fresh.glob("lib/*/site-packages/*/**/*.[ch]"):  # sources of compiled modules
        path.unlink()
    if preload:
        with tempfile.TemporaryDirectory() as scratch:
            _run([str(python), "-c", f"import {', '.join(preload)}"], MPLCONFIGDIR=scratch)
    for packages in fresh.glob("lib/*/site-packages"):
        link_same(packages, Path(sysconfig.get_path("purelib")))
    (fresh / STAMP).write_text(wanted)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder / "bin/python"


def link_same(folder: Path, other: Path) -> None:
    """Replace each file of a folder that also exists in another one by a link, if their file system supports links."""
    for path in folder.rglob("*"):
        twin, link = other / path.relative_to(folder), path.with_name(f"{path.name}.link")
        if not (path.is_file() and twin.is_file()) or path.is_symlink() or path.samefile(twin):
            continue
        if filecmp.cmp(path, twin, shallow=False):
            try:
                link.hardlink_to(twin)
            except OSError:
                return
            link.replace(path)


def _install(python: Path, *what: str) -> None:
    """Install packages into the environment of an interpreter. Raises DependencyError `local_install`.

    On the environment's file system, files are linked from the cache, not copied.
    """
    # Everything is pinned by hash or has no dependencies, so any index may provide a file.
    flags = ("--quiet", "--python", str(python), "--index-strategy", "unsafe-best-match")
    _check(run_uv("install", *flags, *what, scratch=python.parents[1]))


def run_uv(command: str, *arguments: str, scratch: Path) -> subprocess.CompletedProcess[str]:
    """Run `uv pip COMMAND` with pip's configuration; the cache in `scratch` is not kept, unlike one in `UV_CACHE_DIR`."""
    configuration = pip_configuration()
    # uv has no variable for this.
    flags = ("--no-index",) if configuration.get("no-index", "").lower() in _YES else ()
    with tempfile.TemporaryDirectory(prefix=".uv-", dir=scratch) as cache:
        return _call(
            [sys.executable, "-m", "uv", "pip", command, *flags, *arguments],
            **({"UV_CACHE_DIR": cache} | translate(configuration) | _environment()),
        )


def from_lock(lock: Path) -> tuple[str, ...]:
    """Return uv's arguments for a lock file, with hashes required; the file names all packages."""
    return "--no-deps", "--require-hashes", "--requirement", str(lock)


def translate(configuration: Mapping[str, str]) -> dict[str, str]:
    """Translate pip's configuration to variables for uv. Missing local folders are ignored, as pip does."""
    found = {}
    for name, variable in _UV_VARIABLES.items():
        if words := [word for word in configuration.get(name, "").split() if not _is_missing(name, word)]:
            found[variable] = ("," if name == "find-links" else " ").join(words)
    return found


def _is_missing(name: str, place: str) -> bool:
    path = place.removeprefix("file://")
    return name in _LOCATIONS and path.startswith("/") and not Path(path).exists()


def pip_configuration() -> dict[str, str]:
    """Return pip's effective settings, from its files and its variables, under pip's names."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    found: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        if section in _RANKS:
            rank = _RANKS.index(section)
            found[name] = max(found.get(name, (rank, "")), (rank, str(ast.literal_eval(value))))
    return {name: value for name, (_, value) in found.items()}


def _environment() -> dict[str, str]:
    return dict(os.environ)  # noqa: TID251 - not settings of Stepline: a package client may need a proxy, or certificates


def _run(command: list[str], **variables: str) -> None:
    _check(_call(command, **variables))


def _call(command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment() | variables
    )


def _check(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise DependencyError(f"packages cannot be installed:\n{tail}", code="local_install")


def main(arguments: list[str]) -> int:
    """Install locks, or a `--checkout` in place, into the running environment."""
    python = Path(sys.executable)
    try:
        match arguments:
            case ["--checkout", folder]:
                _install(python, "--no-deps", "--editable", folder)
            case locks:
                for lock in locks:
                    _install(python, *from_lock(Path(lock)))
    except DependencyError as error:
        print(f"error: {error.reason}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
