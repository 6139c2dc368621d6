"""Why something that a program left behind is not taken over."""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from typing import Final

from stepline.adapters.sandbox.tree import kind_of
from stepline.errors import PathError
from stepline.model.traversal import check_relative, clean_text

PATH_MAX_CHARS: Final = 1_000
_PLACE_SEGMENTS: Final = 2
"""`<turn>/files/` and its like, which do not count for how long a path is."""
OUR_ERRORS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""What goes wrong on our side whatever the entry is."""


class Refusal(Exception):  # noqa: N818 - no error: it ends one entry and never leaves this package
    """An entry that is not taken over: the code that says why, and a sentence for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def check_kind(status: os.stat_result) -> None:
    """Refuse what is not a file with one name. Raises Refusal."""
    if not stat.S_ISREG(status.st_mode):
        raise kind_refusal(status.st_mode)
    if status.st_nlink > 1:
        raise Refusal("artifact_not_regular_file", "it has more than one name (hard link); write a copy")


def check_folder(path: str) -> None:
    """Refuse a folder below which no file can have a valid path; the folder above it has passed. Raises Refusal."""
    *_, name = segments = path.split("/")
    try:
        clean_text(name)
        if rel := "/".join(segments[_PLACE_SEGMENTS:]):
            check_relative(unicodedata.normalize("NFC", rel))
    except PathError as error:
        raise Refusal(error.reason, str(error)) from error


def kind_refusal(mode: int) -> Refusal:
    """Say why an entry of this kind is refused where a file or a folder was expected."""
    if stat.S_ISLNK(mode):
        return Refusal("artifact_symlink_blocked", "symbolic links are not taken over")
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return Refusal("artifact_unstable", "it changed while it was taken over, or cannot be read")
    return Refusal("artifact_not_regular_file", f"it is {kind_of(mode)}, not a file")


def read_refusal(fd: int, name: str, error: OSError) -> Refusal:
    """Say why an entry could not be opened or read: by what stands there now."""
    try:
        mode = os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode
    except OSError:
        return Refusal("artifact_unstable", "it vanished while it was taken over")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Refusal("artifact_unreadable", "its mode closes it to us")
    return kind_refusal(mode)


def printable(path: str) -> str:
    """Return a path as the grammar writes it, or else one that any log can hold: escaped, and cut if too long."""
    try:
        return clean_text(path)
    except PathError:
        text = os.fsencode(path[:PATH_MAX_CHARS]).decode("utf-8", "backslashreplace")
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
    return shown[:PATH_MAX_CHARS]
