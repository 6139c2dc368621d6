"""The files of a bundle that its programs may read: a program finds a copy of them at BUNDLE_ROOT.

A program is not trusted, and can show the user any file that it reads. So no link is followed, and names that usually
belong to secrets are left out. That catches only mistakes: all other files are copied, including code.

Source: docs/concepts/execution.md#the-bundles-files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stepline.errors import ToolError
from stepline.model.program.execution import MIB

BUNDLE_MAX_BYTES: Final = 16 * MIB
BUNDLE_MAX_FILES: Final = 2_000

_LEFT_OUT: Final = re.compile(
    r"^\.|^__pycache__$|^node_modules$|\.pyc$"  # hidden files, and what is made from others
    r"|secret|credential|password|service[-_]account|\.env$|^id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.(?:pem|key|p12|pfx|jks|keystore|kdbx)$"
    r"|^(?:assembly|bundles|gateway)\.ya?ml$",  # descriptors
    re.IGNORECASE,
)
"""Names of files and folders that are not copied."""


@cache
def read_bundle_files(module: str) -> Mapping[str, bytes]:
    """Return the files of a bundle's package by their paths in it; none if there is no such package.

    A process reads them once, just as it imports the package's code once.

    Raises:
        ToolError: `bundle_too_large`, more bytes or files than programs may get.
    """
    files: dict[str, bytes] = {}
    left_bytes = BUNDLE_MAX_BYTES
    for path, name in _find_files(module):
        left_bytes -= path.stat().st_size
        if left_bytes < 0 or len(files) == BUNDLE_MAX_FILES:
            raise ToolError(
                f"the bundle {module} has more than {BUNDLE_MAX_FILES} files, or more than {BUNDLE_MAX_BYTES} bytes, that "
                "programs can read: keep large data outside its package",
                code="bundle_too_large",
            )
        files[name] = path.read_bytes()
    return files


def _find_files(module: str) -> Iterator[tuple[Path, str]]:
    """Yield the readable files of a package, or the single file of a module, with their paths in it."""
    try:
        spec = find_spec(module) if module else None
    except (ModuleNotFoundError, ValueError):  # a parent package is missing; the module has no file
        return
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        for top, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if _is_shown(name))
            for path in (Path(top, name) for name in sorted(names) if _is_shown(name)):
                if path.is_file() and not path.is_symlink():
                    yield path, path.relative_to(folder).as_posix()
    if spec.submodule_search_locations is None and spec.has_location and spec.origin:
        yield Path(spec.origin), Path(spec.origin).name


def _is_shown(name: str) -> bool:
    return name.isprintable() and not _LEFT_OUT.search(name)
