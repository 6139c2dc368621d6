"""File names that can stand beside each other on any file system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def ancestors(path: str) -> Iterator[str]:
    """Yield the folders above a path, the outermost first."""
    at = path.find("/")
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


class Names:
    """The names taken in one root, so that no two files meet on any file system.

    Names that differ only in case are one name on some systems, and a file cannot stand where a folder must.
    """

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: dict[str, str] = {}

    def take(self, path: str) -> str | None:
        """Take a name; return the path that has it or stands in its way, and then nothing is taken."""
        folded = path.casefold()
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
