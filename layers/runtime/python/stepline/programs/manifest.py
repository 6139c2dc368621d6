"""The manifest of an artifact root: the content hash of each file, and checks of the files' names.

File times are not used, because a program can set them. Source: docs/concepts/execution.md.
"""

from __future__ import annotations

import msgspec

from stepline.model.base import Value
from stepline.model.path import AttachmentPath, FilePath, from_physical, physical
from stepline.model.traversal import Names, ancestors, refuse_path


class FileFact(Value):
    """Hash, size and mode of one file. `mode` is 0o644 or 0o755: no other survives a run."""

    sha256: str
    size_bytes: int
    mode: int = 0o644


class Manifest(Value):
    """The files of an artifact root by their physical path."""

    files: dict[str, FileFact] = msgspec.field(default_factory=dict)

    @property
    def total_bytes(self) -> int:
        return sum(fact.size_bytes for fact in self.files.values())

    @property
    def largest_bytes(self) -> int:
        return max((fact.size_bytes for fact in self.files.values()), default=0)

    def folders(self) -> frozenset[str]:
        """Return every folder that holds one of the files, at any depth."""
        return frozenset(folder for path in self.files for folder in ancestors(path))


def parse_physical_path(path: str) -> FilePath | AttachmentPath:
    """Return the path object of a physical path in canonical form. Raises PathError."""
    place = from_physical(path)
    if physical(place) != path:
        refuse_path("path_not_canonical", "a physical path is written in Unicode NFC", path)
    return place


def reserve_path(names: Names, path: str) -> None:
    """Reserve the name of a physical path that will be written. Raises PathError."""
    parse_physical_path(path)
    taken = names.take(path)
    if taken is not None:
        refuse_path("path_clash", f"it cannot stand beside {taken[:120]!r}", path)
