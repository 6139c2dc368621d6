"""Files of a conversation under their names in a folder of this machine.

    fi:turn_1.outputs/report.md             turn_1/outputs/report.md
    fi:turn_1.user.attachments/data.csv     turn_1/user.attachments/data.csv

A log is untrusted: a name never leaves the folder, is valid on every system, and is not hidden.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path, PurePosixPath
from typing import Final

from stepline.errors import InputError, PathError
from stepline.model.traversal import Names, check_relative, clean_text

FILE: Final = "fi"
SHOWN: Final = 3
"""The number of existing files that an error lists."""

Read = Callable[[], bytes | None]
"""Returns the content of a file, None if it is lost."""


class FileNames:
    """The names of files in one folder."""

    def __init__(self) -> None:
        self._names = Names()

    def choose(self, path: str, sha256: str) -> str:
        """Return the name of a file by its logical path, with a number if another file already has it.

        A leading dot becomes `_`. A file whose path is not a valid name, or is below another file, is named by its
        hash.
        """
        name = PurePosixPath(_name(path, sha256))
        if (taken := self._names.take(str(name))) is None:
            return str(name)
        if len(PurePosixPath(taken).parts) < len(name.parts):  # another file has the name of a folder
            name = PurePosixPath(sha256)
        numbered = (str(name.with_stem(f"{name.stem}-{n}")) for n in count(2))
        return next(other for other in numbered if self._names.take(other) is None)


def _name(path: str, sha256: str) -> str:
    family, _, place = path.partition(":")
    turn, _, rest = place.partition(".")
    name = f"{turn}/{rest}" if family == FILE else f"{turn}/{family}.{rest}"
    visible = (f"_{part[1:]}" if part.startswith(".") else part for part in name.split("/"))
    try:
        return check_relative(clean_text("/".join(visible)))
    except PathError:
        return sha256


def check_folder(folder: Path) -> None:
    """Raise InputError `not_writable` if this path exists and is not a folder."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, and --out needs a folder", code="not_writable")


def write_files(folder: Path, files: Mapping[str, Read], *, overwrite: bool) -> Iterator[tuple[str, str]]:
    """Write files into a folder, and yield the name and the path of each; lost ones are left out.

    Raises InputError: `not_writable`; `file_exists`, before anything is written.
    """
    paths = {name: folder / name for name in files}
    existing = [str(path) for path in paths.values() if os.path.lexists(path)]
    if existing and not overwrite:
        more = f" and {len(existing) - SHOWN} more" if len(existing) > SHOWN else ""
        raise InputError(
            f"{', '.join(existing[:SHOWN])}{more} would be replaced; add --overwrite to replace",
            code="file_exists",
        )
    for name, path in paths.items():
        body = files[name]()
        if body is not None:
            _write(path, folder, body)
            yield name, str(path)


def _write(path: Path, folder: Path, body: bytes) -> None:
    """Write a new file, never through a link."""
    try:
        if not path.parent.resolve().is_relative_to(folder.resolve()):
            raise InputError(f"{path} is below a link to another folder", code="not_writable")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with path.open("xb") as file:
            file.write(body)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error
