"""Checks for every path: against leaving its root, deceptive text, and names that differ between systems.

A valid name means the same on Linux, macOS and Windows: files go to the machines of users, in an archive or
alone.

`Names` finds file names that clash on some file system. Pure.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final, NoReturn

from stepline.errors import PathError

PATH_TEXT_MAX_CHARS: Final = 2_048
RELATIVE_MAX_BYTES: Final = 900
SEGMENT_MAX_BYTES: Final = 255

_RESERVED_CHARACTERS: Final = re.compile(r'[<>:"|?*]')
_DEVICES: Final = frozenset(
    {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}
    | {f"{port}{number}" for port in ("COM", "LPT") for number in "123456789¹²³"}
)
"""Names reserved by Windows for devices, in every folder and with every extension."""

_DRIVE = re.compile(r"[A-Za-z]:")
# Controls, invisible characters (zero width, direction, tags), unpaired surrogates, line and paragraph
# separators.
_REFUSED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def refuse_path(code: str, message: str, text: str) -> NoReturn:
    raise PathError(f"{message}: {text[:120]!r}", code=code)


def clean_text(text: str) -> str:
    """Return the text in NFC. Refuses characters that are invalid anywhere in a path."""
    if not text:
        refuse_path("path_empty", "a path is not empty", text)
    if len(text) > PATH_TEXT_MAX_CHARS:
        refuse_path("path_too_long", f"a path has at most {PATH_TEXT_MAX_CHARS} characters", text)
    text = unicodedata.normalize("NFC", text)
    if "\\" in text:
        refuse_path("path_backslash", "segments are separated by /", text)
    if not text.isascii() or not text.isprintable():
        refused = any(unicodedata.category(char) in _REFUSED_CATEGORIES for char in text)
        if refused:
            refuse_path("path_control_character", "a path holds no control or invisible characters", text)
    if text.startswith("/"):
        refuse_path("path_absolute", "a path is not absolute", text)
    return text


def find_ambiguity(segment: str) -> tuple[str, str] | None:
    """Return why a segment has another meaning on another system, as a code and a message."""
    if _RESERVED_CHARACTERS.search(segment):
        return (
            "path_reserved_character",
            'a segment holds none of < > : " | ? *, which have a meaning elsewhere',
        )
    if segment.endswith((".", " ")):
        return "path_dot_edge", "a segment ends neither with a dot nor with a blank, which other systems drop"
    if segment.partition(".")[0].rstrip(" ").upper() in _DEVICES:
        return (
            "path_reserved_name",
            "a segment is not named like a device of another system, whatever its ending",
        )
    return None


def check_relative(rel: str) -> str:
    """Return `rel` if it can only name something below its root."""
    if len(rel.encode()) > RELATIVE_MAX_BYTES:
        refuse_path("path_too_long", f"a relative path has at most {RELATIVE_MAX_BYTES} bytes", rel)
    if rel.startswith("/"):
        refuse_path("path_absolute", "the part below the namespace is relative", rel)
    if _DRIVE.match(rel):
        refuse_path("path_drive", "a path names no drive", rel)
    for segment in rel.split("/"):
        if not segment:
            refuse_path("path_empty_segment", "a path names a file and has no empty segments", rel)
        if not segment.strip("."):
            refuse_path("path_dot_segment", "a path has no segments of dots only", rel)
        if segment != segment.strip():
            refuse_path("path_blank_edge", "a segment neither begins nor ends with a blank", rel)
        if (ambiguity := find_ambiguity(segment)) is not None:
            refuse_path(*ambiguity, rel)
        if len(segment.encode()) > SEGMENT_MAX_BYTES:
            refuse_path("path_too_long", f"a segment has at most {SEGMENT_MAX_BYTES} bytes", rel)
    return rel


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders above a path, outermost first."""
    at = path.find("/")
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


def fold_name(path: str) -> str:
    """Return the common form of names that some file system equates: Unicode's canonical caseless matching."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


class Names:
    """The names used in one root, so that no two files clash on any file system.

    Names that differ only in case, or in the encoding of accents, are one name on some systems, and a file
    cannot have the name of a folder.
    """

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def take(self, path: str) -> str | None:
        """Add a name; if another path has or blocks it, return that path and add nothing."""
        folded = fold_name(path)
        above = list(ancestors(folded))
        taken = self._files.get(folded) or self._folders.get(folded)
        taken = taken or next((self._files[folder] for folder in above if folder in self._files), None)
        if taken is None:
            self._files[folded] = path
            for folder in above:
                self._folders.setdefault(folder, path)
        return taken


def find_clashes(paths: Iterable[str], *, settled: Iterable[str]) -> dict[str, str]:
    """Return the `paths` that clash with others, each with the path it clashes with; `settled` ones win."""
    names = Names()
    first = frozenset(settled)
    ordered = sorted(paths, key=lambda path: (path not in first, path))
    return {path: taken for path in ordered if (taken := names.take(path)) is not None}
