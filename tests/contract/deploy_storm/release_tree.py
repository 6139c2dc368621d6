"""The packages of a release, loaded beside those of other releases in one process.

What releases share is bytes: items, objects, frames and the JSON of the state machine. Their modules are apart: while a step
of a release runs, `sys.modules` has its modules alone, so an import within a function finds them, too.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[3]
LIBRARY: Final = "layers/runtime/python"
PACKAGED: Final = (f"{LIBRARY}/stepline", "lambdas", "bundles")
AGENT: Final = "storm_agent"
"""The bundle of every release, in the folder `agent`."""

RELEASES: Final = {
    "0.1.0": "502abf4260babd90573c45000325514f66752cf1",
    "652f13ba": "652f13ba5b7246fce5eb4253e66284b33ae2078f",
    "0.2.0": "9c64e85fe0218687aa22acaf700e23b19a69af17",
}
"""The last three releases by name, oldest first: their commits. Stages are deployed from landings, too."""
NEXT: Final = "next"
"""The release after them: the working tree."""

_OWN: Final = frozenset({"stepline", "lambdas", "bundles", AGENT})


class ReleaseMissingError(Exception):
    """The history lacks the commit of a release."""


def has_history() -> bool:
    """Return True in a whole clone, and in a copy that reaches its objects; a shallow clone, and other copies, lack releases."""
    if _git("rev-parse", "--is-shallow-repository").stdout.strip() != b"false":
        return False
    commits = ["HEAD", *RELEASES.values()]
    return any(_git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0 for commit in commits)


def packages_of(name: str) -> Path:
    """Return the folder with the packages of a release, which is made once. Raises ReleaseMissingError."""
    if name == NEXT:
        return ROOT
    commit = RELEASES[name]
    folder = ROOT / ".stepline" / "releases" / commit
    if not folder.exists():
        packed = _git("archive", "--format=zip", commit, *PACKAGED)
        if packed.returncode:
            raise ReleaseMissingError(
                f"this clone's history lacks commit {commit}, release {name}: fetch it with `git fetch --unshallow`"
            )
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(dir=folder.parent)) / commit
        with zipfile.ZipFile(BytesIO(packed.stdout)) as archive:
            archive.extractall(made)
        if not folder.exists():  # another process may have made it meanwhile
            made.rename(folder)
        shutil.rmtree(made.parent)
    return folder


class ReleaseTree:
    """The modules of one release; another tree of the same release has modules of its own.

    `change` is run in the tree before its first step, which makes another release of it.
    """

    def __init__(self, release: str, name: str = "", change: Callable[[], None] = lambda: None) -> None:
        """Import nothing yet. Raises ReleaseMissingError."""
        folder = packages_of(release)
        self.name = name or release
        self.change = change
        self._path = [str(folder / LIBRARY), str(folder), str(Path(__file__).parent / "agent")]
        self._modules: dict[str, ModuleType] = {}

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let every import find this release, until the end of the block; blocks may be nested."""
        before = _take_modules()
        sys.modules.update(self._modules)
        sys.path[:0] = self._path
        try:
            yield
        finally:
            del sys.path[: len(self._path)]
            self._modules = _take_modules()
            sys.modules.update(before)


def _take_modules() -> dict[str, ModuleType]:
    """Remove our packages' modules from those that are loaded, and return them."""
    found = [name for name in sys.modules if name.partition(".")[0] in _OWN]
    return {name: sys.modules.pop(name) for name in found}


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
