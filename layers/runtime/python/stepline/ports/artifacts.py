"""Artifacts: bytes written once, under a key that names their content or the call that made them; and their uploads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from stepline.model.file.upload_slot import Upload
    from stepline.model.ids import Lane


class Artifacts(Protocol):
    """An object store whose objects never change, except for the logs of running programs."""

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        """Write the object if the key is free; return True if this call wrote it."""

    def replace(self, key: str, body: bytes, *, mime: str) -> None:
        """Write the object, replacing an older one. Raises DependencyError."""

    def get(self, key: str) -> bytes:
        """Return the object's bytes. Raises NotFoundError, DependencyError."""

    def stream(self, key: str) -> Iterator[bytes]:
        """Yield the object's bytes in pieces, for an object too large for memory.

        Raises NotFoundError, DependencyError.
        """

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        """Yield the first bytes of each object, in the order of the keys; a few are read ahead.

        Raises NotFoundError, DependencyError.
        """

    def size(self, key: str) -> int | None:
        """Return the object's size; None if it does not exist or may not be read. Raises DependencyError."""


class Uploads(Protocol):
    """The rows of uploads; each is kept for as long as a message that names it may be sent again."""

    def begin(self, lane: Lane, upload: Upload) -> None:
        """Store a new upload. Raises DependencyError."""

    def get(self, lane: Lane, upload_id: str) -> Upload | None:
        """Return an upload, by a strong read; None if the conversation has none of this id."""

    def settle(self, lane: Lane, upload: Upload) -> Upload:
        """Replace an upload that has no final state yet; return the stored one: the first final state stays.

        Raises NotFoundError: the row is gone; DependencyError.
        """
