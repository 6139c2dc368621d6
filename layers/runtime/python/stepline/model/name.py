"""File names that can stand beside each other on any file system."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders above a path, the outermost first."""
    at = path.find("/")
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


def fold_name(path: str) -> str:
    """Return what all names have in common that some file system takes for one: canonical caseless matching of Unicode."""
    if path.isascii():
        return path.lower()
    return unicodedata.normalize("NFD", unicodedata.normalize("NFD", path).casefold())


class Names:
    """The names taken in one root, so that no two files meet on any file system.

    Names that differ only in case, or in how their accents are written, are one name on some systems, and a file cannot
    stand where a folder must.
    """

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def take(self, path: str) -> str | None:
        """Take a name; return the path that has it or stands in its way, and then nothing is taken."""
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
    """Return which of `paths` cannot stand beside the others, each with the path it meets; `settled` ones win."""
    names = Names()
    first = frozenset(settled)
    ordered = sorted(paths, key=lambda path: (path not in first, path))
    return {path: taken for path in ordered if (taken := names.take(path)) is not None}
