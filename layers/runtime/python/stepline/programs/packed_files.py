"""The bytes of a run's files joined into one object: each content once, one after the other.

The report beside it gives order and sizes: contents are in the order in which the files first name them, and each is
checked against its size and its hash. Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from stepline.errors import SandboxError
from stepline.model.program.execution import CollectedFile

CHUNK_BYTES: Final = 1024 * 1024
_SHA256: Final = re.compile("[0-9a-f]{64}")


def contents(files: Sequence[CollectedFile]) -> dict[str, int]:
    """Return the hashes of the contents in their order, each with its size."""
    return {file.sha256: file.size_bytes for file in files}


def join_files(files: Sequence[CollectedFile], spool: Path, target: Path) -> None:
    """Write the contents of `files`, found in `spool` by their hashes, into one new file. Raises OSError."""
    with target.open("xb") as joined:
        for sha256 in contents(files):
            with (spool / sha256).open("rb") as content:
                while chunk := content.read(CHUNK_BYTES):
                    joined.write(chunk)


def split_files(pieces: Iterable[bytes], files: Sequence[CollectedFile], spool: Path) -> None:
    """Write the contents from `pieces`, which may be cut anywhere, into `spool`, each under its hash.

    Raises SandboxError `collect_failed` if they are not those that `files` name; the written files are then invalid.
    """
    stream = _Stream(iter(pieces))
    for sha256, size_bytes in contents(files).items():
        if not _SHA256.fullmatch(sha256):
            raise _failed("a file has a hash that is none")
        with (spool / sha256).open("xb") as target:
            found = stream.copy(size_bytes, target)
        if found != sha256:
            raise _failed("a file came with other bytes than its hash says")
    if stream.has_more():
        raise _failed("more bytes came than the files of the run have")


class _Stream:
    """Reads a sequence of pieces in amounts of any size."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")

    def copy(self, size_bytes: int, target: BinaryIO) -> str:
        """Write the next bytes to `target` and return their sha256."""
        sha256, left = hashlib.sha256(), size_bytes
        while left > 0:
            if not self.has_more():
                raise _failed("the bytes of the files end too early")
            part, self._held = self._held[:left], self._held[left:]
            sha256.update(part)
            target.write(part)
            left -= len(part)
        return sha256.hexdigest()

    def has_more(self) -> bool:
        while not self._held:
            piece = next(self._pieces, None)
            if piece is None:
                return False
            self._held = memoryview(piece)
        return True


def _failed(message: str) -> SandboxError:
    return SandboxError(message, code="collect_failed")
