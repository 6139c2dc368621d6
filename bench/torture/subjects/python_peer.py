"""The Python peers' packages: virtual environments below `.stepline/torture`, by hashed requirements."""

from __future__ import annotations

import re
import shutil
import sys
import venv
from pathlib import Path
from typing import Final

from bench.torture.subjects.peer_process import INSTALLED, PEERS, run

_PINNED: Final = r"^{name}==(\S+)"


def install_python(name: str) -> Path:
    """Return the virtual environment of a peer, installed if its requirements have changed. Raises NoPeerError."""
    requirements, folder = PEERS / name / "requirements.txt", INSTALLED / f"{name}-env"
    made_from = folder / "requirements.txt"
    if made_from.exists() and made_from.read_bytes() == requirements.read_bytes():
        return folder
    print(f"installing {name} into .stepline/torture", file=sys.stderr)
    venv.create(folder, clear=True, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    run([*pip, "--require-hashes", "-r", str(requirements)], folder, None)
    shutil.copy(requirements, made_from)
    return folder


def python_versions(name: str, *packages: str) -> str:
    """Return the versions of packages in a peer's requirements."""
    text = (PEERS / name / "requirements.txt").read_text(encoding="utf-8")
    found = ((package, re.search(_PINNED.format(name=package), text, re.MULTILINE)) for package in packages)
    return ", ".join(f"{package} {pinned[1]}" for package, pinned in found if pinned)
