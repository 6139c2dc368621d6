"""Bytecode for the functions, made by an interpreter of their runtime's version.

Lambda mounts layers and handlers read-only, so a function without bytecode compiles everything it imports at every cold
start. Archives do not keep the times of files, so bytecode is not checked against its source (PEP 552).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAGIC: Final = {"3.12": 3531, "3.13": 3571, "3.14": 3627}
"""Versions of Python that Lambda runs, with snapshots → the magic number of their bytecode.

A pre-release has another number; its bytecode would be ignored. Source: CPython, Include/internal/pycore_magic_number.h.
"""

PYTHON_VERSION: Final = "3.14"
"""The one that functions have unless their stage chooses another."""

COST: Final = "two to four times the CPU"
"""Source: docs/reference/bench.md, `cold_cpu_*`."""

_ASKED: Final = (
    "import importlib.util, json, sys; print(json.dumps([sys.implementation.name, "
    "'%d.%d' % sys.version_info[:2], int.from_bytes(importlib.util.MAGIC_NUMBER[:2], 'little')]))"
)


def find_python(version: str) -> Path | None:
    """Return an interpreter whose bytecode this version of Lambda's runtime reads, or None."""
    return next((path for path in _candidates(version) if _fits(path, version)), None)


def render_missing(version: str, *, flag: str = "-c ") -> str:
    """Return a warning: the consequence of a deployment without bytecode, and the ways to have it; `flag` begins each choice."""
    others = (name for name in reversed(MAGIC) if name != version)
    found = next(((name, path) for name in others if (path := find_python(name))), None)
    instead = f" Or deploy with {flag}python={found[0]}: {found[1]} is here." if found else ""
    return (
        f"No Python {version} was found, so the functions go without bytecode: each cold start compiles its imports, "
        f"{COST}. Install it, for example by `uv python install {version}`.{instead} "
        f"{flag}bytecode=false accepts this."
    )


def _candidates(version: str) -> Iterator[Path]:
    """Yield interpreters: this one, those on the path, of pyenv, and of uv."""
    yield Path(sys.executable)
    if found := shutil.which(f"python{version}"):
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")  # noqa: TID251 - pyenv's own variable
    yield from sorted(pyenv.glob(f"versions/{version}.*/bin/python"), reverse=True)
    beside = Path(sys.executable).with_name("uv")
    if uv := (str(beside) if beside.exists() else shutil.which("uv")):
        asked = [uv, "python", "find", "--no-python-downloads", "--no-project", version]
        said = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - fixed command
        if not said.returncode:
            yield Path(said.stdout.strip())


def _fits(python: Path, version: str) -> bool:
    try:
        said = subprocess.run([python, "-I", "-c", _ASKED], capture_output=True, text=True, check=True)  # noqa: S603 - fixed
    except (
        OSError,
        subprocess.CalledProcessError,
    ):  # a name on the path that is no interpreter, as pyenv's shims are
        return False
    return bool(json.loads(said.stdout) == ["cpython", version, MAGIC[version]])


def compile_folder(python: Path, version: str, folder: Path, *, mounted_at: str, content: str) -> None:
    """Compile every module below a folder, unless that was done for this `content` already.

    The same sources give the same bytes: one process compiles in the order of names, with one hash seed. Bytecode names
    its source below `mounted_at`, where Lambda has the folder; otherwise each import would correct that name.
    """
    stamp = folder / ".bytecode"
    wanted = hashlib.sha256(f"{content} {version} {MAGIC[version]} {mounted_at}".encode()).hexdigest()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    subprocess.run(  # noqa: S603 - fixed command
        [
            *(python, "-I", "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"),
            *("-s", folder, "-p", mounted_at, folder),
        ],
        env={"PYTHONHASHSEED": "0"},
        check=True,
    )
    stamp.write_text(wanted)


def copy_sources(sources: tuple[Path, ...], target: Path, *, without: tuple[str, ...] = ()) -> str:
    """Copy folders into `target` without their bytecode, unless it has them already; return a digest of the content."""
    digest = digest_of(*sources, without=without)
    stamp = target / ".content"
    if not stamp.exists() or stamp.read_text() != digest:
        shutil.rmtree(target, ignore_errors=True)
        for source in sources:
            ignored = shutil.ignore_patterns("__pycache__", "*.pyc", *without)
            shutil.copytree(source, target / source.name, ignore=ignored)
        stamp.write_text(digest)
    return digest


def digest_of(*folders: Path, without: tuple[str, ...] = ()) -> str:
    """Return a digest of the files below folders by name and content; bytecode and the parts `without` do not count."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not {"__pycache__", *without} & set(path.relative_to(folder).parts):
                digest.update(f"{folder.name}/{path.relative_to(folder)}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]
