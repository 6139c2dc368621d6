"""Artifacts: bytes written once, under a key that names their content or the call that made them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class Artifacts(Protocol):
    """An object store whose objects never change, but for the logs of running programs."""

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        """Write the object if the key is free; return True if this call wrote it."""
        ...

    def replace(self, key: str, body: bytes, *, mime: str) -> None:
        """Write the object in the place of an older one. Raises DependencyError."""
        ...

    def get(self, key: str) -> bytes:
        """Return the object's bytes. Raises NotFoundError, DependencyError."""
        ...

    def stream(self, key: str) -> Iterator[bytes]:
        """Yield the object's bytes in pieces, for one too large for memory.

        Raises NotFoundError, DependencyError.
        """
        ...

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        """Yield the first bytes of each object, in the order of the keys; a few are read ahead.

        Raises NotFoundError, DependencyError.
        """
        ...

    def size(self, key: str) -> int | None:
        """Return the object's size; None if it does not exist or may not be read. Raises DependencyError."""
        ...
