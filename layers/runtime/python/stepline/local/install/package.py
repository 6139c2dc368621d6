"""Install locked packages, from wherever pip on this machine is told to fetch them.

uv does it, in a fraction of pip's time; it reads no pip.conf, so what stands there is handed on. Stands on the standard
library and uv alone, since `make` runs it before anything else is installed.
"""

from __future__ import annotations

import ast
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError

STAMP: Final = ".lock.sha256"
_RANKS: Final = ("global", "install", ":env:")
"""Sections of pip's configuration; a later one counts for more."""

_PLACES: Final = ("extra-index-url", "find-links", "index-url")
_WORDS: Final = {
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "index-url": "UV_DEFAULT_INDEX",
    "no-index": "UV_NO_INDEX",
    "proxy": "ALL_PROXY",
    "timeout": "UV_HTTP_TIMEOUT",
    "trusted-host": "UV_INSECURE_HOST",
}
"""What pip calls a setting, and the variable in which uv reads it."""


def make_environment(
    folder: Path, lock: Path, say: Callable[[], None], *, preload: Sequence[str] = ()
) -> Path:
    """Make an environment from a lock, unless it is there; return its interpreter. `say` is called if it takes time.

    It has no pip and no tests of packages. Only the modules in `preload` are compiled, by importing them once: the
    others would take more time and space than all else.

    Raises:
        DependencyError: `local_install`.
    """
    wanted = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return folder / "bin/python"
    say()
    # Beside the old one, which may be in use.
    fresh, old = (folder.with_name(f"{folder.name}.{word}") for word in ("new", "old"))
    shutil.rmtree(fresh, ignore_errors=True)
    _run([sys.executable, "-m", "venv", "--without-pip", str(fresh)])
    python = fresh / "bin/python"
    install(python, "--no-build", *from_lock(lock))
    for path in list(fresh.glob("lib/*/site-packages/*/**/tests")):
        shutil.rmtree(path, ignore_errors=True)
    if preload:
        with tempfile.TemporaryDirectory() as scratch:
            _run([str(python), "-c", f"import {', '.join(preload)}"], MPLCONFIGDIR=scratch)
    (fresh / STAMP).write_text(wanted)
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        folder.rename(old)
    fresh.rename(folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder / "bin/python"


def install(python: Path, *what: str) -> None:
    """Install what uv is asked for into the environment of an interpreter. Raises DependencyError `local_install`.

    Nothing stays in a cache, unless `UV_CACHE_DIR` names one: on the file system of the environment a file is linked
    and not copied.
    """
    with tempfile.TemporaryDirectory(prefix=".uv-", dir=python.parents[1]) as cache:
        _run(
            # Hashes or no dependencies at all: it does not matter which index has a file.
            [
                *(sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)),
                *("--index-strategy", "unsafe-best-match", *what),
            ],
            **({"UV_CACHE_DIR": cache} | translate(pip_configuration()) | _environment()),
        )


def from_lock(lock: Path) -> tuple[str, ...]:
    """Return the words for a lock file, all of it by its hashes."""
    return "--require-hashes", "--requirement", str(lock)


def translate(configuration: Mapping[str, str]) -> dict[str, str]:
    """Return variables for uv that say what pip's configuration says. A folder that is not there is no place, as for pip."""
    found = {}
    for name, variable in _WORDS.items():
        if words := [word for word in configuration.get(name, "").split() if not _is_missing(name, word)]:
            found[variable] = ("," if name == "find-links" else " ").join(words)
    return found


def _is_missing(name: str, place: str) -> bool:
    path = place.removeprefix("file://")
    return name in _PLACES and path.startswith("/") and not Path(path).exists()


def pip_configuration() -> dict[str, str]:
    """Return the settings by which pip installs here, from its files and its variables, by its own names."""
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
    return dict(os.environ)  # noqa: TID251 - no settings of ours: a package client may need a proxy, or certificates


def _run(command: list[str], **variables: str) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=_environment() | variables
    )
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise DependencyError(f"packages cannot be installed:\n{tail}", code="local_install")


def main(arguments: list[str]) -> int:
    """Install locks, or a `--checkout` to be imported from where it is, into the environment that this runs in."""
    python = Path(sys.executable)
    try:
        match arguments:
            case ["--checkout", folder]:
                install(python, "--no-deps", "--editable", folder)
            case locks:
                for lock in locks:
                    install(python, *from_lock(Path(lock)))
    except DependencyError as error:
        print(f"error: {error.reason}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
