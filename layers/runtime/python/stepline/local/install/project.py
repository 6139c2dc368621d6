"""Find the app's folder and the folder for a stage's files, in a checkout or from a wheel.

An installed package is never written to: the app inside a wheel is copied to the home folder, laid out as in
a checkout.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[2]
_CARRIED: Final = _PACKAGE / "_app"
_LIBRARY: Final = "layers/runtime/python/stepline"


def find_home() -> Path:
    """Return the home folder: `STEPLINE_HOME`, else the checkout's `.stepline`, else the user's data folder."""
    here = os.environ  # noqa: TID251 - the user chooses where a program stores its files
    if named := here.get("STEPLINE_HOME"):
        return Path(named).absolute()
    if not _CARRIED.exists():
        return _checkout() / ".stepline"
    data = here.get("XDG_DATA_HOME", "")
    return (Path(data) if Path(data).is_absolute() else Path.home() / ".local/share") / "stepline"


def find_app(home: Path) -> Path:
    """Return the app's folder: the checkout, or the copy that `lay_out` makes of this wheel."""
    if not _CARRIED.exists():
        return _checkout()
    records = sorted(_PACKAGE.parent.glob("stepline-*.dist-info/RECORD"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in records)).hexdigest()
    return home / f"app-{digest[:12]}"


def find_installed() -> Path:
    """Return the app's folder for a reader that needs no copy: the checkout, or what this wheel contains."""
    return _CARRIED if _CARRIED.exists() else _checkout()


def find_project() -> Path:
    """Return the folder whose files say what is deployed: the checkout, or the folder in which a command of a wheel runs."""
    return _checkout() if not _CARRIED.exists() else Path.cwd()


def lay_out(app: Path) -> None:
    """Copy the app of an installed wheel unless the copy exists; delete copies of other versions."""
    if app.exists() or not _CARRIED.exists():
        return
    home = app.parent
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="app.new-", dir=home))
    shutil.copytree(_CARRIED, fresh, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(
        _PACKAGE,
        fresh / _LIBRARY,
        ignore=shutil.ignore_patterns("__pycache__", "_app", "local", "testing.py"),
    )
    for old in home.glob("app-*"):
        if old != app:
            delete_once(old)
    try:
        fresh.rename(app)
    except OSError:
        if not app.exists():
            raise
        shutil.rmtree(fresh)  # another command was faster


def delete_once(folder: Path) -> None:
    """Delete a folder, unless another command has moved it away and deletes it."""
    with tempfile.TemporaryDirectory(prefix="app.old-", dir=folder.parent) as away:
        try:
            folder.rename(Path(away) / folder.name)
        except FileNotFoundError:
            return


def _checkout() -> Path:
    return _PACKAGE.parents[3]
